"""What tells two arrays apart, in one line: exactly, within a tolerance, or in units of the last place."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pyopnb.diffs.base import TOLERANCES
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import sanitize
from pyopnb.ops.types import type_of

__all__ = ["RELATIVE", "difference", "is_float", "ulps"]

RELATIVE = {name: rtol for name, (rtol, _) in TOLERANCES.items() if not name.startswith("complex")}
"""Relative tolerances between two good implementations of one operator; other dtypes are exact."""

_OF_LARGEST = 0.1  # part of the tolerance that the largest element sets: sums of large terms cancel


def is_float(array: np.ndarray) -> bool:
    """Whether an array is of a dtype in `RELATIVE`: those that people calculate with."""
    return array.dtype != object and dtype(array.dtype).name in RELATIVE


def difference(got: np.ndarray, want: np.ndarray, rtol: float | None = None) -> str | None:
    """What tells two arrays apart; None where they agree.

    Parameters
    ----------
    got, want : ndarray
        NaN agrees with NaN at the same place. Another dtype or shape is a difference, and nothing is broadcast.
    rtol : float, optional
        Tolerated, relative to the element of ``want``; a tenth of it relative to the largest element. Without it, every bit
        counts, -0.0 is not 0.0. It concerns the dtypes in `RELATIVE` only.

    Examples
    --------
    >>> difference(np.float32([1, 2]), np.float32([1, 3]))
    '[1] is 2.0 instead of 3.0 (1 of 2 elements differ)'
    >>> difference(np.float32([np.nan]), np.float32([np.nan])) is None
    True
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{type_of(got)} instead of {type_of(want)}"
    if rtol is None or not is_float(want):
        return _worst(_unequal(got, want), got, want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    away = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0))
    largest = np.abs(b[finite]).max(initial=0.0)
    wrong = ~same & (~finite | (away > rtol * (np.abs(b) + _OF_LARGEST * largest)))
    return _worst(wrong, got, want, np.where(finite, away, np.inf))


def _unequal(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if got.dtype == object:
        return np.asarray([a != b for a, b in zip(got.ravel(), want.ravel(), strict=True)], bool).reshape(got.shape)
    bits = np.dtype(f"u{got.dtype.itemsize}") if got.dtype.itemsize in (1, 2, 4, 8) else got.dtype
    unequal = _bits(got, bits) != _bits(want, bits)
    both_nan = (got != got) & (want != want)
    return np.asarray(unequal & ~both_nan)


def _bits(array: np.ndarray, bits: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(array.shape).view(bits)


def _worst(wrong: np.ndarray, got: np.ndarray, want: np.ndarray, size: np.ndarray | None = None) -> str | None:
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    place = int(np.argmax(wrong if size is None else np.where(wrong, size, -1.0)))
    index = np.unravel_index(place, got.shape)
    at = f"[{','.join(map(str, index))}]"
    return f"{at} is {sanitize(got[index])} instead of {sanitize(want[index])} ({count} of {got.size} elements differ)"


def ulps(got: np.ndarray, exact: np.ndarray) -> tuple[float, str]:
    """How far an array is from its float64 values, in units of its dtype's last place, and where it is farthest.

    The unit is that of the element, or of the root mean square of all where that is larger: what cancels to nearly nothing has
    no last place of its own. What float64 has and the dtype cannot hold must be infinite.

    Examples
    --------
    >>> ulps(np.float32([1, 1 + 2**-22]), np.float64([1, 1]))
    (2.0, '[1] is 1.0000002 instead of 1.0')
    """
    with np.errstate(over="ignore", under="ignore"):
        wanted = exact.astype(got.dtype)
    a, rounded = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(rounded)
    same = (a == rounded) | (np.isnan(a) & np.isnan(rounded))
    values = exact[finite]
    typical = float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
    info = ml_dtypes.finfo(got.dtype)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
    unit = float(info.eps) * np.maximum(np.abs(np.where(finite, exact, 0.0)), max(typical, float(info.tiny)))
    off = np.where(same, 0.0, np.where(finite, np.abs(np.where(finite, a, 0.0) - np.where(finite, exact, 0.0)) / unit, np.inf))
    if not off.size or not off.max():
        return 0.0, ""
    index = np.unravel_index(int(np.argmax(off)), off.shape)
    at = f"[{','.join(map(str, index))}]"
    return float(off.max()), f"{at} is {sanitize(got[index])} instead of {sanitize(exact[index])}"
