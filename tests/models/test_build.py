"""Nodes and models by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import pyopnb
from pyopnb.models.installed import newest_ir_version, newest_opset


def test_a_node_has_the_names_as_given() -> None:
    made = pyopnb.node("demo::Op", ["a", "", "c"], "x y", name="n")
    assert (list(made.input), list(made.output), made.name, made.domain, made.op_type) == (
        ["a", "", "c"],
        ["x", "y"],
        "n",
        "demo",
        "Op",
    )


@pytest.mark.parametrize("op", ["Relu", "::Relu", "ai.onnx::Relu"])
def test_onnx_own_ops(op: str) -> None:
    assert (pyopnb.node(op, "x", "y").domain, pyopnb.node(op, "x", "y").op_type) == ("", "Relu")


@pytest.mark.parametrize("op", ["", "demo::", "demo::a b", "a/b::C", "demo::1"])
def test_names_that_are_none(op: str) -> None:
    with pytest.raises(pyopnb.DefinitionError, match="domain::OpType"):
        pyopnb.node(op, "x", "y")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "INT"), (True, "INT"), (1.5, "FLOAT"), ("s", "STRING"), (b"\xff", "STRING"), ([1], "INTS"), ([1.5], "FLOATS"),
        (["a"], "STRINGS"), ([], "INTS"), (np.zeros(2), "TENSOR"), (onnx.GraphProto(name="g"), "GRAPH"),
        (onnx.ModelProto(graph=onnx.GraphProto(name="g")), "GRAPH"), (np.float32(1.5), "FLOAT"), (np.bool_(True), "INT"),
    ],
)  # fmt: skip
def test_kinds_of_attributes(value: Any, kind: str) -> None:
    (attribute,) = pyopnb.node("demo::Op", "x", "y", a=value).attribute
    assert onnx.AttributeProto.AttributeType.Name(attribute.type) == kind


def test_none_leaves_an_attribute_out() -> None:
    assert not pyopnb.node("demo::Op", "x", "y", a=None).attribute


def test_versions_are_those_that_the_runtime_takes() -> None:
    made = pyopnb.model(pyopnb.node("Relu", "x", "y"), {"x": "float32[N]"}, {"y": "float32[N]"})
    assert (made.ir_version, made.opset_import[0].version) == (newest_ir_version(), newest_opset())
    onnx.checker.check_model(made, full_check=True)
    assert pyopnb.model([], {}, "", opset=17).opset_import[0].version == 17


def test_domains_are_imported_wherever_they_stand() -> None:
    inner = onnx.helper.make_graph([pyopnb.node("b::Op", "x", "z")], "g", [], [onnx.ValueInfoProto(name="z")])
    nodes = [pyopnb.node("a::Op", "x", "c"), pyopnb.node("If", "c", "y", then_branch=inner, else_branch=inner)]
    made = pyopnb.model(nodes, {"x": "float32[N]"}, "y")
    assert {entry.domain for entry in made.opset_import} == {"", "a", "b"}
    assert {
        e.domain: e.version
        for e in pyopnb.model(pyopnb.node("com.microsoft::Gelu", "x", "y"), {"x": "float32"}, "y").opset_import
    }["com.microsoft"] >= 1


def test_types_and_examples() -> None:
    takes = {"a": "string[N,?]", "b": np.zeros((2, 0), np.int8), "c": "float32"}
    made = pyopnb.model(pyopnb.node("demo::Op", "a b c", "o"), takes, {"o": "int4[...]"})
    a, b, c = (i.type.tensor_type for i in made.graph.input)
    assert [d.dim_param for d in a.shape.dim] == ["N", ""]
    assert (b.elem_type, [d.dim_value for d in b.shape.dim]) == (onnx.TensorProto.INT8, [2, 0])
    assert not c.HasField("shape")
    assert made.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT4


def test_initializers() -> None:
    made = pyopnb.model([], {}, "", initializers={"w": np.float32([1, 2]), "n": 3})
    assert [onnx.numpy_helper.to_array(t).tolist() for t in made.graph.initializer] == [[1, 2], 3]


@pytest.mark.parametrize(
    ("nodes", "inputs", "initializers"),
    [
        ([("x", "x")], {"x": "float32"}, {}),
        ([("x", "y"), ("x", "y")], {"x": "float32"}, {}),
        ([("x", "w")], {"x": "float32"}, {"w": 1}),
        ([("x", "y y")], {"x": "float32"}, {}),
    ],
)
def test_a_name_that_stands_for_two_things(nodes: Any, inputs: Any, initializers: Any) -> None:
    with pytest.raises(pyopnb.ModelError, match="expected one meaning"):
        pyopnb.model([pyopnb.node("demo::Op", i, o) for i, o in nodes], inputs, "y", initializers=initializers)


def test_outputs_left_out_are_no_names() -> None:
    made = pyopnb.model([pyopnb.node("demo::Op", "x", ["", "", "y"])], {"x": "float32"}, "y")
    assert list(made.graph.node[0].output) == ["", "", "y"]


def test_a_type_that_cannot_be_read() -> None:
    with pytest.raises(pyopnb.NotationError, match=r"float32\[N,3\]"):
        pyopnb.model([], {"x": "float32[N"}, "y")
