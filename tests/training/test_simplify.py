"""Transposes without the axes that have one element give the same numbers."""

import itertools

import numpy as np
import pytest
from onnx import ModelProto

import pyopnb
from pyopnb.training.graphs import find_weights, step_of, with_loss
from pyopnb.training.simplify import squeeze_transposes


@pytest.mark.parametrize("dims", ["N,1,3", "1,N,3,1", "1,1", "N,1", "2,N,3"])
def test_every_order_of_axes_moves_as_before(dims):
    shape = [int(dim) if dim.isdigit() else 5 for dim in dims.split(",")]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    perms = list(itertools.permutations(range(len(shape))))
    nodes = [
        pyopnb.node("Transpose", "x", f"y{k}", perm=list(perm)) for k, perm in enumerate(perms)
    ]
    nodes.append(pyopnb.node("Transpose", "x", "reversed"))
    model = pyopnb.model(nodes, {"x": f"float32[{dims}]"}, [node.output[0] for node in nodes])
    before = len(model.graph.node)
    squeeze_transposes(model)
    assert (len(model.graph.node) > before) == ("1" in dims.split(","))
    result = pyopnb.run(model, x=x)
    for k, perm in enumerate(perms):
        assert np.array_equal(result[f"y{k}"], x.transpose(perm))
    assert np.array_equal(result["reversed"], x.T)


def test_a_step_moves_no_axis_with_one_element():
    weights = {"k": np.ones((4, 1, 3, 3), np.float32), "c": np.zeros(4, np.float32)}
    nodes = [
        pyopnb.node("Conv", "x k c", "h", pads=[1, 1, 1, 1]),
        pyopnb.node("Relu", "h", "a"),
        pyopnb.node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        pyopnb.node("ReduceMean", "p", "y", keepdims=0),
    ]
    model = pyopnb.model(nodes, {"x": "float32[N,1,8,8]"}, "y", initializers=weights)
    whole = ModelProto()
    whole.CopyFrom(model)
    loss = with_loss(whole, "y", None, {})
    step = step_of(
        whole,
        loss.name,
        find_weights(whole, loss.name, None),
        pyopnb.training.SGD(),
        {},
        verify=False,
    )
    ranks = [
        len(node.attribute[0].ints) for node in step.model.graph.node if node.op_type == "Transpose"
    ]
    assert ranks and max(ranks) == 4, "the fifth axis, of the directions, is not moved"


def test_a_convolution_of_an_opset_whose_squeeze_has_no_input_of_axes():
    nodes = [
        pyopnb.node("Conv", "x k", "h", pads=[1, 1, 1, 1]),
        pyopnb.node("ReduceMean", "h", "y", keepdims=0),
    ]
    x = np.arange(256, dtype=np.float32).reshape(4, 1, 8, 8)
    losses = []
    for opset in (12, 13):
        model = pyopnb.model(
            nodes,
            {"x": "float32[4,1,8,8]"},
            "y",
            initializers={"k": np.ones((2, 1, 3, 3), np.float32)},
        )
        model.opset_import[0].version, model.ir_version = opset, 7
        losses.append(
            pyopnb.train(model, {"x": x}, loss="y", batch_size=4, epochs=3, optimizer="sgd").losses
        )
    np.testing.assert_allclose(*losses, rtol=1e-6)
