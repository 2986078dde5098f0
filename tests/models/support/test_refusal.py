"""What ONNX Runtime refused, in our words: only what it said, and never of a model that it takes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

import pyopnb
from pyopnb.errors import Filled
from pyopnb.models.support.refusal import explain_refusal


def model(*nodes, kind=1, opset=17, functions=(), **weights) -> ModelProto:
    x, y = (
        helper.make_tensor_value_info("x", kind, ["N"]),
        helper.make_tensor_value_info("y", kind, None),
    )
    graph = helper.make_graph(
        nodes, "g", [x], [y], [numpy_helper.from_array(w, name) for name, w in weights.items()]
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports, functions=functions)


def refusal(proto: ModelProto) -> str:
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return str(raised.value)


def parsed(body: str, functions: str = "") -> ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N] x) => (float[] y) <bool c = {{1}}> {{ {body} }} {functions}""")


IN_FUNCTION = parsed(
    "y = local.F(x)",
    '<domain: "local", opset_import: ["" : 17]> F (a) => (b) { b = Celuu(a) }',
)
IN_BODY = parsed("""y = If(c) <then_branch = then () => (float[] b) { b = Abs(x) },
                               else_branch = other () => (float[] b) { b = Erff(x) }>""")


@pytest.mark.parametrize(
    ("proto", "says"),
    [
        (
            IN_FUNCTION,
            r"\(::Celuu, in function local::F\): expected an operator of ONNX.*Try: Celu$",
        ),
        (IN_BODY, r"\(::Erff, in If .*Try: Erf$"),
        (
            model(helper.make_node("Abs", ["x"], ["z"])),
            r"^output y: expected an input, an initializer or an output of a node",
        ),
        (
            model(helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])),
            r"^name y: expected one meaning",
        ),
        (
            model(helper.make_node("Add", ["x"], ["y"])),
            r"\(::Add\): expected 2 inputs \(A, B\), got 1\.$",
        ),
        (
            model(helper.make_node("Add", ["x", ""], ["y"])),
            r"\(::Add\), input B: expected a name, got an empty one\. Try: the name of an input, .* for B$",
        ),
        (
            model(helper.make_node("Sum", ["x", "x", "w"], ["y"]), w=np.float64([1])),
            r"got data_0 is float32 and data_0 is float64; the operator takes one type for both\. Try: np\.asarray\(w, dtype=np\.float32\)$",
        ),
        (
            model(
                helper.make_node(
                    "Constant", [], ["w"], value=numpy_helper.from_array(np.float64([1]))
                ),
                helper.make_node("Mul", ["w", "x"], ["y"]),
            ),
            r"\(::Mul\): expected .* got A is float64 and B is float32; the operator takes one type for both\. Try: a Cast before the node, to a dtype that it takes$",
        ),
        (
            model(helper.make_node("Equal", ["x", "x"], ["y"])),
            r"^value y: expected a declaration of bool, which its node computes, got float32\. "
            r"Try: model\.graph\.output\[0\]\.type\.tensor_type\.elem_type = onnx\.TensorProto\.BOOL$",
        ),
    ],
)
def test_what_the_runtime_refuses_is_named(proto, says) -> None:
    known = explain_refusal(proto, refusal(proto))
    assert known is not None
    with pytest.raises(type(known), match=says) as raised:
        pyopnb.Session(proto)
    assert str(raised.value) == str(known)
    assert "ONNXRuntimeError" in str(raised.value.__context__)  # what the runtime said is kept


@pytest.mark.parametrize(
    "said", ["", "no such provider", "Node input 'z' is not a graph input", "a problem with Neg"]
)
def test_what_the_runtime_did_not_say_is_not_blamed(said) -> None:
    proto = model(
        helper.make_node("Erf", ["x"], ["e"]),
        helper.make_node("Add", ["e", "bias"], ["y"]),
        kind=11,
    )
    assert explain_refusal(proto, said) is None


def test_the_fault_that_the_runtime_names_is_the_one_that_is_told() -> None:
    proto = model(
        helper.make_node("Erf", ["x"], ["e"]),
        helper.make_node("Add", ["e", "bias"], ["y"]),
        kind=11,
    )
    assert "input bias" in str(explain_refusal(proto, refusal(proto)))


def test_nothing_fills_what_has_no_meaning() -> None:
    proto = model(helper.make_node("Mul", ["x", "w"], ["y"]), w=np.float64([1]))
    assert [(row.node, row.kind) for row in pyopnb.missing(proto)] == [("y", "mixed dtypes")]
    with (
        pytest.warns(Filled, match="left unchanged"),
        pytest.raises(pyopnb.errors.ModelError, match="A is float32 and B is float64"),
    ):
        pyopnb.Session(proto, fill=True)


