"""What the check of a gradient costs: `pyopnb.grad` of nets beside the same without ``verify``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from onnx import ModelProto
from table import Row, beside, timed

import pyopnb

_WIDTH = 16


def _net(nodes: int) -> tuple[ModelProto, list[str]]:
    """Make a net of so many nodes, and the names of its weights."""
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    body = []
    value = "x"
    for layer in range(nodes // 4):
        weights[f"w{layer}"] = (rng.standard_normal((_WIDTH, _WIDTH)) / 4).astype(np.float32)
        weights[f"b{layer}"] = rng.standard_normal(_WIDTH).astype(np.float32)
        body.append(pyopnb.node("MatMul", f"{value} w{layer}", f"m{layer}"))
        body.append(pyopnb.node("Add", f"m{layer} b{layer}", f"a{layer}"))
        body.append(pyopnb.node("Relu" if layer % 2 else "Tanh", f"a{layer}", f"t{layer}"))
        body.append(pyopnb.node("Sigmoid", f"t{layer}", f"s{layer}"))
        value = f"s{layer}"
    body.append(pyopnb.node("ReduceMean", value, "loss", keepdims=0))
    inputs = {"x": f"float32[N,{_WIDTH}]"}
    return pyopnb.model(body, inputs, "loss", initializers=weights), list(weights)


def rows() -> Iterator[Row]:
    """Measure the check beside the derivation."""
    for nodes in (5, 50, 300):
        model, weights = _net(nodes)
        best = timed(
            {
                "derived": partial(pyopnb.grad, model, weights, verify=False),
                "verified": partial(pyopnb.grad, model, weights),
            },
            5,
        )
        yield beside(
            f"grad of {nodes} nodes, with its check",
            best["verified"],
            best["derived"],
            "without",
            1.8,
        )
