"""A model file is data: nothing is imported or run because a model says so."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset

F = TensorProto.FLOAT
NAMES = ("trap_a", "trap_b", "trap_pkg", "trap_pkg.inner", "subprocess_like")


class Trap:
    """Modules on sys.path that say that they were imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "ran"

    def write(self, name: str, text: str = "") -> None:
        sentinel = f"with open({str(self.mark)!r}, 'a') as mark: mark.write({name!r} + ' ')\n"
        (self.folder / f"{name}.py").write_text(
            sentinel + text + "\nclass C:\n    def compute(self, x):\n        return x\n",
            encoding="utf-8",
        )

    @property
    def ran(self) -> list[str]:
        return self.mark.read_text(encoding="utf-8").split() if self.mark.exists() else []


@pytest.fixture
def trap(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Trap(tmp_path)
    yield made
    for name in NAMES:
        sys.modules.pop(name, None)


def pyop(module, class_name="C", output="y", **attrs):
    attrs |= {"module": module, "class_name": class_name, "input_types": [F], "output_types": [F]}
    return helper.make_node("PyOp", ["x"], [output], domain="d", **attrs)


def model(*nodes):
    x = helper.make_tensor_value_info("x", F, [1])
    y = helper.make_tensor_value_info(nodes[-1].output[0], F, None)
    made = helper.make_model(helper.make_graph(list(nodes), "g", [x], [y]))
    made.ir_version = newest_ir_version()
    made.opset_import[0].version = newest_opset()
    return made


def in_if(node):
    node.output[0] = "inner"
    inner = helper.make_graph([node], "b", [], [helper.make_tensor_value_info("inner", F, None)])
    flag = helper.make_tensor("t", TensorProto.BOOL, [], [True])
    true = helper.make_node("Constant", [], ["c"], value=flag)
    return model(true, helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner))


def in_function(node):
    imports = [helper.make_opsetid("", newest_opset())]
    made = model(helper.make_node("F", ["x"], ["y"], domain="local"))
    made.functions.append(helper.make_function("local", "F", ["x"], ["y"], [node], imports))
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


def in_uncalled_function(node):
    made = in_function(node)
    made.graph.node[0].CopyFrom(helper.make_node("Neg", ["x"], ["y"]))
    return made


def in_list_of_graphs(node):
    graph = helper.make_graph([node], "b", [], [])
    return model(helper.make_node("Other", ["x"], ["y"], domain="other", bodies=[graph, graph]))


PLACES = [model, in_if, in_function, in_uncalled_function, in_list_of_graphs]


@pytest.mark.parametrize("place", PLACES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("module", "class_name"),
    [
        ("subprocess", "Popen"),
        ("os", "system"),
        ("builtins", "eval"),
        ("trap_a", "C"),
        ("sys", "C"),
        ("pyopnb", "Session"),
    ],
)
def test_nothing_is_imported_because_a_model_says_so(trap, place, module, class_name):
    trap.write("trap_a")
    with pytest.raises(pyopnb.errors.ModuleRefused) as caught:
        pyopnb.Session(place(pyop(module, class_name, args=f"touch {trap.mark}")))
    assert trap.ran == []
    assert "trap_a" not in sys.modules
    assert f"module {module}" in str(caught.value)
    assert f"modules=['{module}']" in str(caught.value)
    assert isinstance(caught.value, PermissionError)


def test_an_allowed_module_is_not_imported_while_another_is_refused(trap):
    trap.write("trap_a")
    trap.write("trap_b")
    for made in (
        model(pyop("trap_a", output="m"), pyop("trap_b")),
        model(pyop("trap_b", output="m"), pyop("trap_a")),
    ):
        with pytest.raises(pyopnb.errors.ModuleRefused, match="trap_b"):
            pyopnb.Session(made, modules=["trap_a"])
    assert trap.ran == []


def test_a_bad_node_after_an_allowed_one_stops_the_import(trap):
    trap.write("trap_a")
    with pytest.raises(pyopnb.errors.ModelError):
        pyopnb.Session(
            model(pyop("trap_a", output="m"), pyop("trap_a", "__class__")), modules=["trap_a"]
        )
    assert trap.ran == []


@pytest.mark.parametrize(
    "modules",
    [True, "trap_a", b"trap_a", 1, None, [True], [None], [b"trap_a"], [""], {"trap_a": 1}.values(), object()],
)  # fmt: skip
def test_only_a_list_of_names_allows_anything(trap, modules):
    trap.write("trap_a")
    with pytest.raises(pyopnb.errors.ModelError, match=r"modules|nothing is imported"):
        pyopnb.Session(model(pyop("trap_a")), modules=modules)
    assert trap.ran == []


@pytest.mark.parametrize(
    "allowed",
    ["trap_*", "*", "trap", "trap_", "TRAP_A", *("trap_a.", ".trap_a", " trap_a", "trap_a.C", "[t]rap_a")],
)  # fmt: skip
def test_names_are_exact(trap, allowed):
    trap.write("trap_a")
    with pytest.raises(pyopnb.errors.ModuleRefused):
        pyopnb.Session(model(pyop("trap_a")), modules=[allowed])
    assert trap.ran == []


def test_a_package_does_not_allow_what_is_inside_it(trap):
    (trap.folder / "trap_pkg").mkdir()
    trap.write("trap_pkg/__init__")
    trap.write("trap_pkg/inner")
    with pytest.raises(pyopnb.errors.ModuleRefused, match=r"trap_pkg\.inner"):
        pyopnb.Session(model(pyop("trap_pkg.inner")), modules=["trap_pkg"])
    assert trap.ran == []


