"""Activations that NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["fast_gelu", "gelu"]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: np.ndarray) -> np.ndarray:
    """Compute x · Φ(x), Φ being the normal distribution, in the dtype of x."""
    if not x.size:
        return x.copy()
    return (0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)


def fast_gelu(x: np.ndarray) -> np.ndarray:
    """Compute the approximation of `gelu` by tanh, in the dtype of x."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)
