"""The cell for a node: it says what the model says, runs as written, and holds no code of the model's."""

from __future__ import annotations

import ast
from typing import Any

import node_tests
import numpy as np
import onnx
import pytest
from audit.calls import cases_of
from audit.cases import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper

import pyopnb
from pyopnb.engine.models.protos import walk
from pyopnb.errors import PyopError
from pyopnb.onnx_reference.corrections.table import corrected_operators

F = np.float32


def defined(cell: str) -> type:
    """Run a cell as ``%%pyop`` does, without IPython, and return its class."""
    first, _, body = cell.partition("\n")
    words = first.split()[1:]
    names: dict[str, Any] = {"__name__": "cell"}
    exec(body, names)
    (cls,) = (value for value in names.values() if isinstance(value, type))
    domain = words[words.index("-d") + 1] if "-d" in words else "pyopnb"
    named = words[-1] if words and "-d" not in words[-2:-1] else cls.__name__
    pyopnb.pyop(named if "::" in named else f"{domain}::{named}")(cls)
    return cls


def scale(*nodes: NodeProto, **kinds: str) -> ModelProto:
    return pyopnb.model(list(nodes), kinds or {"x": "float32[N,3]"}, nodes[-1].output)


# ---- what it says ------------------------------------------------------------------------------------------------------------


def test_an_operator_that_the_runtime_lacks_runs_as_written() -> None:
    model = pyopnb.model(
        pyopnb.node("Celu", "x", "y", alpha=2.0), {"x": "float64[N]"}, {"y": "float64[N]"}, opset=12
    )
    cell = pyopnb.skeleton(model, "y")
    assert cell.startswith("%%pyop ::Celu\nimport numpy as np\nimport pyopnb\n")
    assert "alpha: float = 2.0" in cell and 'compute(self, X: "float64[N]") -> "float64[N]"' in cell
    assert '"""Continuously Differentiable Exponential' in cell
    assert not pyopnb.registry and defined(cell).__name__ == "Celu"
    x = np.float64([-1, 2])
    np.testing.assert_allclose(pyopnb.Session(model)(x=x)["y"], [2 * np.expm1(-0.5), 2])


def test_an_operator_that_the_runtime_has_gets_the_default_domain() -> None:
    model = scale(pyopnb.node("Softmax", "x", "y", axis=1))
    cell = pyopnb.skeleton(model, "Softmax")
    assert cell.startswith("%%pyop\n") and "# ONNX Runtime has ::Softmax" in cell
    defined(cell)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(F)
    mine, own = (
        pyopnb.Session(pyopnb.replace(model, "Softmax", "pyopnb::Softmax")),
        pyopnb.Session(model),
    )
    np.testing.assert_allclose(mine(x)["y"], own(x)["y"], rtol=1e-6)


def test_ports_that_are_optional_and_variadic() -> None:
    model = pyopnb.model(
        [pyopnb.node("Clip", ["x", "", "m"], "c"), pyopnb.node("Concat", "c c", "y", axis=0)],
        {"x": "float32[2]", "m": "float32[]"},
        "y",
    )
    assert (
        'compute(self, input: "float32[2]", min=None, max: "float32[]" = None)'
        in pyopnb.skeleton(model, "Clip")
    )
    concat = pyopnb.skeleton(model, "Concat")
    assert (
        'compute(self, *inputs: "float32[2]") -> "float32[4]"' in concat
        and "*inputs, opset=" in concat
    )


