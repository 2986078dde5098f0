"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["local_response_normalization", "lp_normalization"]


def local_response_normalization(
    x: np.ndarray, *, size: int, alpha: float, beta: float, bias: float
) -> Any:
    """Divide by sums over neighboring channels."""
    values = widen(x)
    squares = np.square(values)
    sums = np.zeros_like(values)
    before = (size - 1) // 2
    for channel in range(x.shape[1]):
        neighbors = slice(max(0, channel - before), channel - before + size)
        sums[:, channel] = squares[:, neighbors].sum(axis=1)
    return (values / (bias + alpha / size * sums) ** beta).astype(x.dtype)


def lp_normalization(x: np.ndarray, *, axis: int, p: int) -> Any:
    """Divide by the p-norm along an axis; where that is 0, the result is 0."""
    values = widen(x)
    norm = (np.abs(values) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, values / norm).astype(x.dtype)
