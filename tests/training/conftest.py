"""Models that are trained."""

import numpy as np
import pytest

import pyopnb


@pytest.fixture
def line():
    """y = w x + b, with w = 0 and b = 0."""
    nodes = [pyopnb.node("Mul", "x w", "p"), pyopnb.node("Add", "p b", "y")]
    weights = {"w": np.zeros(1, np.float32), "b": np.zeros(1, np.float32)}
    return pyopnb.model(nodes, {"x": "float32[N]"}, "y", initializers=weights)


@pytest.fixture
def samples():
    """Points of y = 3 x - 1."""
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    return {"x": x, "target": 3 * x - 1}


@pytest.fixture
def classifier():
    """Two layers and three classes."""
    rng = np.random.default_rng(1)
    nodes = [
        pyopnb.node("Gemm", "x w1 b1", "h"),
        pyopnb.node("Tanh", "h", "a"),
        pyopnb.node("Gemm", "a w2 b2", "y"),
    ]
    shapes = {"w1": (4, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}
    weights = {
        name: (rng.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()
    }
    return pyopnb.model(nodes, {"x": "float32[N,4]"}, "y", initializers=weights)


@pytest.fixture
def flowers():
    """Two hundred points of three clouds."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 200)
    return {
        "x": (rng.standard_normal((3, 4))[labels] * 2 + rng.standard_normal((200, 4)) / 2).astype(
            np.float32
        ),
        "kind": labels,
    }