def test_the_class_serves_every_node_of_the_operator() -> None:
    # The first has its alpha, the second leaves it to the definition; their
    # shapes and ranks differ.
    model = pyopnb.model(
        [pyopnb.node("Celu", "a", "b", alpha=2.0), pyopnb.node("Celu", "c", "d")],
        {"a": "float64[N]", "c": "float64[2,3]"},
        {"b": "float64[N]", "d": "float64[2,3]"},
        opset=12,
    )
    cell = pyopnb.skeleton(model, "b")
    assert "alpha: float = 1.0" in cell and 'X: "float64[...]") -> "float64[...]"' in cell
    defined(cell)
    b, d = pyopnb.Session(model)(a=np.float64([-1]), c=-np.ones((2, 3)))
    np.testing.assert_allclose(b, [2 * np.expm1(-0.5)])
    np.testing.assert_allclose(d, np.full((2, 3), np.expm1(-1)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (F(0.1).item(), "float = 0.10000000149011612"),
        (float("nan"), "float = float('nan')"),
        (float("-inf"), "float = float('-inf')"),
        ([1.5, float("inf")], "list[float] = [1.5, float('inf')]"),
        (-3, "int = -3"),
        ("it's", 'str = "it\'s"'),
        ("\u202ea\n", "str = '\\u202ea\\n'"),
        (b"\xff", "bytes = b'\\xff'"),
        (["a", "b"], "list[str] = ['a', 'b']"),
        (np.int64([[1], [2]]), "np.ndarray = np.array([1, 2], dtype=np.int64).reshape((2, 1))"),
        (np.array([True]), "np.ndarray = np.array([True], dtype=np.bool_)"),
        (np.array(["a"], object), "np.ndarray = np.array(['a'], dtype=object)"),
        (np.zeros(1000, F), "v: np.ndarray,  # an array of float32, 1000"),
        (list(range(1000)), "v: list[int],  # 1000 values"),
        (onnx.parser.parse_graph("g (float x) => (float y) { y = Abs(x) }"), "v: onnx.ModelProto"),
    ],
)
def test_values_of_attrs(value: object, text: str) -> None:
    model = scale(pyopnb.node("com.example::A", "x", "y", v=value))
    cell = pyopnb.skeleton(model, "A")
    assert text in cell
    cls = defined(cell)
    default = pyopnb.registry["com.example::A"].current.schema.attrs[0].default
    if "=" in text:
        np.testing.assert_array_equal(
            default, np.asarray(value, object) if isinstance(value, list) else value
        )
    assert cls.__name__ == "A"


def test_a_node_in_a_body_and_one_in_a_function() -> None:
    model = pyopnb.parse("""<opset_import: ["" : 12, "local" : 1]>
        (double[2] x) => (double[2] y) { y = local.F<alpha = 2.0>(x) }
        <domain: "local", opset_import: ["" : 12]> F <alpha> (a) => (b) { b = Celu<alpha: float = @alpha>(a) }""")
    cell = pyopnb.skeleton(model, "Celu")
    assert cell.startswith("%%pyop ::Celu") and "opset=12" in cell
    defined(cell)
    np.testing.assert_allclose(
        pyopnb.Session(model)(x=-np.ones(2))["y"], np.full(2, 2 * np.expm1(-0.5))
    )


@pytest.mark.parametrize(
    ("op", "nodes"),
    [
        ("IsNaN", "b = IsNaN(x)  y = Where(b, x, x)"),
        ("Where", "b = IsNaN(x)  y = Where(b, x, x)"),
        ("TopK", "k = Constant<value_ints = [1]>()  v, i = TopK(x, k)  y = Cast<to = 1>(i)"),
        ("Shape", "s = Shape(x)  y = Reshape(x, s)"),
        ("Cast", "b = Cast<to = 9>(x)  y = Cast<to = 1>(b)"),
        ("CastLike", "b = Cast<to = 9>(x)  y = CastLike(b, x)"),
        (
            "QuantizeLinear",
            "s = Constant<value_float = 0.5>()  q = QuantizeLinear(x, s)  y = Cast<to = 1>(q)",
        ),
    ],
)
def test_a_node_in_the_graph_and_in_a_function(op: str, nodes: str) -> None:
    """Nothing is known of types inside a function, where the KNNImputer of skl2onnx has nodes of the graph's operators."""
    model = pyopnb.parse(f"""<opset_import: ["" : 17, "local" : 1]>
        (float[N,3] x) => (float[M,K] z, float[P,Q] y) {{ z = local.F(x)  {nodes} }}
        <domain: "local", opset_import: ["" : 17]> F (x) => (y) {{ {nodes} }}""")
    feeds = {"x": np.float32([[1, np.nan, -3], [0, 2, 9]])}
    if op == "TopK":
        # ONNX does not say where NaN belongs, and onnxruntime 1.25 has it elsewhere than 1.32.
        feeds = {"x": np.nan_to_num(feeds["x"])}
    for site in [site for site in walk(model) if site.node.op_type == op]:
        pyopnb.registry.clear()
        defined(pyopnb.skeleton(model, site.node))
        replaced = pyopnb.replace(model, f"::{op}", f"pyopnb::{op}")
        result, own = pyopnb.Session(replaced)(feeds), pyopnb.Session(model)(feeds)
        for name in ("z", "y"):
            np.testing.assert_array_equal(result[name], own[name])


