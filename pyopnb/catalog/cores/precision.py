"""The dtype in which an entry computes: half precision is computed in float32 and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["sigmoid", "wide_dtype", "widen"]


def wide_dtype(dtype: Any) -> Any:
    """Return float64 for float64, and float32 for all smaller floats.

    GPU kernels accumulate so, and a result that is rounded after each step
    would differ from theirs.
    """
    if dtype == np.float64:
        return np.float64
    return np.float32


def widen(x: np.ndarray) -> np.ndarray:
    """Convert to the dtype in which an entry computes."""
    return x.astype(wide_dtype(x.dtype))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(-x)) without overflow."""
    # exp(-|x|) is at most 1, so that both branches are safe.
    tail = np.exp(-np.abs(x))
    result = np.where(x >= 0, 1, tail)
    return result / (1 + tail)