@pytest.mark.parametrize(
    "name",
    ["Popen.__init__", "a.b", "__class__", "__import__", "", "a b", "a-b", "1a", "class", "a\n", "a\0", "C()", "é.x"],
)  # fmt: skip
def test_class_and_method_names_are_one_identifier(trap, name):
    trap.write("trap_a")
    for node in (pyop("trap_a", name), pyop("trap_a", compute=name)):
        with pytest.raises(pyopnb.errors.ModelError):
            pyopnb.Session(model(node), modules=["trap_a"])
    assert trap.ran == []


@pytest.mark.parametrize(
    "text",
    [
        "from subprocess import Popen",
        "import subprocess\nPopen = subprocess.Popen",
        "import os\nPopen = os.system",
        "Popen = eval",
        "class Popen:\n    __module__ = 'subprocess'\n    def compute(self, x): raise AssertionError('ran')",
        "def Popen(*a, **k): raise AssertionError('ran')",
        "def __getattr__(name):\n    import subprocess\n    return subprocess.Popen",
    ],
)
def test_an_allowed_module_offers_only_the_classes_that_it_defines(trap, text):
    trap.write("trap_a", text)
    with pytest.raises(pyopnb.errors.ModuleRefused, match="a class that trap_a itself defines"):
        pyopnb.Session(model(pyop("trap_a", "Popen")), modules=["trap_a"])
    assert trap.ran == ["trap_a"]


@pytest.mark.parametrize(
    "claim",
    [
        "__module__ = 'trap_a'",
        "__module__ = type('Any', (str,), {'__eq__': lambda *a: True, '__ne__': lambda *a: False, '__hash__': None})('trap_a')",
    ],
)
def test_a_class_of_another_module_that_claims_to_be_of_the_allowed_one(trap, claim):
    trap.write(
        "trap_b",
        f"class Foreign:\n    {claim}\n    def compute(self, x): raise AssertionError('ran')",
    )
    trap.write("trap_a", "from trap_b import Foreign")
    with pytest.raises(pyopnb.errors.ModuleRefused, match="a class that trap_a itself defines"):
        pyopnb.Session(model(pyop("trap_a", "Foreign")), modules=["trap_a"])


def test_a_class_with_decorated_or_inherited_methods_is_the_modules_own(trap):
    trap.write(
        "trap_b",
        """import functools
def plain(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
class Base:
    def compute(self, x): return x""",
    )
    trap.write(
        "trap_a",
        """import trap_b
class Decorated:
    @trap_b.plain
    def compute(self, x): return x
class Inherits(trap_b.Base): pass""",
    )
    for name in ("Decorated", "Inherits"):
        pyopnb.Session(model(pyop("trap_a", name)), modules=["trap_a"])


@pytest.mark.parametrize("name", ["missing", "value"])
def test_a_compute_that_is_no_method(trap, name):
    trap.write("trap_a", "class D:\n    value = 3")
    with pytest.raises(pyopnb.errors.ModelError, match=f"a method {name}"):
        pyopnb.Session(model(pyop("trap_a", "D", compute=name)), modules=["trap_a"])


def test_metadata_of_the_model_and_the_environment_allow_nothing(trap, monkeypatch):
    trap.write("trap_a")
    made = model(pyop("trap_a"))
    helper.set_model_props(made, {"modules": "trap_a", "trust_remote_code": "True"})
    monkeypatch.setenv("PYOPNB_MODULES", "trap_a")
    with pytest.raises(pyopnb.errors.ModuleRefused):
        pyopnb.Session(made)
    assert trap.ran == []


def test_what_a_session_allows_is_not_allowed_inside_its_ops(trap):
    trap.write("trap_b")
    inner = model(pyop("trap_b"))

    class Opens:
        def __init__(self):
            self.inner = pyopnb.Session(inner)

        def compute(self, x):
            return x

    pyopnb.registry.define(Opens, "d::Opens")
    with pytest.raises(pyopnb.errors.ModuleRefused):
        pyopnb.Session(
            pyopnb.model([pyopnb.node("d::Opens", "x", "y")], {"x": "float32[1]"}, "y"),
            modules=["trap_b"],
        )
    assert trap.ran == []


@pytest.mark.parametrize(
    "hostile", ["\x1b[31mred", "a\u202eb", "a\u2066b", "\x00", "a\rb", "\x9b31m", "\u2028"]
)
def test_names_from_a_model_are_escaped_in_messages(hostile):
    texts = []
    for node in (
        pyop(hostile),
        pyop("m", hostile),
        pyop("m", output=hostile),
        pyop("m", name=hostile),
    ):
        with pytest.raises(pyopnb.errors.ModelError) as caught:
            pyopnb.Session(model(node))
        texts.append(str(caught.value))
    bad = next(c for c in hostile if not c.isprintable())
    assert not any(bad in text for text in texts)


def test_functions_that_call_each_other_are_refused():
    pyopnb.registry.define(type("C", (), {"compute": lambda self, x: x}), "d::C")
    function = '<domain: "local", opset_import: ["local" : 1, "d" : 1]> '
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[1] x) => (float[1] y) {{ y = local.F(x) }}
        {function} F (x) => (y) {{ m = local.G(x)  y = d.C(m) }}
        {function} G (x) => (y) {{ m = local.F(x)  y = d.C(m) }}""")
    with pytest.raises(pyopnb.errors.ModelError, match=r"local::[FG].*calls itself"):
        pyopnb.Session(made)
