"""The retired Python Operator's nodes: its own tests, its document's example, what it did, and what it did wrong."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pyopnb
from pyopnb.models.ort_capabilities import newest_ir_version, newest_opset

F = TensorProto.FLOAT
X = np.float32([[1, 2], [3, 4]])
Writer = Callable[[str], None]


@pytest.fixture
def mymodule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """Writes mymodule.py into a folder on sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mymodule", None)

    def write(text: str) -> None:
        (tmp_path / "mymodule.py").write_text("import numpy as np\n" + textwrap.dedent(text))

    yield write
    sys.modules.pop("mymodule", None)


def clamped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The literal calls of 2020 with today's onnx write versions that no runtime takes yet."""
    model.ir_version = newest_ir_version()
    model.opset_import[0].version = newest_opset()
    return model


def value(name: str, shape: Any = (2, 2), kind: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def pyop(
    inputs: list[str],
    outputs: list[str],
    class_name: str = "C",
    domain: str = "mydomain",
    takes: list[int] | None = None,
    gives: list[int] | None = None,
    **attrs: Any,
) -> onnx.NodeProto:
    takes, gives = takes or [F] * len(inputs), gives or [F] * len(outputs)
    return helper.make_node(
        "PyOp",
        inputs,
        outputs,
        domain=domain,
        module="mymodule",
        class_name=class_name,
        input_types=takes,
        output_types=gives,
        **attrs,
    )


def model(
    nodes: list[onnx.NodeProto], shape: Any = (2, 2), kind: int = F, out: int = F
) -> onnx.ModelProto:
    return clamped(
        helper.make_model(
            helper.make_graph(nodes, "g", [value("X", shape, kind)], [value("Y", None, out)])
        )
    )


def session(nodes: list[onnx.NodeProto], **more: Any) -> pyopnb.Session:
    return pyopnb.Session(model(nodes, **more), modules=["mymodule"])


# ---- ONNX Runtime's own three tests, and the document ------------------------------------------------------------------------

OWN_TESTS = """
    class MyKernel:
        def __init__(self, A, B, C):
            self.a, self.b, self.c = A, B, C
        def compute(self, x):
            return x * 2
    class MyKernel_2:
        def __init__(self, A, B):
            self.a, self.b = A, B
        def compute(self, x):
            return x * 4
    class MyKernel_3:
        def __init__(self, A, B):
            self.a, self.b = A, B
        def compute(self, *kwargs):
            return kwargs[0] * 5
"""


def own(nodes: list[onnx.NodeProto], last: str) -> list[Any]:
    graph = helper.make_graph(nodes, "g", [value("X")], [value(last)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    return pyopnb.Session(made, modules=["mymodule"]).run(None, {"X": X})[0].tolist()


def test_pyop(mymodule: Writer) -> None:
    mymodule(OWN_TESTS)
    node = pyop(["X"], ["Y"], "MyKernel", "pyopfloat", A="123", B="456", C="789", compute="compute")
    assert own([node], "Y") == [[2, 4], [6, 8]]


def test_the_example_of_the_document(mymodule: Writer) -> None:
    mymodule("""
        class Multi_1:
            def __init__(self, W1, W2, W3):
                self.W1 = int(W1)
                self.W2 = int(W2)
                self.W3 = int(W3)
            def compute(self, S, P):
                ret = S + P
                return ret + self.W1, ret + self.W2, ret + self.W3
        class Multi_2:
            def compute(self, *kwargs):
                return sum(kwargs[0:-1]), sum(kwargs[1:])
    """)
    # fmt: off
    A, B, C, D, E, F_ = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "ABCDEF")
    ad1_node = helper.make_node('Add', ['A','B'], ['S'])
    mul_node = helper.make_node('Mul', ['C','D'], ['P'])
    py1_node = helper.make_node(op_type = 'PyOp', #required, must be 'PyOp'
                                inputs = ['S','P'], #required
                                outputs = ['L','M','N'], #required
                                domain = 'pyopmulti_1', #required, must be unique
                                input_types = [TensorProto.FLOAT, TensorProto.FLOAT], #required
                                output_types = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT], #required
                                module = 'mymodule', #required
                                class_name = 'Multi_1', #required
                                compute = 'compute', #optional, 'compute' by default
                                W1 = '5', W2 = '7', W3 = '9') #optional, must all be strings
    ad2_node = helper.make_node('Add', ['L','M'], ['H'])
    py2_node = helper.make_node('PyOp',['H','N','E'],['O','W'], domain = 'pyopmulti_2',
                                input_types = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT],
                                output_types = [TensorProto.FLOAT, TensorProto.FLOAT],
                                module = 'mymodule', class_name = 'Multi_2')
    sub_node = helper.make_node('Sub', ['O','W'], ['F'])
    graph = helper.make_graph([ad1_node,mul_node,py1_node,ad2_node,py2_node,sub_node], 'multi_pyop_graph', [A,B,C,D,E], [F_])
    model = helper.make_model(graph, producer_name = 'pyop_model')
    # fmt: on
    feeds = {name: np.full((2, 3), place, np.float32) for place, name in enumerate("ABCDE", 1)}
    got = pyopnb.Session(clamped(model), modules=["mymodule"])(**feeds)["F"]
    assert got.tolist() == [[37] * 3] * 2


