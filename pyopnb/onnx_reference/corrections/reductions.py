"""Reductions that take logarithms or squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyopnb.catalog import widen
from pyopnb.errors import ModelError

__all__ = ["l1", "l2", "log_sum", "log_sum_exp", "sum_square"]


def l1(
    x: np.ndarray,
    places: np.ndarray | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    """Add the absolute values."""
    over = _axes(x, places, axes, noop_with_empty_axes)
    return np.asarray(np.abs(x).sum(axis=over, keepdims=bool(keepdims), dtype=x.dtype))


def l2(
    x: np.ndarray,
    places: np.ndarray | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    """Take the root of the sum of squares."""
    over = _axes(x, places, axes, noop_with_empty_axes)
    wide = x.astype(np.float64) if x.dtype.kind in "iu" else widen(x)
    squares = np.square(wide).sum(axis=over, keepdims=bool(keepdims))
    return np.asarray(np.sqrt(squares), x.dtype)


def log_sum(
    x: np.ndarray,
    places: np.ndarray | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    """Take the logarithm of the sum."""
    _check_float(x, "ReduceLogSum")
    over = _axes(x, places, axes, noop_with_empty_axes)
    result = np.log(widen(x).sum(axis=over, keepdims=bool(keepdims)))
    return np.asarray(result, x.dtype)


def log_sum_exp(
    x: np.ndarray,
    places: np.ndarray | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    """Take the logarithm of the sum of exponentials, which do not overflow."""
    _check_float(x, "ReduceLogSumExp")
    over = _axes(x, places, axes, noop_with_empty_axes)
    values = widen(x)
    highest = values.max(axis=over, keepdims=True, initial=-np.inf)
    # Infinities are subtracted from nothing.
    shift = np.where(np.isfinite(highest), highest, 0)
    total = np.log(np.exp(values - shift).sum(axis=over, keepdims=True)) + shift
    if not keepdims:
        total = total.squeeze(axis=over)
    return np.asarray(total, x.dtype)


def sum_square(
    x: np.ndarray,
    places: np.ndarray | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    """Add the squares in the dtype of the input."""
    over = _axes(x, places, axes, noop_with_empty_axes)
    return np.asarray(np.square(x).sum(axis=over, keepdims=bool(keepdims), dtype=x.dtype))


def _axes(
    x: np.ndarray, places: np.ndarray | None, axes: Sequence[int] | None, no_axis_is_none: int
) -> tuple[int, ...]:
    """Return the axes, which are an attr, or from version 18 on an input."""
    given = axes if places is None else places.tolist()
    if given:
        return tuple(given)
    return () if no_axis_is_none else tuple(range(x.ndim))


def _check_float(x: np.ndarray, name: str) -> None:
    if x.dtype.kind in "iu":
        raise ModelError(
            f"reference of ::{name}, input data",
            expected="floats, because logarithms are no integers",
            got=x.dtype.name,
            next="x.astype(np.float32)",
        )
