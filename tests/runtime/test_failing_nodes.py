"""Errors that ONNX Runtime raises: their class and text are its own, and a note names the node."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pyopnb

F = np.float32
X = F([[1, 2]])
ONNX = [helper.make_opsetid("", 20)]
HEAD = '<ir_version: 9, opset_import: ["": 20, "l": 1]> g (float[N,2] x) => (float[] y)'
THREE = "<int64[1] three = {3}, int64[1] two = {2}, float[3,2] w = {1,2,3,4,5,6}, bool c = {1}>"
FUNCTION = """<domain: "l", opset_import: ["": 20]>
    G (a, s) => (z) { q = Abs(a)  z = Reshape(q, s) }
    <domain: "l", opset_import: ["": 20, "l": 1]> H (a, s) => (z) { z = l.G(a, s) }"""


def parsed(body, functions=""):
    # The onnx parser leaves the nodes without names.
    from onnx.parser import parse_model

    return parse_model(f"{HEAD} {THREE} {{ {body} }} {functions}")


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("k = MatMul(x, w)  y = Abs(k)", r"^in the node of output 'k' \(::MatMul\)$"),
        ("j = MatMul(w, w)  k = Abs(j)  y = Abs(k)", "output 'j'"),
        ("i = Abs(x)  j = Concat<axis = 0>(x, i)  y = Concat<axis = 4>(x, j)", "output 'y'"),
        ("y = If(c) <then_branch = t () => (float[] b) { b = MatMul(x, w) }, else_branch = e () => (float[] d) { d = Abs(x) }>",
         r"in the node of output 'b' \(::MatMul, in If 'y', then_branch\)"),
        ('r = Cast<to = 1>(x)  k = Conv<kernel_shape = [1]>(x, w)  y = Abs(k)', "output 'k'"),
    ],
)  # fmt: skip
def test_a_node_that_does_not_load(body, note):
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        pyopnb.Session(parsed(body))
    assert type(raised.value).__module__.startswith("onnxruntime")
    (text,) = raised.value.__notes__
    assert re.search(note, text), text


RUNS = [
    ("k = Reshape(x, three)  y = Abs(k)", "", r"^in the node of output 'k' \(::Reshape\)$"),
    ("j = Reshape(x, two)  k = Reshape(j, three)  l = Reshape(x, two)  y = Concat<axis = 0>(k, l)", "", "^in the node of output 'k'"),
    ("k = If(c) <then_branch = t () => (float[] b) { b = Reshape(x, three) }, else_branch = e () => (float[] d) { d = Reshape(x, two) }>  y = Abs(k)", "",
     r"^in the node of output 'b' \(::Reshape, in If 'k', then_branch\)$"),
    ("j = l.G(x, two)  k = l.G(j, three)  y = Abs(k)", FUNCTION,
     r"^in the node of output 'z' \(::Reshape, in function l::G\), called by the node of output 'k' \(l::G\)$"),
    ("j = l.G(x, two)  k = l.H(j, three)  y = Abs(k)", FUNCTION, r"called by .*function l::H\), called by the node of output 'k' \(l::H\)$"),
    ("k = Gather(x, three)  y = Abs(k)", "", "^in the node of output 'k'"),
    ("k = l.G(x)  y = Abs(k)", FUNCTION, r"output 'k' \(l::G\), which has 1 of the inputs a, s$"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "functions", "note"), RUNS)
@pytest.mark.parametrize("way", ["session", "trace", "unchecked", "profile", "run", "options"])
def test_a_node_that_fails_in_a_run(body, functions, note, way):
    model = parsed(body, functions)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ways = {
        "session": lambda: pyopnb.Session(model)(x=X),
        "trace": lambda: pyopnb.Session(model).trace(X),
        "unchecked": lambda: pyopnb.trace(model, X, check=False),
        "profile": lambda: pyopnb.profile(model, X, runs=1),
        "run": lambda: pyopnb.Session(model).run(["y"], {"x": X}),
        "options": lambda: pyopnb.Session(model, options)(X),
    }
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        ways[way]()
    notes = raised.value.__notes__
    assert any(re.search(note, text) for text in notes), notes


def test_an_output_whose_inferred_size_is_negative():
    # ONNX Runtime loads it, with the size -1, and fails in the run.
    session = pyopnb.Session(parsed("p = Constant<value_ints = [0, -3, 0, 0]>()  y = Pad(x, p)"))
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        session(X)
    assert raised.value.__notes__ == ["in the node of output 'y' (::Pad)"]


def test_a_named_node_and_one_beside_an_op_are_named_without_another_run():
    calls = []

    @pyopnb.pyop("failing::Same")
    class Same:
        def compute(self, x):
            calls.append(x)
            return x

    model = pyopnb.model(
        [
            pyopnb.node("failing::Same", "x", "a"),
            pyopnb.node("Reshape", "a two", "j"),
            pyopnb.node("Reshape", "j three", "k"),
        ],
        {"x": "float32[N,2]"},
        "k",
        initializers={"two": np.int64([2]), "three": np.int64([3])},
    )
    for node in model.graph.node:
        node.name = ""
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        pyopnb.Session(model)(X)
    assert "the node of output 'k' (::Reshape)" in raised.value.__notes__[0]
    assert len(calls) == 1


def tensor(dims, **fields):
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, **fields)


@pytest.mark.parametrize(
    ("weight", "declared", "text"),
    [
        (tensor([2], float_data=[1, 2, 3]), None, r"expected data for float32\[2\], got 3 elements\. Try: onnx\.numpy_helper\.from_array"),
        (tensor([2], raw_data=b"\0" * 4), None, r"expected data for float32\[2\], got 1 element\."),
        (tensor([2]), None, r"expected data for float32\[2\], got 0 elements"),
        (TensorProto(name="w", data_type=77, dims=[2], raw_data=b"\0" * 8), None, "expected a data type of ONNX, got the number 77"),
        (TensorProto(name="w", dims=[2], raw_data=b"\0" * 8), None, "expected a data type of ONNX, got the number 0"),
        (tensor([-1], float_data=[1]), None, r"expected data for float32\[-1\], got a negative size"),
        (numpy_helper.from_array(np.float64([1, 2]), "w"), [2], "expected float32, which the graph declares for it, got float64"),
        (numpy_helper.from_array(F([1, 2]), "w"), [3], r"expected sizes \[3\], which the graph declares for it, got \[2\]"),
    ],
)  # fmt: skip
def test_a_wrong_initializer_is_named(weight, declared, text):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])]
    if declared:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, declared))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [output], [weight])
    model = helper.make_model(graph, opset_imports=ONNX, ir_version=9)
    with pytest.raises(pyopnb.errors.ModelError, match=f"^initializer w: {text}"):
        pyopnb.Session(model)


def test_calls_that_their_functions_do_not_take_are_named():
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"'k' \(l::G\): expected at most 2 inputs \(a, s\), as its function has, got 3\. Try: \['x', 'two'\]",
    ):
        pyopnb.Session(parsed("k = l.G(x, two, two)  y = Abs(k)", FUNCTION))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"'k' \(l::G\): expected at most 1 output \(z\), as its function has, got 2\. Try: \['k'\]",
    ):
        pyopnb.Session(parsed("k, j = l.G(x, two)  y = Abs(k)", FUNCTION))
    model = parsed("k = l.G(x, two)  y = Abs(k)", FUNCTION)
    del model.opset_import[1]
    with pytest.raises(pyopnb.errors.ModelError, match=r"'k' \(l::G\).*import of domain l") as got:
        pyopnb.Session(model)
    exec(got.value.next, {"model": model})  # the advice, typed
    assert pyopnb.run(model, X)["y"].tolist() == [1, 2]
