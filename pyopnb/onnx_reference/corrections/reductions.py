"""Reductions that take logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyopnb.catalog import precision
from pyopnb.errors import ModelError

__all__ = ["log_sum", "log_sum_exp"]

_Reduce = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


def _reduction(name: str, reduce: _Reduce) -> Callable[..., np.ndarray]:
    """Make a reduction of one that keeps the axes, and that computes in wide floats."""

    def compute(
        x: np.ndarray,
        places: np.ndarray | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int,
        noop_with_empty_axes: int = 0,
    ) -> np.ndarray:
        if x.dtype.kind in "iu":
            raise ModelError(
                f"reference of ::{name}, input data",
                expected="floats, because a logarithm is not an integer",
                got=x.dtype.name,
                next="x.astype(np.float32)",
            )
        # The axes are an attr, or from version 18 on an input.
        over = tuple(axes or ()) if places is None else tuple(places.tolist())
        if not over and not noop_with_empty_axes:
            over = tuple(range(x.ndim))
        result = reduce(precision.widen(x), over)
        if not keepdims:
            result = result.squeeze(axis=over)
        return np.asarray(result, x.dtype)

    return compute


def _log_sum(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.log(x.sum(axis=axes, keepdims=True)))


def _log_sum_exp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    highest = x.max(axis=axes, keepdims=True, initial=-np.inf)
    # Infinities are subtracted from nothing, and exponentials do not overflow.
    shift = np.where(np.isfinite(highest), highest, 0)
    return _log_sum(np.exp(x - shift), axes) + shift


log_sum = _reduction("ReduceLogSum", _log_sum)
log_sum_exp = _reduction("ReduceLogSumExp", _log_sum_exp)