# ---- finding the nodes -------------------------------------------------------------------------------------------------------


def branches(then: onnx.NodeProto, other: onnx.NodeProto) -> onnx.NodeProto:
    bodies = [helper.make_graph([n], "b", [], [value(n.output[0], None)]) for n in (then, other)]
    return helper.make_node("If", ["c"], ["Y"], then_branch=bodies[0], else_branch=bodies[1])


TRUE = helper.make_node(
    "Constant", [], ["c"], value=helper.make_tensor("t", TensorProto.BOOL, [], [True])
)


def test_nodes_in_bodies_and_in_bodies_of_bodies(mymodule: Writer) -> None:
    mymodule("class C:\n    def compute(self, x): return x + 1")
    inner = branches(pyop(["X"], ["a"]), helper.make_node("Neg", ["X"], ["b"]))
    inner.output[0] = "inner"
    nodes = [TRUE, branches(inner, pyop(["X"], ["d"]))]
    assert session(nodes)(X)["Y"].tolist() == (X + 1).tolist()


def test_nodes_in_functions(mymodule: Writer) -> None:
    mymodule("class C:\n    def compute(self, x): return x + 1")
    function = helper.make_function(
        "local", "F", ["X"], ["Y"], [pyop(["X"], ["Y"])], [helper.make_opsetid("", newest_opset())]
    )
    calls = [
        helper.make_node("F", ["X"], ["m"], domain="local"),
        helper.make_node("F", ["m"], ["Y"], domain="local"),
    ]
    made = model(calls)
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("local", 1))
    assert pyopnb.Session(made, modules=["mymodule"])(X)["Y"].tolist() == (X + 2).tolist()


# ---- attributes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("module", "PyOp module not specified"),
        ("class_name", "PyOp class name not specified"),
        ("input_types", "PyOp node inputs not specified"),
        ("output_types", "PyOp node outputs not specified"),
    ],
)
@pytest.mark.parametrize("how", ["gone", "empty", "other kind"])
def test_the_four_not_specified(attribute: str, words: str, how: str) -> None:
    node = pyop(["X"], ["Y"])
    place = next(i for i, a in enumerate(node.attribute) if a.name == attribute)
    kind = node.attribute[place].type
    del node.attribute[place]
    if how == "empty":
        empty = "" if kind == onnx.AttributeProto.STRING else []
        node.attribute.append(helper.make_attribute(attribute, empty, attr_type=kind))
    if how == "other kind":
        node.attribute.append(helper.make_attribute(attribute, 1.5))
    with pytest.raises(pyopnb.errors.ModelError, match=words):
        pyopnb.Session(model([node]), modules=["mymodule"])


