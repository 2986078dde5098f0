"""Floats of every width as NumPy's own, and as integers in the order of their values, block by block."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

__all__ = ["ordered", "smallest_normal", "steps", "widened"]


@cache
def _values(kind: np.dtype) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)


@cache
def _places(kind: np.dtype) -> np.ndarray:
    """The place of each of the 256 bit patterns among the values of a one-byte float; -0.0, where there is one, has its own."""
    values = _values(kind)
    values = np.where((values == 0) & np.signbit(values), np.float32(-1e-45), np.where(np.isnan(values), 0, values))
    return np.asarray(np.searchsorted(np.unique(values), values), np.int32)


def widened(block: np.ndarray) -> np.ndarray:
    """A block of any float as float32 or float64 of the same values.

    Examples
    --------
    >>> widened(np.array([1.5, -2], ml_dtypes.bfloat16))
    array([ 1.5, -2. ], dtype=float32)
    """
    if block.dtype.itemsize == 1:
        return _values(block.dtype)[block.view(np.uint8)]
    if block.dtype == ml_dtypes.bfloat16:
        return (block.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return block.astype(np.float32) if block.dtype == np.float16 else block


def ordered(block: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Bits as signed integers that rise with the value, one from each number to the next; -0.0 is one below 0.0."""
    if block.dtype.itemsize == 1:
        return _places(block.dtype)[block.view(np.uint8)]
    bits = block.view(f"i{block.dtype.itemsize}")
    wide = bits.astype(np.int32) if bits.itemsize == 2 else bits
    sign, rest = (15, 0x7FFF) if bits.itemsize == 2 else (31, 0x7FFFFFFF) if bits.itemsize == 4 else (63, 2**63 - 1)
    out = np.right_shift(wide, sign, out=out)
    np.bitwise_and(out, rest, out=out)
    return np.asarray(np.bitwise_xor(out, wide, out=out))


def steps(
    x: np.ndarray, y: np.ndarray, one: np.ndarray | None = None, two: np.ndarray | None = None, three: np.ndarray | None = None
) -> np.ndarray:
    """Units in the last place between two blocks without NaN: how many numbers of the dtype one has to go up or down.

    Examples
    --------
    >>> steps(np.float32([1, -1, 0]), np.float32([1.0000001, 1, 1e-45])).tolist()
    [1, 2130706433, 1]
    """
    i, j = ordered(x, one), ordered(y, two)
    most = np.maximum(i, j, out=three)
    least = np.minimum(i, j, out=one)
    # The distance of the farthest two needs the sign's bit: it is exact as an unsigned number.
    return np.asarray(np.subtract(most, least, out=most).view(f"u{most.itemsize}"))


def smallest_normal(kind: np.dtype) -> float:
    """The smallest number of a float dtype that has all its digits; below are the subnormals."""
    return float(ml_dtypes.finfo(kind).smallest_normal)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
