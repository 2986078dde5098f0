"""A large matrix made small enough to be looked at, so that what stands out stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["edges", "pooled"]

_BLOCK = 2**17  # elements that are looked at in one go


def edges(size: int, most: int) -> np.ndarray:
    """Where the fields of an axis begin and end: at most so many, of one size but for rounding.

    Examples
    --------
    >>> edges(5, 2).tolist(), edges(2, 5).tolist()
    ([0, 2, 5], [0, 1, 2])
    """
    count = min(size, most)
    return np.arange(count + 1, dtype=np.int64) * size // max(1, count)


def pooled(matrix: np.ndarray, rows: int, columns: int, plain: Callable[[np.ndarray], np.ndarray] = np.asarray) -> np.ndarray:
    """Of each field of a matrix the number of the largest magnitude, as float64.

    NaN outdoes infinities, and these all numbers. A mean would hide the one element that is wrong.

    Parameters
    ----------
    matrix : ndarray
        Two axes, neither of them empty; not copied as a whole.
    rows, columns : int
        The most fields along each axis.
    plain : callable
        Makes floats or whole numbers of a block.

    Examples
    --------
    >>> pooled(np.array([[1, -2, 3, 4], [0, 0, 0, -9]]), 1, 2)
    array([[-2., -9.]])
    """
    down, across = edges(matrix.shape[0], rows), edges(matrix.shape[1], columns)
    made = np.empty((down.size - 1, across.size - 1))
    with np.errstate(all="ignore"):
        for row, (top, bottom) in enumerate(zip(down[:-1].tolist(), down[1:].tolist(), strict=True)):
            made[row] = _row(matrix[top:bottom], across, plain)
    return made


def _row(band: np.ndarray, across: np.ndarray, plain: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The fields of a band, which is cut into blocks of whole fields as far as these fit."""
    fields = np.zeros(across.size - 1)
    height = max(1, min(band.shape[0], _BLOCK // max(1, min(band.shape[1], _BLOCK))))
    step = max(1, (_BLOCK // height) * fields.size // band.shape[1])  # fields that are looked at together
    for first in range(0, fields.size, step):
        inside = across[first : first + step + 1]
        for top in range(0, band.shape[0], height):
            block = np.ascontiguousarray(plain(band[top : top + height, inside[0] : inside[-1]]))
            high = np.maximum.reduceat(block.max(axis=0), inside[:-1] - inside[0])
            low = np.minimum.reduceat(block.min(axis=0), inside[:-1] - inside[0])
            fields[first : first + step] = _larger(fields[first : first + step], _larger(high, low))
    return fields


def _larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whichever is farther from 0; NaN is farther than all."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.where(np.isnan(b) | (np.abs(b) > np.abs(a)), b, a)