# ---- missing and a session say the same ------------------------------------------------------------


def test_a_node_of_a_function_in_place_of_an_operator_is_named():
    x, s = (helper.make_tensor_value_info(n, 16, d) for n, d in (("x", [1, 4, 3]), ("s", [2])))
    y = helper.make_tensor_value_info("y", 16, [1, 4, 3])
    node = helper.make_node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)
    graph = helper.make_graph([node], "g", [x, s], [y])
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 19)])
    (row,) = pyopnb.missing(proto)
    with pytest.raises(pyopnb.errors.ModelError) as raised:
        pyopnb.Session(proto)
    assert row.where == raised.value.where and row.reason == raised.value.got
    # ONNX took that version back, and so the reference does not have it.
    assert raised.value.next == "a Cast before the node, to a dtype that it takes"
    with (
        pytest.warns(Filled, match="left unchanged"),
        pytest.raises(pyopnb.errors.ModelError, match=r"Try: a Cast before the node"),
    ):
        pyopnb.Session(proto, fill=True)


def test_dtypes_that_onnx_does_not_list_are_filled():
    """Some exporters write int32 for the shape of Expand."""
    proto = pyopnb.parse("(float[1] x, int32[1] s) => (float[N] y) { y = Neg(x) }")
    proto.graph.node[0].CopyFrom(helper.make_node("Expand", ["x", "s"], ["y"]))
    with pytest.raises(pyopnb.errors.ModelError, match=r"a Cast .*, or pyopnb.*fill=True\)$"):
        pyopnb.Session(proto)
    with pytest.warns(Filled):
        session = pyopnb.Session(proto, fill=True)
    assert session(x=np.float32([2]), s=np.int32([3]))["y"].tolist() == [2, 2, 2]


def test_kernels_that_refuse_another_type_are_not_named():
    text = """(uint8[1,1,3,3] x) => (int8[1,1,1,1] y)
        <float s = {1}, uint8 z = {0}, uint8[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}, int8 i = {0}>
        { y = QLinearConv(x, s, z, w, s, z, s, i) }"""
    (row,) = pyopnb.missing(pyopnb.parse(text))
    assert row.reason == "T3 is int8; there are kernels for uint8"


def test_an_operator_of_a_domain_that_onnx_has_is_filled():
    names = ["r", "t", "x", "g", "v", "h"]
    kinds = [1, 7, 1, 1, 1, 1]
    sizes = [[], [], [1], [1], [1], [1]]
    inputs = list(map(helper.make_tensor_value_info, names, kinds, sizes))
    outputs = [helper.make_tensor_value_info(name, 1, [1]) for name in ("a", "b", "c")]
    domain = "ai.onnx.preview.training"
    node = helper.make_node("Adam", names, ["a", "b", "c"], domain=domain)
    imports = [helper.make_opsetid("", 15), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph([node], "g", inputs, outputs)
    proto = helper.make_model(graph, ir_version=8, opset_imports=imports)
    with pytest.raises(pyopnb.errors.ModelError, match=r"'a' \(.*::Adam\).*fill=True") as raised:
        pyopnb.Session(proto)
    with pytest.warns(Filled):
        session = eval(raised.value.next, {"pyopnb": pyopnb, "model": proto})
    assert session.filled and [output.name for output in session.get_outputs()] == ["a", "b", "c"]


@pytest.mark.parametrize("op", ["Relu", "Softmax", "com.microsoft.Gelu"])
def test_an_attribute_that_the_operator_lacks_is_missing(op):
    text = (
        '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[N] x) => (float[N] y)'
    )
    proto = onnx.parser.parse_model(f"{text} {{ y = {op}<foo = 1>(x) }}")
    (row,) = pyopnb.missing(proto)
    assert row.kind == "wrong attr" and row.reason.startswith("attr foo is none that version")
    with pytest.raises(pyopnb.errors.ModelError, match="the node of output 'y'"):
        pyopnb.Session(proto)
    with pytest.warns(Filled, match="left unchanged"):
        pyopnb.fill(proto)
    own = onnx.parser.parse_model(f"{text} {{ y = {op}<__foo = 1>(x) }}")
    assert not pyopnb.missing(own) and pyopnb.run(own, np.float32([1]))
    # LayerNormalization came in 17; the runtime has one of its own before, with any attr.
    early = "(float[N] x, float[N] s) => (float[N] y) { y = LayerNormalization<foo = 1>(x, s) }"
    early = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 15]> g {early}')
    assert not pyopnb.missing(early) and pyopnb.Session(early)
