"""Operators that change shapes, and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.catalog import Split_1, precision

__all__ = [
    "insert",
    "non_zero",
    "reshape_1",
    "scatter_elements",
    "scatter_nd",
    "softplus",
    "softsign",
    "split_1",
    "squeeze",
    "unique",
    "unsqueeze",
]


def split_1(
    x: np.ndarray,
    lengths: np.ndarray | None = None,
    *,
    outputs: int,
    axis: int = 0,
    split: Sequence[int] = (),
) -> tuple[np.ndarray, ...]:
    """Split into parts of given lengths, or else into equal ones."""
    if lengths is None and not split:
        return tuple(np.split(x, outputs, axis))
    parts: Any = Split_1(axis, list(split))
    return tuple(parts.compute(x, lengths))


def reshape_1(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """Give another shape, in which 0 takes the length over."""
    lengths = [x.shape[axis] if length == 0 else length for axis, length in enumerate(shape)]
    return x.reshape(lengths)


def squeeze(x: np.ndarray, *, axes: Sequence[int] | None = None) -> np.ndarray:
    """Remove axes of length 1, which are given in any order."""
    return x.squeeze(axis=None if axes is None else tuple(axes))


def unsqueeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    """Add axes of length 1, which are given in any order."""
    return np.expand_dims(x, tuple(axes))


def insert(
    sequence: list[np.ndarray], tensor: np.ndarray, position: Any = None
) -> tuple[list[np.ndarray]]:
    """Insert an array into a list."""
    items = list(sequence)
    items.insert(len(items) if position is None else int(position), tensor)
    return (items,)


def non_zero(x: np.ndarray) -> np.ndarray:
    """Return the places of the nonzero elements, one in each column; for a scalar, without axes."""
    return np.argwhere(x).T.astype(np.int64)


def scatter_elements(
    data: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    *,
    axis: int,
    reduction: str = "none",
) -> np.ndarray:
    """Write updates to places along an axis, or add, multiply or compare them."""
    result = data.copy()
    places: list[Any] = list(np.indices(indices.shape))
    places[axis] = indices
    _put(result, tuple(places), updates, reduction)
    return result


def scatter_nd(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, reduction: str = "none"
) -> np.ndarray:
    """Write slices to places, or add, multiply or compare them."""
    result = data.copy()
    _put(result, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)
    return result


def _put(result: np.ndarray, places: Any, updates: np.ndarray, reduction: str) -> None:
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    if reduction in combine:
        combine[reduction].at(result, places, updates)
    else:
        result[places] = updates


def softplus(x: np.ndarray) -> np.ndarray:
    """Compute log(1 + exp(x)) without overflow."""
    return np.asarray(np.logaddexp(precision.widen(x), 0), x.dtype)


def softsign(x: np.ndarray) -> np.ndarray:
    """Divide by one more than the absolute value."""
    return np.asarray(x / (1 + np.abs(x)), x.dtype)


def unique(
    x: np.ndarray, *, axis: int | None = None, sorted: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each value once, sorted or in the order in which the values come."""
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = first.argsort()
        values = values.take(order, axis=axis or 0)
        first, counts = first[order], counts[order]
        inverse = order.argsort()[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)
