"""Arrays whose functions round differently from NumPy, as in another library.

A body may make much of a rounding error: it may subtract 1 from ``exp(x)``,
or divide by a sum that cancels. Running it on such arrays shows how far two right
computations of it may be apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.testing.verification.values import has_fractions

__all__ = ["Shares", "draw_shares", "jittered", "moved", "precision_of", "widened"]

_UNITS = 1.5
"""How far each number is moved at most, in units in the last place: good implementations of exp,
tanh or arcsin are off by up to 4, and the effect of a move is taken 16 times (`rounding`)."""

# IEEE 754 says what these give to the last bit, so every library agrees.
_ROUNDED_ONCE = {"add", "subtract", "multiply", "divide", "sqrt", "square", "fmod", "remainder"}
# These give one of their inputs, or a whole number, in any precision.
_NEVER_ROUNDED = {"negative", "positive", "absolute", "fabs", "sign", "copysign", "conjugate"}
_NEVER_ROUNDED |= {"maximum", "minimum", "fmax", "fmin", "clip", "floor", "ceil", "rint", "trunc"}


def precision_of(dtype: np.dtype) -> tuple[float, float]:
    """Return the distance from 1 to the next number, and the smallest number above 0."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
    return float(info.eps), float(info.smallest_subnormal)


def moved(array: np.ndarray, share: np.ndarray | float) -> np.ndarray:
    """Move each number by a part of a rounding error, given as a share between 0 and 1."""
    eps, _ = precision_of(array.dtype)
    with np.errstate(all="ignore"):
        # A share of 0.5 leaves a number where it is, 0 and 1 move it by all of _UNITS.
        change = 2 * _UNITS * eps * (np.asarray(share) - 0.5)
        result = widened(array) * (1 + change)
        return np.asarray(result.astype(array.dtype))


def widened(array: np.ndarray) -> np.ndarray:
    """Return an array in a dtype in which its differences are exact enough."""
    if array.dtype.itemsize > 4:
        return array.astype(np.longdouble)
    return array.astype(np.float64)


Shares = Callable[[tuple[int, ...]], np.ndarray]
"""Draws shares of a rounding error for an array's shape, between 0 (down) and 1 (up)."""


def draw_shares(run: int) -> Shares:
    """Return how far numbers are moved in a run: all of them up, all of them down, then at random.

    One of many equal numbers may by chance stay the same in every random run, and so on
    its side of an edge.
    """
    if run < 2:
        share = float(run)
        return lambda shape: np.full(shape, share)
    return np.random.default_rng(run).random


def jittered(array: np.ndarray, shares: Shares, *, sums: bool = True) -> np.ndarray:
    """Return the same numbers in an array whose functions move their results by a rounding error.

    Parameters
    ----------
    shares : callable
        As `draw_shares` returns it.
    sums : bool
        Whether sums and products along an axis are moved, which some numbers give exactly.
    """

    class Jittered(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            # NumPy calls this for each function of such an array, and for its
            # sums as a reduce of add.
            if kwargs.get("out"):
                kwargs["out"] = tuple(map(_plain, kwargs["out"]))
            results = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
            # Functions such as divmod and frexp return two arrays.
            if isinstance(results, tuple):
                return tuple(_wrap(ufunc, method, result) for result in results)
            return _wrap(ufunc, method, results)

    def _plain(value: Any) -> Any:
        # NumPy would call __array_ufunc__ again, and so on, for an array of our class.
        if isinstance(value, Jittered):
            return value.view(np.ndarray)
        return value

    def _wrap(ufunc: Any, method: str, result: Any) -> Any:
        if (sums or method == "__call__") and _is_inexact(ufunc, method, result):
            values = moved(np.asarray(result), shares(np.shape(result)))
            if not isinstance(result, np.ndarray):
                return values[()]
            # In place, as the result may be the array of ``out``, which the body still uses.
            result[...] = values
        if isinstance(result, np.ndarray):
            return result.view(Jittered)
        return result

    return array.view(Jittered)


def _is_inexact(ufunc: Any, method: str, result: Any) -> bool:
    dtype = getattr(result, "dtype", np.dtype(bool))
    if ufunc.__name__ in _NEVER_ROUNDED or not has_fractions(dtype):
        return False
    # Runtimes compute float16 in float32, and round less often. Sums depend on the
    # order of their terms.
    return dtype.itemsize < 4 or method != "__call__" or ufunc.__name__ not in _ROUNDED_ONCE
