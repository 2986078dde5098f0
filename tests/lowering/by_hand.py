"""Ten ops as people write them, and how many nodes a graph of each has that is written by hand."""

from __future__ import annotations

import numpy as np
from written import OPS, inputs

__all__ = ["BY_HAND", "NODES_BY_HAND", "arrays_of"]

BY_HAND: dict[str, str] = {
    "SoftClip": "def __init__(self, limit: float = 1.0):\n    self.limit = limit\ndef compute(self, x):\n    return self.limit * np.tanh(x / self.limit)",
    "Gelu": "def compute(self, x):\n    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))",
    "Softmax": "def compute(self, x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)",
    "LayerNorm": "def compute(self, x):\n    m = x.mean(-1, keepdims=True)\n    return (x - m) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)",
    "RmsNorm": "def compute(self, x):\n    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)",
    "Pairwise": OPS["Pairwise"][0],
    "WhereClip": OPS["WhereClip"][0],
    "NormEinsum": OPS["NormEinsum"][0],
    "HardSwish": "def compute(self, x):\n    return x * np.clip(x + 3, 0, 6) / 6",
    "TopTwo": "def compute(self, x):\n    return np.sort(x, axis=-1)[..., -2:]",
}  # fmt: skip
NODES_BY_HAND: dict[str, int] = {
    "SoftClip": 3, "Gelu": 8, "Softmax": 5, "LayerNorm": 7, "RmsNorm": 5, "Pairwise": 7, "WhereClip": 6, "NormEinsum": 3, "HardSwish": 4, "TopTwo": 3,
}  # fmt: skip
"""Nodes of a graph that is written by hand, without those for constants."""


def arrays_of(name: str) -> list[np.ndarray]:
    """The inputs of an example."""
    if name in OPS and name != "SoftClip":
        return inputs(name)
    return [np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)]
