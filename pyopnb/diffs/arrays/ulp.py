"""The floats of a dtype in the order of their values, to count units in the last place."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

__all__ = ["rounding_error", "smallest_normal", "tabulate"]


@cache
def tabulate(kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Tabulate a float dtype of one or two bytes.

    Returns
    -------
    values : ndarray, float32[65536]
        The value of each pattern of bits, repeated for a dtype of one byte.
    order : ndarray, uint32[65536]
        The position of each pattern among all values. -0.0, where the dtype has it, is one below
        0.0, and the position of NaN is arbitrary.

    Examples
    --------
    >>> values, order = tabulate(np.dtype(ml_dtypes.bfloat16))
    >>> one, next_to_it = 0x3F80, 0x3F81
    >>> values[next_to_it] - values[one], order[next_to_it] - order[one]
    (np.float32(0.0078125), np.uint32(1))
    """
    patterns = np.arange(2**16, dtype=np.uint16).astype(f"u{kind.itemsize}")
    # Signaling NaN patterns warn when they are widened.
    with np.errstate(invalid="ignore"):
        values = patterns.view(kind).astype(np.float32)
    ordered = np.where(np.isnan(values), 0, values)
    # The smallest number of float32 takes the place of -0.0, as no dtype of two bytes has it.
    ordered[(values == 0) & np.signbit(values)] = np.float32(-1e-45)
    return values, np.searchsorted(np.unique(ordered), ordered).astype(np.uint32)


def smallest_normal(kind: np.dtype) -> float:
    """Return the smallest normal number of a float dtype."""
    return float(ml_dtypes.finfo(kind).smallest_normal)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16


def rounding_error(rounded: np.ndarray, exact: np.ndarray) -> tuple[float, str]:
    """Measure the largest error of an array in units in the last place, and say where it is.

    Parameters
    ----------
    rounded : ndarray
        Of a float dtype.
    exact : ndarray
        The values in float64. One that overflows the dtype must be infinite in ``rounded``.

    Examples
    --------
    >>> rounding_error(np.float32([1, 1 + 2**-22]), np.float64([1, 1]))
    (2.0, '[1] is 1.0000002 instead of 1.0')
    """
    with np.errstate(over="ignore", under="ignore"):
        # A value that the dtype rounds to exactly this is as good as it gets.
        nearest = exact.astype(rounded.dtype).astype(np.float64)
    values = rounded.astype(np.float64)
    finite = np.isfinite(values) & np.isfinite(nearest)
    errors = np.full(values.shape, np.inf)
    errors[finite] = np.abs(values[finite] - exact[finite]) / _units(rounded.dtype, exact[finite])
    errors[(values == nearest) | (np.isnan(values) & np.isnan(nearest))] = 0.0
    largest = float(errors.max(initial=0.0))
    if not largest:
        return 0.0, ""
    index = np.unravel_index(int(np.argmax(errors)), errors.shape)
    where = ",".join(map(str, map(int, index)))
    return largest, f"[{where}] is {rounded[index]!s} instead of {exact[index]!s}"


def _units(kind: np.dtype, exact: np.ndarray) -> np.ndarray:
    """Return the unit in the last place at each value.

    Where a sum cancels, its rounding error comes from its terms: no unit is smaller than the unit
    at the root mean square of all values.
    """
    info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
    smallest = float(info.tiny)
    if exact.size:
        smallest = max(smallest, float(np.sqrt(np.mean(np.square(exact)))))
    units: np.ndarray = float(info.eps) * np.maximum(np.abs(exact), smallest)
    return units
