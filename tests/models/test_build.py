"""Nodes and models by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset
from pyopnb.engine.models.protos import type_of_proto as onnx_type


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "INT"), (True, "INT"), (1.5, "FLOAT"), ("s", "STRING"), (b"\xff", "STRING"), ([1], "INTS"), ([1.5], "FLOATS"), ([True, np.False_], "INTS"),
        (["a"], "STRINGS"), ([], "INTS"), (np.zeros(2), "TENSOR"), (onnx.GraphProto(name="g"), "GRAPH"),
        (onnx.ModelProto(graph=onnx.GraphProto(name="g")), "GRAPH"), (np.float32(1.5), "FLOAT"), (np.bool_(True), "INT"),
    ],
)  # fmt: skip
def test_kinds_of_attributes(value: Any, kind: str) -> None:
    (attribute,) = pyopnb.node("demo::Op", "x", "y", a=value).attribute
    assert onnx.AttributeProto.AttributeType.Name(attribute.type) == kind


def test_versions_are_those_that_the_runtime_takes() -> None:
    made = pyopnb.model(pyopnb.node("Relu", "x", "y"), {"x": "float32[N]"}, {"y": "float32[N]"})
    assert (made.ir_version, made.opset_import[0].version) == (newest_ir_version(), newest_opset())
    onnx.checker.check_model(made, full_check=True)
    assert pyopnb.model([], {}, "", opset=17).opset_import[0].version == 17


def test_types_and_examples() -> None:
    takes = {"a": "string[N,?]", "b": np.zeros((2, 0), np.int8), "c": "float32"}
    made = pyopnb.model(pyopnb.node("demo::Op", "a b c", "o"), takes, {"o": "int4[...]"})
    a, b, c = (i.type.tensor_type for i in made.graph.input)
    assert [d.dim_param for d in a.shape.dim] == ["N", ""]
    assert (b.elem_type, [d.dim_value for d in b.shape.dim]) == (onnx.TensorProto.INT8, [2, 0])
    assert not c.HasField("shape")
    assert made.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT4


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
    with pytest.raises(pyopnb.errors.ModelError, match="expected one meaning"):
        pyopnb.model(
            [pyopnb.node("demo::Op", i, o) for i, o in nodes],
            inputs,
            "y",
            initializers=initializers,
        )


# ---- names and order ---------------------------------------------------------------------------------------------------------


def test_nodes_are_sorted_and_sorted_ones_stay() -> None:
    def order(*pairs: str) -> list[str]:
        nodes = [pyopnb.node("Neg", *pair.split(">")) for pair in pairs]
        return [n.output[0] for n in pyopnb.model(nodes, {"x": "float32[N]"}, "z").graph.node]

    assert order("b>z", "a>b", "x>a", "x>c") == ["a", "b", "z", "c"]
    assert order("x>c", "x>a", "a>z") == ["c", "a", "z"]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("a>b b>a a>y", "a cycle: a → b → a|a cycle: b → a → b"),
        ("a>a a>y", "a cycle: a → a"),
        ("x>b xx>c", "input xx: .*got xx, which no node produces. Try: x"),
        ("x>b", "output y: .*got y, which no node produces. Try: b, x|output y"),
    ],
)
def test_models_that_cannot_run(pairs: str, said: str) -> None:
    nodes = [pyopnb.node("Neg", *pair.split(">")) for pair in pairs.split()]
    with pytest.raises(pyopnb.errors.ModelError, match=said):
        pyopnb.model(nodes, {"x": "float32[N]"}, "y")


def test_an_operator_that_onnx_does_not_have() -> None:
    for op, near in (("Sofmax", "Softmax"), ("ai.onnx.ml::Scalar", "Scaler")):
        with pytest.raises(
            pyopnb.errors.ModelError, match=f"{op.rpartition('::')[2]}.* Try: {near}"
        ):
            pyopnb.model(pyopnb.node(op, "x", "y"), {"x": "float32[N]"}, "y")
    pyopnb.registry.define(type("Sofmax", (), {"compute": lambda self, x: x}), "::Sofmax")
    pyopnb.model(pyopnb.node("Sofmax", "x", "y"), {"x": "float32[N]"}, "y")
    pyopnb.model(pyopnb.node("demo::Later", "x", "y"), {"x": "float32[N]"}, "y")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array(["2020-01-01"], "datetime64[D]"), r"datetime64\[D\]"),
        (np.array([1, "a"], object), "expected str.* got int 1"),
        (None, "got None"),
        (2**70, "got int"),
    ],
)
def test_arrays_that_no_tensor_can_be_made_of(value: Any, said: str) -> None:
    for where in ("inputs", "initializers"):
        given = {"inputs": {}, "initializers": {}} | {where: {"w": value}}
        with pytest.raises(pyopnb.errors.ModelError, match=said):
            pyopnb.model(
                pyopnb.node("d::Op", "w", "y"),
                given["inputs"],
                "y",
                initializers=given["initializers"],
            )


# ---- types of outputs --------------------------------------------------------------------------------------------------------


def kinds(model: onnx.ModelProto) -> dict[str, str]:
    return {i.name: str(onnx_type(i.type)) for i in model.graph.output}


class Half:
    def infer(self, x: pyopnb.TensorType) -> object:
        return x.like(dtype="float16")

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x.astype(np.float16)


class Double:
    def infer(self, x: pyopnb.TensorType) -> object:
        return x.like(dtype="float64", shape=("M", 2))

    def compute(self, x: np.ndarray) -> np.ndarray:
        return np.ones((1, 2))


def test_types_of_outputs_are_inferred() -> None:
    pyopnb.registry.define(Half, "b::Op")
    nodes = [
        pyopnb.node("b::Op", "x", "h"),
        pyopnb.node("Concat", "h h", "y", axis=0),
        pyopnb.node("b::Later", "y", "z"),
    ]
    assert kinds(pyopnb.model(nodes, {"x": "float32[N,3]"}, "y h z")) == {
        "y": "float16[?,3]",
        "h": "float16[N,3]",
        "z": "any[...]",
    }
    big = pyopnb.model(
        pyopnb.node("MatMul", "x w", "y"),
        {"x": "float32[N,3]"},
        "y",
        initializers={"w": np.ones((3, 999), np.float32)},
    )
    assert kinds(big) == {
        "y": "float32[N,999]"
    }  # the weights, which are large, are not looked into
    shape = {"s": np.int64([4, -1])}
    assert kinds(
        pyopnb.model(
            pyopnb.node("Reshape", "x s", "y"), {"x": "float32[2,6]"}, "y", initializers=shape
        )
    ) == {"y": "float32[4,3]"}


def test_an_op_that_cannot_say_is_no_obstacle() -> None:
    class Raises:
        def infer(self, x: object) -> object:
            raise ZeroDivisionError

        def compute(self, x: np.ndarray) -> np.ndarray:
            return x

    pyopnb.registry.define(Raises, "b::Op")
    model = pyopnb.model(pyopnb.node("b::Op", "x", "y"), {"x": "float32[N]"}, "y")
    assert not model.graph.output[0].HasField("type")
    with pytest.raises(ZeroDivisionError):
        pyopnb.Session(model)


def test_an_inferred_type_does_not_bind_an_op_that_is_redefined() -> None:
    pyopnb.registry.define(Half, "b::Op")
    model = pyopnb.model(pyopnb.node("b::Op", "x", "y"), {"x": "float32[N,3]"}, "y")
    session = pyopnb.Session(model)
    x = np.ones((2, 3), np.float32)
    assert session(x=x)["y"].dtype == np.float16
    pyopnb.registry.define(Double, "b::Op")
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        assert session(x=x)["y"].dtype == np.float64
    assert pyopnb.Session(model.SerializeToString())(x=x)["y"].shape == (1, 2)
    assert kinds(model) == {"y": "float16[N,3]"}  # the caller's model is as it was


# ---- an op by its class ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), 1 + 2j, [None], 10**30, 1e39, [1.0, -1e300], np.float32, {}, [[1], [2, 3]]],
)
def test_what_no_attr_can_be(value) -> None:
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="node a::B, attr k: expected a number of float32 or int64, str, bytes, bool, array",
    ):
        pyopnb.node("a::B", "x", "y", k=value)
