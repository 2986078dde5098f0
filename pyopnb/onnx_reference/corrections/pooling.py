"""Poolings. The attrs that say where windows lie go to `Windows`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pyopnb.catalog import precision
from pyopnb.onnx_reference.corrections.windows import Windows

__all__ = ["average_pool", "global_lp_pool", "global_max_pool", "lp_pool", "max_pool"]


def global_max_pool(x: np.ndarray) -> Any:
    """Take the maximum over all axes but two."""
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


def global_lp_pool(x: np.ndarray, *, p: int) -> Any:
    """Take the p-norm over all axes but two."""
    powers = np.abs(precision.widen(x)) ** p
    sums = powers.sum(axis=tuple(range(2, x.ndim)), keepdims=True)
    return (sums ** (1 / p)).astype(x.dtype)


def max_pool(
    x: np.ndarray, *, storage_order: int = 0, **attrs: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of each window, and its place in the flat tensor."""
    windows = Windows.of(x, **attrs)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    values = windows.elements(x, lowest)
    maxima = values.max(axis=-1, keepdims=True)
    area = math.prod(x.shape[2:])
    numbers = np.arange(area).reshape(x.shape[2:], order="F" if storage_order else "C")
    places = np.broadcast_to(windows.elements(numbers, -1), values.shape)
    # An element may be as low as the padding, and NaN is the maximum, although it equals nothing.
    hits = (places >= 0) & ((values == maxima) | (values != values))
    places = np.take_along_axis(places, hits.argmax(axis=-1)[..., None], -1)[..., 0]
    images = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    return maxima[..., 0], places + images * area


def average_pool(x: np.ndarray, *, count_include_pad: int = 0, **attrs: Any) -> Any:
    """Return the mean of each window."""
    windows = Windows.of(x, **attrs)
    sums = windows.elements(precision.widen(x), 0).sum(axis=-1)
    if count_include_pad:
        # Elements that ceil_mode adds beyond the padding do not count.
        parts = zip(windows.begins, windows.sizes, windows.ends, strict=True)
        sizes = [sum(part) for part in parts]
        windows = replace(windows, sizes=sizes, begins=[0] * len(sizes))
    counts = windows.elements(np.ones(windows.sizes), 0).sum(axis=-1)
    return (sums / counts).astype(x.dtype)


def lp_pool(x: np.ndarray, *, p: float, **attrs: Any) -> Any:
    """Return the p-norm of each window."""
    powers = np.abs(Windows.of(x, **attrs).elements(precision.widen(x), 0)) ** p
    return (powers.sum(axis=-1) ** (1 / p)).astype(x.dtype)
