"""Softmax, LogSoftmax and Hardmax before version 13, which take the axes from one on for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["hardmax", "log_softmax", "softmax"]


def softmax(x: np.ndarray, axis: int) -> Any:
    """Divide exponentials by their sum."""
    return _along_matrix(lambda rows: np.exp(_log_shares(rows)), x, axis)


def log_softmax(x: np.ndarray, axis: int) -> Any:
    """Take the logarithm of `softmax`."""
    return _along_matrix(_log_shares, x, axis)


def hardmax(x: np.ndarray, axis: int) -> Any:
    """Set the first maximum to 1 and all else to 0."""

    def compute(rows: np.ndarray) -> Any:
        return np.arange(rows.shape[1]) == rows.argmax(axis=1)[:, None]

    return _along_matrix(compute, x, axis)


def _along_matrix(compute: Callable[[np.ndarray], np.ndarray], x: np.ndarray, axis: int) -> Any:
    """Compute on the rows of a matrix, whose columns are all axes from ``axis`` on."""
    if not x.size:
        return x.copy()
    # An axis may be as large as the rank: each element is a row then.
    start = axis + x.ndim if axis < 0 else axis
    rows = widen(x).reshape(int(np.prod(x.shape[:start])), -1)
    return compute(rows).reshape(x.shape).astype(x.dtype)


def _log_shares(rows: np.ndarray) -> Any:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
