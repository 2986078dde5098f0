"""How two arrays differ, in one line: bit by bit, beyond a tolerance, or in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.diffs.base import TOLERANCES
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import plural, sanitize
from pyopnb.ops.types import type_of

__all__ = ["RELATIVE", "difference", "is_float", "ulps"]

RELATIVE = {name: rtol for name, (rtol, _) in TOLERANCES.items() if not name.startswith("complex")}
"""Relative tolerances between two good implementations of one operator; other dtypes are exact."""

_OF_LARGEST = 0.1  # share of the tolerance relative to the largest element: sums of large terms cancel


def is_float(array: np.ndarray) -> bool:
    """Whether an array has a dtype of `RELATIVE`."""
    return array.dtype != object and dtype(array.dtype).name in RELATIVE


def difference(got: np.ndarray, want: np.ndarray, rtol: float | None = None) -> str | None:
    """Describe how two arrays differ; None if they agree.

    Parameters
    ----------
    got, want : ndarray
        NaN agrees with NaN at the same index. Another dtype or shape is a difference, and nothing is broadcast.
    rtol : float, optional
        Tolerance relative to the element of ``want``, plus a tenth of it relative to the largest element. Without it, every
        bit counts, and -0.0 is not 0.0. It applies only to the dtypes of `RELATIVE`.

    Examples
    --------
    >>> difference(np.float32([1, 2]), np.float32([1, 3]))
    '[1] is 2.0 instead of 3.0 (1 of 2 elements differs)'
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
    error = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0))
    largest = np.abs(b[finite]).max(initial=0.0)
    wrong = ~same & (~finite | (error > rtol * (np.abs(b) + _OF_LARGEST * largest)))
    return _worst(wrong, got, want, np.where(finite, error, np.inf))


def _unequal(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if got.dtype == object:
        return np.asarray([a != b for a, b in zip(got.ravel(), want.ravel(), strict=True)], bool).reshape(got.shape)
    bits = np.dtype(f"u{got.dtype.itemsize}") if got.dtype.itemsize in (1, 2, 4, 8) else got.dtype
    unequal = _bits(got, bits) != _bits(want, bits)
    both_nan = (got != got) & (want != want)
    return np.asarray(unequal & ~both_nan)


def _bits(array: np.ndarray, bits: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(array.shape).view(bits)


def _worst(wrong: np.ndarray, got: np.ndarray, want: np.ndarray, error: np.ndarray | None = None) -> str | None:
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    index = np.unravel_index(int(np.argmax(wrong if error is None else np.where(wrong, error, -1.0))), got.shape)
    verb = "differs" if count == 1 else "differ"
    return f"{_instead(index, got, want)} ({count:,} of {plural(got.size, 'element')} {verb})"


def _instead(index: tuple[Any, ...], got: np.ndarray, want: np.ndarray) -> str:
    return f"[{','.join(map(str, index))}] is {sanitize(got[index])} instead of {sanitize(want[index])}"


def ulps(got: np.ndarray, exact: np.ndarray) -> tuple[float, str]:
    """The largest error of an array against its values in float64, in units in the last place of its dtype, and where it is.

    The unit is that of the element, or of the root mean square of all elements if that is larger: the rounding error of a sum
    that cancels is that of its terms. A value that overflows the dtype must be infinite.

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
    error = np.where(
        same, 0.0, np.where(finite, np.abs(np.where(finite, a, 0.0) - np.where(finite, exact, 0.0)) / unit, np.inf)
    )
    if not error.size or not error.max():
        return 0.0, ""
    index = np.unravel_index(int(np.argmax(error)), error.shape)
    return float(error.max()), _instead(index, got, exact)
