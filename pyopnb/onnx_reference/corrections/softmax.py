"""LogSoftmax, and before version 13 Softmax and Hardmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyopnb.catalog import precision

__all__ = ["hardmax_1", "log_softmax", "log_softmax_1", "softmax_1"]


def log_softmax(x: Any, *, axis: int) -> Any:
    """Take the logarithm of softmax; it may be finite where softmax is 0."""
    return _log_shares(precision.widen(x), axis).astype(x.dtype)


def softmax_1(x: Any, *, axis: int) -> Any:
    """Divide exponentials by their sum, before version 13."""
    rows = precision.widen(_matrix(x, axis))
    return np.exp(_log_shares(rows, 1)).astype(x.dtype).reshape(x.shape)


def log_softmax_1(x: Any, *, axis: int) -> Any:
    """Take the logarithm of `softmax_1`."""
    return log_softmax(_matrix(x, axis), axis=1).reshape(x.shape)


def hardmax_1(x: Any, *, axis: int) -> Any:
    """Set the first maximum to 1 and all else to 0, before version 13."""
    rows = _matrix(x, axis)
    if not rows.size:
        return x.copy()
    hits = np.arange(rows.shape[1]) == rows.argmax(axis=1)[:, None]
    return hits.astype(x.dtype).reshape(x.shape)


def _matrix(x: Any, axis: int) -> Any:
    """Join the axes before one, and all from it on, as these versions do."""
    start = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:start]), math.prod(x.shape[start:]))


def _log_shares(x: Any, axis: int) -> Any:
    if not x.size:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