@pytest.mark.parametrize("wrong", ["h", "y", "all"])
def test_a_declared_shape_that_is_wrong(wrong: str) -> None:
    """ONNX Runtime warns of it and computes the right one."""
    infos = {name: helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xhy"}
    for name in "hy" if wrong == "all" else wrong:
        infos[name] = helper.make_tensor_value_info(name, 1, [2, 4])
    nodes = [helper.make_node("Softmax", ["x"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["y"]], value_info=[infos["h"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    cell = pyopnb.skeleton(model, "y")
    assert 'input: "float32[2,3]") -> "float32[2,3]"' in cell
    defined(cell)
    x = np.ones((2, 3), F)
    replaced = pyopnb.Session(pyopnb.replace(model, "::Softmax", "pyopnb::Softmax"))
    np.testing.assert_allclose(replaced(x)["y"], np.full((2, 3), 1 / 3), rtol=1e-6)


@pytest.mark.parametrize("version", [1, 6])
def test_a_dropout_with_its_mask_before_the_reference(version: int) -> None:
    infos = [helper.make_tensor_value_info(name, 1, ["N"]) for name in "xym"]
    node = helper.make_node("Dropout", ["x"], ["y", "m"], is_test=1)
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    imports = [helper.make_opsetid("", version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=3)
    cell = pyopnb.skeleton(model, "y")
    assert cell.startswith("%%pyop ::Dropout\n")
    defined(cell)
    result = pyopnb.Session(model)(x=F([1, -2]))
    np.testing.assert_array_equal(result["y"], F([1, -2]))
    assert result["m"].shape == (2,)


def test_a_schema_without_documentation() -> None:
    port = onnx.defs.OpSchema.FormalParameter
    schema = onnx.defs.OpSchema(
        *("Undocumented", "undocumented.domain", 1),
        inputs=[port("x", "T")],
        outputs=[port("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
    )
    onnx.defs.register_schema(schema)
    try:
        cell = pyopnb.skeleton(
            scale(pyopnb.node("undocumented.domain::Undocumented", "x", "y")), "y"
        )
    finally:
        onnx.defs.deregister_schema("Undocumented", 1, "undocumented.domain")
    assert "class Undocumented:\n    def compute(self, x" in cell


# ---- every operator ----------------------------------------------------------------------------------------------------------


def nodes_of(schema: Any, *, whole: bool) -> ModelProto | None:
    """A model of one node with all ports of its operator, or with the fewest; None where one is no tensor."""
    chosen: dict[str, int] = {}
    kinds = {
        f"tensor({TensorProto.DataType.Name(n).lower()})": n for n in (1, 7, 9, 8, 2, 6, 10, 11)
    }

    def infos(ports: Any, fewest: int, letter: str) -> list[Any]:
        made = []
        for number, port in enumerate(ports):
            if not whole and number >= fewest:
                break
            allowed = [number for kind, number in kinds.items() if kind in port.types]
            kind = chosen.setdefault(port.type_str, allowed[0] if allowed else 0)
            made.append(helper.make_tensor_value_info(f"{letter}{number}", kind, None))
        return made

    inputs = infos(schema.inputs, schema.min_input, "i")
    outputs = infos(schema.outputs, max(1, schema.min_output), "o")
    if not outputs or 0 in chosen.values():
        return None
    names = [[info.name for info in group] for group in (inputs, outputs)]
    node = helper.make_node(schema.name, *names, domain=schema.domain)
    body = helper.make_graph([], "body", [], [])
    tensor = helper.make_tensor("t", 1, [1], [1.0])
    values = [None, 1.0, 1, "a", tensor, body, [1.0], [1], ["a"]]
    for name, attr in schema.attributes.items():
        if attr.required:
            node.attribute.append(helper.make_attribute(name, values[int(attr.type.value)]))
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = {"": 17, schema.domain: schema.since_version}
    imports = [helper.make_opsetid(*pair) for pair in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("whole", [True, False], ids=["all ports", "the fewest ports"])
def test_every_operator_of_onnx_has_a_skeleton_that_is_a_cell(whole: bool) -> None:
    count = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        model = nodes_of(schema, whole=whole)
        if model is None:
            continue
        pyopnb.registry.clear()
        cell = pyopnb.skeleton(model, model.graph.node[0])
        try:
            defined(cell)
        except Exception as error:
            raise AssertionError(f"{schema.name}-{schema.since_version}\n{cell}") from error
        count += 1
    assert count > 500


DRAWN = ("Random", "Bernoulli", "Multinomial")


def model_of(case: Case, expected: tuple[Any, ...]) -> ModelProto:
    """The call as the one node of a model, with its types declared."""
    arrays = {f"i{number}": array for number, array in enumerate(case.inputs) if array is not None}
    results = {f"o{number}": array for number, array in enumerate(expected)}
    names = [f"i{number}" if f"i{number}" in arrays else "" for number in range(len(case.inputs))]
    node = helper.make_node(case.op, names, [*results], domain=case.domain, **case.attrs)
    infos = []
    for group in (arrays, results):
        pairs = [(name, np.asarray(array)) for name, array in group.items()]
        types = [
            helper.np_dtype_to_tensor_dtype(
                np.dtype(object) if array.dtype.kind == "U" else array.dtype
            )
            for _, array in pairs
        ]
        infos.append(
            [
                helper.make_tensor_value_info(name, type_, array.shape)
                for (name, array), type_ in zip(pairs, types, strict=True)
            ]
        )
    graph = helper.make_graph([node], "g", *infos)
    opsets = {"": 17, case.domain: case.version}
    imports = [helper.make_opsetid(*pair) for pair in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.one_python
def test_a_call_of_every_operator_runs_through_its_skeleton() -> None:
    """What the reference computes of a call, the op of the cell computes in the node's place."""
    count = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        for case in cases_of(schema)[:1]:
            if case.op.startswith(DRAWN) or any(isinstance(value, list) for value in case.inputs):
                continue
            arrays = [None if value is None else np.asarray(value) for value in case.inputs]
            where = {"opset": case.version, "outputs": case.outputs}
            try:
                expected = pyopnb.reference(
                    f"{case.domain}::{case.op}", *arrays, **where, **case.attrs
                )
            except PyopError:
                # The table of the audit has what the reference refuses.
                continue
            expected = expected if isinstance(expected, tuple) else (expected,)
            if any(isinstance(value, list) for value in expected):
                continue
            model = model_of(case, expected)
            pyopnb.registry.clear()
            cell = pyopnb.skeleton(model, model.graph.node[0])
            defined(cell)
            (op,) = pyopnb.registry
            if op.domain != case.domain:
                model = pyopnb.replace(model, model.graph.node[0], op.name)
            given = {f"i{n}": array for n, array in enumerate(arrays) if array is not None}
            result = pyopnb.Session(model)(given)
            for number, array in enumerate(expected):
                np.testing.assert_array_equal(result[f"o{number}"], array, f"{case}\n{cell}")
            count += 1
    assert count > 500


@pytest.mark.parametrize(
    ("body", "node", "got"),
    [
        (
            "s = SequenceConstruct(x, x)  y = ConcatFromSequence<axis = 0>(s)",
            "s",
            r"output s: .* got a value of type sequence",
        ),
        (
            "s = SequenceConstruct(x, x)  y = ConcatFromSequence<axis = 0>(s)",
            "y",
            r"input s: .* got a value of type sequence",
        ),
        (
            "o = Optional(x)  y = OptionalGetElement(o)",
            "y",
            r"input o: .* got a value of type optional",
        ),
        (
            "z = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(x)  y = Abs(x)",
            "z",
            r"output z: .* got a value of type sequence",
        ),
    ],
)
def test_values_that_no_op_can_have(body: str, node: str, got: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[N,2] x) => (float[...] y)'
    model = pyopnb.parse(f"{head} {{ {body} }}")
    expected = f'skeleton of .*, {got}. Try: pyopnb.trace\\(model, feeds, on="reference"\\)'
    with pytest.raises(pyopnb.errors.ModelError, match=expected):
        pyopnb.skeleton(model, node)
    x = np.float32([[1, 2]])
    assert pyopnb.diff(
        pyopnb.trace(model, x, on="reference")["y"], pyopnb.Session(model)(x)["y"]
    ).ok, "what is said to go"


# ---- a model file is data ----------------------------------------------------------------------------------------------------

HOSTILE = [
    'x): import os; os.system("touch /tmp/pwned")',
    '"""\nimport os\n"""',
    "\\",
    "'",
    "\n",
    "# \r\x0c\u2028import os",
    "class",
    "self",
    "__init__",
    "__x",
    "compute",
    "np",
    "pyopnb",
    "attrs",
    "ﬁ",
    "9",
    "",
    "\u202e",
    "{0}",
    "None",
    "x=None, *y",
    "a" * 5000,
]
TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=12)


@st.composite
def models(draw: Any) -> ModelProto:
    inputs = draw(st.lists(TEXTS, max_size=4))
    outputs = [
        name
        for name in draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
        if name not in inputs
    ] or ["y"]
    node = helper.make_node(
        draw(st.sampled_from(["Foo", "Celu", "Concat", "None", "class", "np"])), inputs, outputs
    )
    node.name, node.doc_string, node.domain = (
        draw(TEXTS),
        draw(TEXTS),
        draw(st.sampled_from(["com.example", "", "-q", "a-b"])),
    )
    for name in draw(st.lists(TEXTS, max_size=4, unique=True)):
        values = st.one_of(
            TEXTS,
            st.floats(width=32),
            st.integers(-(2**63), 2**63 - 1),
            st.binary(max_size=5),
            st.lists(TEXTS, min_size=1, max_size=3),
        )
        node.attribute.append(helper.make_attribute(name, draw(values)))
    symbol = draw(TEXTS)
    infos = [
        helper.make_tensor_value_info(
            name,
            draw(st.sampled_from([1, 7, 8, 14])),
            draw(st.sampled_from([None, [], [symbol, 3]])),
        )
        for name in dict.fromkeys(inputs)
    ]
    ends = [helper.make_tensor_value_info(name, 1, [symbol]) for name in outputs if name]
    return helper.make_model(
        helper.make_graph([node], draw(TEXTS), infos, ends),
        opset_imports=[helper.make_opsetid("", 13)],
    )


def statements(cell: str) -> None:
    """The cell holds the imports, one class with its two methods, and in these nothing but what a skeleton has."""
    first, _, body = cell.partition("\n")
    assert first.isprintable() and first.startswith("%%pyop")
    tree = ast.parse(body)
    *imports, cls = tree.body
    assert {ast.unparse(node) for node in imports} <= {
        "import numpy as np",
        "import onnx",
        "import pyopnb",
    }
    assert isinstance(cls, ast.ClassDef) and not cls.bases and not cls.decorator_list
    methods = (
        cls.body[1:]
        if isinstance(cls.body[0], ast.Expr) and isinstance(cls.body[0].value, ast.Constant)
        else cls.body
    )
    assert [getattr(method, "name", None) for method in methods] in (
        ["__init__", "compute"],
        ["compute"],
    )
    for method in methods:
        assert isinstance(method, ast.FunctionDef) and not method.decorator_list
        for node in ast.walk(method):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) in (
                    "float",
                    "np.array",
                    "pyopnb.reference",
                    "NotImplementedError",
                ) or ast.unparse(node.func).endswith(".reshape")
        assert all(isinstance(line, (ast.Assign, ast.Return, ast.Raise)) for line in method.body)


@pytest.mark.one_python  # long, and of our own quoting
@given(models())
@settings(max_examples=60)
def test_texts_of_the_model_stay_data(model: ModelProto) -> None:
    cell = pyopnb.skeleton(model, model.graph.node[0])
    statements(cell)
    body = cell.partition("\n")[2]
    names: dict[str, Any] = {"__name__": "cell"}
    exec(body, names)
    (cls,) = (value for value in names.values() if isinstance(value, type))
    pyopnb.engine.ops.signature.schema_of(cls)  # and it is a class that can be an op


def test_the_check_of_statements_can_fail() -> None:
    with pytest.raises(AssertionError):
        statements("%%pyop\nclass A:\n    def compute(self, x):\n        return __import__('os')\n")


# ---- the ONNX node tests -------------------------------------------------------------------------------------------------------


def through_skeleton(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """The results of a one-node model whose node runs through its skeleton."""
    pyopnb.registry.clear()
    node = model.graph.node[0]
    defined(pyopnb.skeleton(model, node))
    (op,) = pyopnb.registry
    mine = ModelProto()
    mine.CopyFrom(model)
    mine.graph.node[0].domain = op.domain
    del mine.opset_import[:]
    mine.opset_import.extend(
        [helper.make_opsetid("", 17), helper.make_opsetid(op.domain, 1)][: 2 if op.domain else 1]
    )
    mine.ir_version = min(
        mine.ir_version, pyopnb.engine.models.ort_capabilities.newest_ir_version()
    )
    return node_tests.run(pyopnb.Session(mine), mine, feeds)


@pytest.mark.one_python
def test_skeletons_of_onnx_s_node_tests_give_the_expected_outputs() -> None:
    cases = [case for case in node_tests.cases().values() if node_tests.can_be_an_op(case.model)]
    wrong = {case.name: node_tests.outcome(case, through_skeleton) for case in cases[::12]}
    failures = {name for name, text in wrong.items() if text}
    if onnx.__version__ != node_tests.WRITTEN_FOR[0]:
        # They expect what the reference of an older onnx gives, which is corrected or refused.
        mended = {op_type for _, op_type in corrected_operators()} | {"Attention"}
        op_types = {name: node_tests.cases()[name].model.graph.node[0].op_type for name in failures}
        failures = {name for name in failures if op_types[name] not in mended}
    assert failures <= node_tests.NO_REFERENCE


LONG = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("types", "node", "feeds"),
    [
        ("(float[1,2,5] x) => (float[1,2,1] y)", "GlobalMaxPool(x)", {"x": LONG[:5].T[None]}),
        (
            "(float[100,2] x, int64[3,2] i) => (float[3,2] y)",
            "GatherElements(x, i)",
            {"x": LONG, "i": np.int64([[99, 0], [-1, 64], [5, 70]])},
        ),
    ],
)
def test_one_dimensional_and_long_inputs_of_what_onnx_gets_wrong(types, node, feeds) -> None:
    model = pyopnb.parse(f'<opset_import: ["" : 17]> {types} {{ y = {node} }}')
    op = node.partition("(")[0]
    defined(pyopnb.skeleton(model, "y"))
    replaced = pyopnb.replace(model, f"::{op}", f"pyopnb::{op}")
    assert pyopnb.diff(pyopnb.run(replaced, feeds), pyopnb.run(model, feeds)).ok


def test_an_attr_that_this_version_has_no_more_is_in_the_cell() -> None:
    nodes = [
        helper.make_node("BatchNormalization", [*"xsbmv"], ["y"], consumed_inputs=[0, 0, 0, 1, 1])
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "sbmv"]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3])
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output]), opset_imports=[helper.make_opsetid("", 7)]
    )
    assert "consumed_inputs" in pyopnb.skeleton(model, "y")
