"""The networks that come with onnx: one kind of operator in each runs through its skeleton, as written, inside ONNX Runtime."""

import math

import numpy as np
import pytest
from light import converted, feeds, light
from onnx import ModelProto

import pyopnb


def through_skeleton(model: ModelProto, op_type: str) -> tuple[ModelProto, int]:
    """The model with every node of a type run by one cell, the skeleton of the first of them; and how many they are."""
    nodes = [n for n in model.graph.node if n.op_type == op_type]
    alike = {tuple((a.name, a.type) for a in n.attribute) for n in nodes}
    assert len(alike) == 1, "one class serves them all: the others' attrs are its parameters too"
    namespace: dict[str, object] = {"__name__": "cell"}
    first, _, body = str(pyopnb.skeleton(model, nodes[0])).partition("\n")
    assert first == "%%pyop"
    exec(body, namespace)
    pyopnb.pyop(f"pyopnb::{op_type}")(namespace[op_type])
    return pyopnb.replace(model, f"::{op_type}", f"pyopnb::{op_type}"), len(nodes)


def worst(model: ModelProto, op_type: str) -> tuple[float, int]:
    """The largest error of any output, relative to the largest number in it; and the nodes that were replaced."""
    fed = feeds(model)
    replaced, count = through_skeleton(model, op_type)
    theirs, ours = pyopnb.Session(model)(**fed), pyopnb.Session(replaced)(**fed)
    errors = []
    for name, of_theirs in theirs.items():
        assert ours[name].shape == of_theirs.shape and ours[name].dtype == of_theirs.dtype
        assert np.isfinite(of_theirs).all() and np.ptp(of_theirs) > 0
        errors.append(float(np.abs(ours[name] - of_theirs).max() / np.abs(of_theirs).max()))
    return max(errors), count


NETWORKS = {
    # name: model, op type, nodes, tolerance relative to the largest number of an output
    "squeezenet Softmax": (light, "squeezenet", "Softmax", 1, 1e-6),
    "squeezenet Concat": (light, "squeezenet", "Concat", 8, 1e-6),
    "inception_v1 Concat": (light, "inception_v1", "Concat", 9, 1e-6),
    "shufflenet BatchNormalization": (light, "shufflenet", "BatchNormalization", 49, 1e-4),
    "densenet121 BatchNormalization": (light, "densenet121", "BatchNormalization", 121, 1e-4),
    "densenet121 Concat": (light, "densenet121", "Concat", 58, 1e-6),
    "squeezenet MaxPool": (light, "squeezenet", "MaxPool", 3, 0.0),
    "inception_v2 Gemm": (light, "inception_v2", "Gemm", 1, 1e-4),
    "resnet50 Gemm": (light, "resnet50", "Gemm", 1, 1e-4),
    "MaxPool2d": (converted, "MaxPool2d", "MaxPool", 1, 0.0),
}


# The node tests have the op types of the others; these have one of each kind: windows, weights of
# a node, many inputs.
SHORT = ("squeezenet Concat", "squeezenet Softmax", "shufflenet BatchNormalization", "MaxPool2d")


@pytest.mark.one_python
@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.everywhere)
        for name in NETWORKS
    ],
)
def test_outputs_agree_with_the_runtimes_own(name: str) -> None:
    make, model, op_type, nodes, tolerance = NETWORKS[name]
    error, count = worst(make(model), op_type)
    print(f"{name}: {count} nodes through Python, largest error {error:.1e} of the largest number")
    assert count == nodes
    assert error <= tolerance


def normalized(x: np.ndarray, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    """LRN as the ONNX text defines it."""
    square, sums = x.astype(np.float64) ** 2, np.zeros(x.shape)
    for c in range(x.shape[1]):
        sums[:, c] = square[:, max(0, c - (size - 1) // 2) : c + math.ceil((size - 1) / 2) + 1].sum(
            axis=1
        )
    return (x / (bias + alpha / size * sums) ** beta).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 5, 7])
def test_lrn_is_that_of_its_definition(batch: int) -> None:
    # The onnx class loops over the batch where it means the channels.
    x = np.random.default_rng(0).standard_normal((batch, 5, 9, 9), np.float32) * 50
    attrs = {"size": 3, "alpha": 0.01, "beta": 0.75, "bias": 1.0}
    expected = normalized(x, **attrs)
    assert np.allclose(pyopnb.reference("::LRN", x, **attrs), expected, rtol=1e-5)
    defaults = pyopnb.reference("::LRN", x, size=3)
    assert np.allclose(defaults, normalized(x, 3, 1e-4, 0.75, 1.0), rtol=1e-5)
    assert np.allclose(pyopnb.call("::LRN", x, **attrs), normalized(x, **attrs), rtol=1e-5)