def test_attrs_arrive_as_keyword_arguments_with_their_types(mymodule: Writer) -> None:
    mymodule("""
        class C:
            def __init__(self, **kw):
                type(self).seen = kw
            def compute(self, x): return x
    """)
    session(
        [
            pyop(
                ["X"],
                ["Y"],
                W="5",
                n=3,
                f=0.5,
                ints=[1, 2],
                t=helper.make_tensor("t", F, [1], [2.0]),
            )
        ]
    )
    seen = sys.modules["mymodule"].C.seen
    assert {k: v for k, v in seen.items() if k != "t"} == {
        "W": "5",
        "n": 3,
        "f": 0.5,
        "ints": [1, 2],
    }
    assert seen["t"].tolist() == [2.0]


def test_compute_can_have_another_name(mymodule: Writer) -> None:
    mymodule("class C:\n    def forward(self, x): return x + 1")
    assert session([pyop(["X"], ["Y"], compute="forward")])(X)["Y"].tolist() == (X + 1).tolist()


def test_an_input_of_another_type_than_said_is_refused(mymodule: Writer) -> None:
    mymodule("class C:\n    def compute(self, x): return x")
    with pytest.raises(pyopnb.errors.ModelError, match="float64"):
        session([pyop(["X"], ["Y"], takes=[TensorProto.DOUBLE])])


# ---- life of the instance ----------------------------------------------------------------------------------------------------


def test_the_method_is_looked_up_at_each_run(mymodule: Writer) -> None:
    mymodule("class C:\n    def compute(self, x): return x + 1")
    s = session([pyop(["X"], ["Y"])])
    assert s(X)["Y"][0, 0] == 2
    sys.modules["mymodule"].C.compute = lambda self, x: x + 5
    assert s(X)["Y"][0, 0] == 6


def test_inputs_are_fresh_writable_contiguous_copies_in_order(mymodule: Writer) -> None:
    mymodule("""
        class C:
            kept = []
            def compute(self, *xs):
                assert all(x.flags.writeable and x.flags.c_contiguous and x.flags.owndata for x in xs)
                C.kept.extend(xs)
                xs[0][...] += 10
                return xs[0]
    """)
    s = session([pyop(["X", "X"], ["Y"])])
    fed = X.copy()
    for _ in range(2):
        assert s(fed)["Y"].tolist() == (X + 10).tolist()
    kept = sys.modules["mymodule"].C.kept
    assert fed.tolist() == X.tolist()
    assert [k.tolist() for k in kept] == [(X + 10).tolist(), X.tolist()] * 2


# ---- results: what it took, and what it got wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["BOOL", "UINT8", "UINT16", "UINT32", "INT16", "INT32", "DOUBLE", "INT64", "FLOAT16", "STRING"],
)
def test_dtypes(mymodule: Writer, name: str) -> None:
    mymodule("class C:\n    def compute(self, x): return x[::-1]")
    kind = TensorProto.DataType.Value(name)
    x = (
        np.array([["a", "b"]] * 2, object)
        if name == "STRING"
        else X.astype(helper.tensor_dtype_to_np_dtype(kind))
    )
    s = session([pyop(["X"], ["Y"], takes=[kind], gives=[kind])], kind=kind, out=kind)
    assert s(x)["Y"].tolist() == x[::-1].tolist()


# ---- classes from the registry -----------------------------------------------------------------------------------------------


def test_a_registered_class_serves_the_node_and_follows_its_redefinition() -> None:
    @pyopnb.pyop(module="mymodule")
    class C:
        def __init__(self, W):
            self.w = np.float32(W)

        def compute(self, x):
            return x * self.w

    s = pyopnb.Session(model([pyop(["X"], ["Y"], W="3")]))
    assert s(X)["Y"].tolist() == (X * 3).tolist()

    @pyopnb.pyop(module="mymodule")
    class C:  # noqa: F811  # the cell, run again
        def __init__(self, W):
            self.w = np.float32(W)

        def compute(self, x):
            return x + self.w

    assert s(X)["Y"].tolist() == (X + 3).tolist()
    assert "mymodule" not in sys.modules


def test_a_registered_class_goes_before_an_allowed_module(mymodule: Writer) -> None:
    mymodule("raise AssertionError('imported')")

    @pyopnb.pyop(module="mymodule")
    class C:
        def compute(self, x):
            return x + 1

    assert session([pyop(["X"], ["Y"])])(X)["Y"].tolist() == (X + 1).tolist()
