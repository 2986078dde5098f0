"""The floats of a dtype in the order of their values: what a unit in the last place is counted in."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

__all__ = ["smallest_normal", "tabulate"]


@cache
def tabulate(kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Tabulate a float dtype of one or two bytes.

    Parameters
    ----------
    kind : dtype

    Returns
    -------
    values : ndarray, float32[N]
        The value of each of the N patterns of bits.
    order : ndarray, int32[N]
        The position of each pattern among all values; -0.0, where the dtype has it, is one below 0.0. That of NaN is arbitrary.

    Examples
    --------
    >>> values, order = tabulate(np.dtype(ml_dtypes.bfloat16))
    >>> one, next_to_it = 0x3F80, 0x3F81
    >>> values[next_to_it] - values[one], order[next_to_it] - order[one]
    (np.float32(0.0078125), np.int32(1))
    """
    with np.errstate(invalid="ignore"):
        values = np.arange(256**kind.itemsize, dtype=f"u{kind.itemsize}").view(kind).astype(np.float32)
    ordered = np.where((values == 0) & np.signbit(values), np.float32(-1e-45), np.where(np.isnan(values), 0, values))
    return values, np.searchsorted(np.unique(ordered), ordered).astype(np.int32)


def smallest_normal(kind: np.dtype) -> float:
    """Give the smallest number of a float dtype that has all its digits; below are the subnormals.

    Returns
    -------
    float
    """
    return float(ml_dtypes.finfo(kind).smallest_normal)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
