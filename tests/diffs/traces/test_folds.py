"""Nodes that were folded into others: no fault by themselves, and none that hides another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper
from onnx.parser import parse_model

import pyopnb

RNG = np.random.default_rng(5)
KERNEL, BIAS = RNG.normal(size=(4, 3, 3, 3)), RNG.normal(size=4)
MATRIX = RNG.normal(size=(6, 4))
SCALE, SHIFT, MEAN = RNG.normal(size=(3, 4))
VARIANCE = RNG.random(4) + 0.5
FACTOR = SCALE / np.sqrt(VARIANCE + 1e-5)
HEAD = RNG.normal(size=(4, 5))
PER_CHANNEL = FACTOR[:, None, None]
FOLDED_KERNEL = KERNEL * FACTOR[:, None, None, None]
FOLDED_BIAS = (BIAS - MEAN) * FACTOR + SHIFT
IMAGES = "r = Relu(T)  p = GlobalAveragePool(r)  f = Flatten(p)  y = MatMul(f, HEAD)"
ROWS = "r = Relu(T)  y = MatMul(r, HEAD)"

# Each: the input's shape, the nodes before, the folded node, and the nodes behind both.
FOLDS: dict[str, tuple[str, str, str, str]] = {
    "normalization": (
        "N,3,6,6",
        "c = Conv(x, KERNEL, BIAS)  n = BatchNormalization(c, SCALE, SHIFT, MEAN, VARIANCE)",
        "T = Conv(x, FOLDED_KERNEL, FOLDED_BIAS)",
        IMAGES,
    ),
    "scaled images": (
        "N,3,6,6",
        "c = Conv(x, KERNEL)  n = Mul(c, PER_CHANNEL)",
        "T = Conv(x, FOLDED_KERNEL)",
        IMAGES,
    ),
    "scaled rows": (
        "N,6",
        "c = MatMul(x, MATRIX)  n = Mul(c, FACTOR)",
        "T = MatMul(x, FOLDED_MATRIX)",
        ROWS,
    ),
}
WEIGHTS = {
    "KERNEL": KERNEL,
    "BIAS": BIAS,
    "MATRIX": MATRIX,
    "SCALE": SCALE,
    "SHIFT": SHIFT,
    "MEAN": MEAN,
    "VARIANCE": VARIANCE,
    "FACTOR": FACTOR,
    "PER_CHANNEL": PER_CHANNEL,
    "FOLDED_KERNEL": FOLDED_KERNEL,
    "FOLDED_BIAS": FOLDED_BIAS,
    "FOLDED_MATRIX": MATRIX * FACTOR,
    "HEAD": HEAD,
}
# The folded node's result has a new name, the name before the fold, or the one behind it.
NAMES = ("new", "c", "n")


def built(shape: str, nodes: str, **changed: Any) -> ModelProto:
    """Build a model of the nodes, with the weights that they read."""
    header = '<ir_version: 10, opset_import: ["" : 20]>'
    model = parse_model(f"{header} g (float[{shape}] x) => (float[N,5] y) {{ {nodes} }}")
    read = {name for node in model.graph.node for name in node.input}
    for name, value in {**WEIGHTS, **changed}.items():
        if name in read:
            weight = np.ascontiguousarray(value, np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, name))
    # A folded node keeps its name.
    for node in model.graph.node[:1]:
        node.name = "first"
    return model


def both(fold: str, name: str, **changed: Any) -> tuple[ModelProto, ModelProto, dict[str, Any]]:
    """Build a network, its folded form with some weights changed, and a feed for both."""
    shape, before, folded, behind = FOLDS[fold]
    if name == "new":
        name = "t0"
    a = built(shape, f"{before}  {behind}".replace("T)", "n)"))
    text = f"{folded}  {behind}".replace("T =", f"{name} =").replace("T)", f"{name})")
    b = built(shape, text, **changed)
    x = RNG.normal(size=[int(size) for size in shape.replace("N", "2").split(",")])
    return a, b, {"x": x.astype(np.float32)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fold", FOLDS)
class TestFolds:
    def test_a_fold_is_no_fault(self, fold: str, name: str) -> None:
        a, b, feeds = both(fold, name)
        found = pyopnb.diff(pyopnb.trace(a, feeds), pyopnb.trace(b, feeds))
        assert found.ok and found.origin is None, str(found)
        # The folded node gives what the last of the folded nodes gives.
        assert found.tensors[0].a == "n" and found.only_a == ("c",)
        ops = [node.op_type for node in (*a.graph.node[:2], b.graph.node[0])]
        assert found.rewritten == {f"{ops[0]} + {ops[1]} → {ops[2]}": 1}
        assert f"the same by other nodes: 1 × {ops[0]} + {ops[1]} → {ops[2]}" in str(found)
        assert pyopnb.first_divergence(a, b, feeds).origin is None

    def test_the_wrong_weight_behind_a_fold_is_named(self, fold: str, name: str) -> None:
        head = HEAD.copy()
        head[0] += 1
        a, b, feeds = both(fold, name, HEAD=head)
        found = pyopnb.diff(pyopnb.trace(a, feeds), pyopnb.trace(b, feeds))
        searched = pyopnb.first_divergence(a, b, feeds)
        for diff in (found, searched):
            assert [step.outputs[0].b for step in diff.origins] == ["y"]
            assert "weight HEAD: float32[4,5], 5 of 20 differ by up to 1" in diff.origin.changes
        # One tensor a run is compared: the fold may be met before the head.
        searched = pyopnb.first_divergence(a, b, feeds, memory=1)
        assert [step.outputs[0].b for step in searched.origins] == ["y"]

    def test_a_wrong_fold_is_named(self, fold: str, name: str) -> None:
        wrong = {"FOLDED_KERNEL": FOLDED_KERNEL * 1.5, "FOLDED_MATRIX": MATRIX * FACTOR * 1.5}
        a, b, feeds = both(fold, name, **wrong)
        found = pyopnb.diff(pyopnb.trace(a, feeds), pyopnb.trace(b, feeds))
        searched = pyopnb.first_divergence(a, b, feeds)
        for diff in (found, searched):
            assert [step.outputs[0].a for step in diff.origins] == ["n"], str(diff)
            assert diff.origin.name.startswith("first (")


def test_a_fold_read_backward_is_no_fault() -> None:
    head = HEAD.copy()
    head[0] += 1
    for name in NAMES:
        a, folded, feeds = both("normalization", name)
        assert pyopnb.diff(pyopnb.trace(folded, feeds), pyopnb.trace(a, feeds)).origin is None
        folded = both("normalization", name, HEAD=head)[1]
        for diff in (
            pyopnb.diff(pyopnb.trace(folded, feeds), pyopnb.trace(a, feeds)),
            pyopnb.first_divergence(folded, a, feeds),
            pyopnb.first_divergence(folded, a, feeds, memory=1),
        ):
            assert [step.outputs[0].b for step in diff.origins] == ["y"], str(diff)


def test_a_shape_that_agrees_hides_no_node_before_it() -> None:
    """It is the same whatever the numbers are, and says nothing of the nodes before it."""
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        g (float[N,6] x) => (float[N,6] y) {
            BODY
            s = Shape(e)
            f = Flatten(e)
            y = Reshape(f, s)
        }
    """
    a = parse_model(text.replace("BODY", "t = Tanh(x)  e = Exp(t)"))
    b = parse_model(
        text.replace("BODY", "h = Cast<to = 10>(x)  w = Cast<to = 1>(h)  t = Sinh(w)  e = Exp(t)")
    )
    x = RNG.normal(size=(3, 6)).astype(np.float32)
    found = pyopnb.diff(pyopnb.trace(b, x=x), pyopnb.trace(a, x=x))
    assert str(found).splitlines()[1] == "where: t (Tanh)"


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_node_that_the_other_model_folded_is_named(name: str) -> None:
    _, folded, feeds = both("normalization", name)
    shape, before, _, behind = FOLDS["normalization"]
    wrong = built(shape, f"{before}  {behind}".replace("T)", "n)"), SHIFT=SHIFT + 1)
    for diff in (
        pyopnb.diff(pyopnb.trace(folded, feeds), pyopnb.trace(wrong, feeds)),
        pyopnb.first_divergence(folded, wrong, feeds),
    ):
        assert [step.outputs[0].b for step in diff.origins] == ["n"], str(diff)
        assert diff.origin.between == ("first (Conv)",)


def test_one_node_in_place_of_two_is_the_origin_and_not_its_reader() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        g (float[N,6] x) => (float[N,4] y)
        <float[6,4] w = {WEIGHTS}> { BODY  m = MatMul(t, w)  y = Relu(m) }
    """.replace("WEIGHTS", ", ".join(f"{x:.3f}" for x in MATRIX.flat))
    a = parse_model(text.replace("(t, w)", "(s, w)").replace("BODY", "s = Tanh(x)"))
    b = parse_model(text.replace("BODY", "c = Neg(x)  t = Exp(c)"))
    x = RNG.normal(size=(3, 6)).astype(np.float32)
    found = pyopnb.diff(pyopnb.trace(a, x=x), pyopnb.trace(b, x=x))
    assert str(found).splitlines()[1] == "where: t (Exp), or a node before it: c (Neg)"
