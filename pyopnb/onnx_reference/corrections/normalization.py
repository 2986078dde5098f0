"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.catalog import BatchNormalization_1, precision

__all__ = [
    "batch_normalization",
    "local_response_normalization",
    "lp_normalization",
    "mean_variance_normalization",
]


def batch_normalization(
    *inputs: Any,
    epsilon: float,
    momentum: float,
    outputs: int,
    spatial: int = 1,
    training_mode: int | None = None,
) -> Any:
    """Normalize by given statistics; or in training, by the statistics of the batch."""
    if training_mode is None:
        # Before version 14, a node trains if it has more outputs.
        training_mode = outputs > 1
    is_test = int(not training_mode)
    layer = BatchNormalization_1(epsilon, is_test, momentum, spatial)
    normalized, *statistics = layer.compute(*inputs)
    return normalized, *[each.astype(inputs[3].dtype) for each in statistics]


def mean_variance_normalization(x: Any, *, axes: Sequence[int]) -> Any:
    """Subtract the mean, and divide by the deviation."""
    if not x.size:
        # NumPy warns of the mean of nothing.
        return x.copy()
    values = precision.widen(x)
    centered = values - values.mean(axis=tuple(axes), keepdims=True)
    deviation = np.sqrt(np.square(centered).mean(axis=tuple(axes), keepdims=True))
    return (centered / (deviation + 1e-9)).astype(x.dtype)


def local_response_normalization(
    x: np.ndarray, *, size: int, alpha: float, beta: float, bias: float
) -> Any:
    """Divide by sums over neighboring channels."""
    values = precision.widen(x)
    squares = np.square(values)
    sums = np.zeros_like(values)
    before = (size - 1) // 2
    for channel in range(x.shape[1]):
        neighbors = slice(max(0, channel - before), channel - before + size)
        sums[:, channel] = squares[:, neighbors].sum(axis=1)
    return (values / (bias + alpha / size * sums) ** beta).astype(x.dtype)


def lp_normalization(x: np.ndarray, *, axis: int, p: int) -> Any:
    """Divide by the p-norm along an axis; where that is 0, the result is 0."""
    values = precision.widen(x)
    norm = (np.abs(values) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, values / norm).astype(x.dtype)
