"""Large matrices reduced to the size of a picture, so that what stands out stays visible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["edges", "pool"]

_BLOCK = 2**17  # elements read at a time


def edges(size: int, most: int) -> np.ndarray:
    """The borders of at most ``most`` cells of equal size, but for rounding, along an axis: int64[cells + 1].

    Examples
    --------
    >>> edges(5, 2).tolist(), edges(2, 5).tolist()
    ([0, 2, 5], [0, 1, 2])
    """
    count = min(size, most)
    return np.arange(count + 1, dtype=np.int64) * size // max(1, count)


def pool(matrix: np.ndarray, rows: int, columns: int, convert: Callable[[np.ndarray], np.ndarray] = np.asarray) -> np.ndarray:
    """Max pooling by magnitude: of each cell of a matrix the number that is farthest from 0.

    NaN ranks above infinities, and these above all numbers. A mean would hide the one element that is wrong.

    Parameters
    ----------
    matrix : ndarray
        Two axes, neither of them empty; never copied as a whole.
    rows, columns : int
        The most cells along each axis.
    convert : callable
        Makes floats or integers of a block.

    Returns
    -------
    ndarray
        float64[cells down, cells across].

    Examples
    --------
    >>> pool(np.array([[1, -2, 3, 4], [0, 0, 0, -9]]), 1, 2)
    array([[-2., -9.]])
    """
    down, across = edges(matrix.shape[0], rows), edges(matrix.shape[1], columns)
    pooled = np.empty((down.size - 1, across.size - 1))
    with np.errstate(all="ignore"):
        for row, (top, bottom) in enumerate(zip(down[:-1].tolist(), down[1:].tolist(), strict=True)):
            pooled[row] = _pool_band(matrix[top:bottom], across, convert)
    return pooled


def _pool_band(band: np.ndarray, across: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """One row of cells, read in blocks of whole cells as far as these fit into a block."""
    pooled = np.zeros(across.size - 1)
    height = max(1, min(band.shape[0], _BLOCK // max(1, min(band.shape[1], _BLOCK))))
    step = max(1, (_BLOCK // height) * pooled.size // band.shape[1])  # cells of a block
    for first in range(0, pooled.size, step):
        borders = across[first : first + step + 1]
        for top in range(0, band.shape[0], height):
            block = np.ascontiguousarray(convert(band[top : top + height, borders[0] : borders[-1]]))
            high = np.maximum.reduceat(block.max(axis=0), borders[:-1] - borders[0])
            low = np.minimum.reduceat(block.min(axis=0), borders[:-1] - borders[0])
            pooled[first : first + step] = _farther(pooled[first : first + step], _farther(high, low))
    return pooled


def _farther(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise the one that is farther from 0; NaN is farther than all."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.where(np.isnan(b) | (np.abs(b) > np.abs(a)), b, a)
