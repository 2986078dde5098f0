"""The gradients of a softmax and of its logarithm, from their results."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["log_softmax_gradient", "softmax_gradient"]


def softmax_gradient(gradient: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """Compute the gradient of a softmax from its result."""
    share = widen(y)
    wide = widen(gradient)
    weighted = share * wide
    # The sum is the part that the normalization gives back to each row.
    back = weighted.sum(axis=axis, keepdims=True)
    slope = share * (wide - back)
    return slope.astype(gradient.dtype)


def log_softmax_gradient(gradient: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """Compute the gradient of the logarithm of a softmax from its result."""
    wide = widen(gradient)
    back = wide.sum(axis=axis, keepdims=True)
    # The exponential of the result is the softmax.
    slope = wide - np.exp(widen(y)) * back
    return slope.astype(gradient.dtype)
