"""Large matrices reduced to the size of a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import numpy as np

__all__ = ["Pooling", "edges", "pool"]

Pooling: TypeAlias = Literal["mean", "nearest", "largest"]
"""What a cell shows of the elements in it: their mean, the one in the middle, or the one that is farthest from 0."""

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


def pool(
    matrix: np.ndarray,
    rows: int,
    columns: int,
    how: Pooling,
    convert: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> np.ndarray:
    """A matrix in fewer cells.

    Means look like the matrix from afar. They, and single elements, can hide the one that is wrong, which the largest cannot:
    there NaN ranks above infinities, and these above all numbers.

    Parameters
    ----------
    matrix : ndarray
        Two axes, neither of them empty; never copied as a whole.
    rows, columns : int
        The most cells along each axis.
    how : str
        ``mean``, ``nearest`` or ``largest``.
    convert : callable
        Makes floats or integers of a block.

    Returns
    -------
    ndarray
        float64[cells down, cells across].

    Examples
    --------
    >>> matrix = np.array([[1, -2, 3, 4], [0, 0, 0, -9]])
    >>> pool(matrix, 1, 2, "largest"), pool(matrix, 1, 2, "mean")
    (array([[-2., -9.]]), array([[-0.25, -0.5 ]]))
    """
    down, across = edges(matrix.shape[0], rows), edges(matrix.shape[1], columns)
    if how == "nearest" or (down.size > matrix.shape[0] and across.size > matrix.shape[1]):
        middles = np.ix_((down[:-1] + down[1:]) // 2, (across[:-1] + across[1:]) // 2)
        return convert(matrix[middles]).astype(np.float64)
    pool_band = _largest_of_band if how == "largest" else _mean_of_band
    pooled = np.empty((down.size - 1, across.size - 1))
    with np.errstate(all="ignore"):
        for row, (top, bottom) in enumerate(
            zip(down[:-1].tolist(), down[1:].tolist(), strict=True)
        ):
            pooled[row] = pool_band(matrix[top:bottom], across, convert)
    return pooled


_Blocks: TypeAlias = Iterator[tuple[slice, np.ndarray, np.ndarray]]


def _blocks(
    band: np.ndarray, across: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]
) -> _Blocks:
    """One row of cells in blocks of whole cells as far as these fit: which cells, their borders in the block, the block."""
    cells = across.size - 1
    height = max(1, min(band.shape[0], _BLOCK // max(1, min(band.shape[1], _BLOCK))))
    step = max(1, (_BLOCK // height) * cells // band.shape[1])
    for first in range(0, cells, step):
        borders = across[first : first + step + 1]
        for top in range(0, band.shape[0], height):
            block = np.ascontiguousarray(
                convert(band[top : top + height, borders[0] : borders[-1]])
            )
            yield slice(first, first + step), borders[:-1] - borders[0], block


def _largest_of_band(
    band: np.ndarray, across: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    pooled = np.zeros(across.size - 1)
    for cells, borders, block in _blocks(band, across, convert):
        high = np.maximum.reduceat(block.max(axis=0), borders)
        low = np.minimum.reduceat(block.min(axis=0), borders)
        pooled[cells] = _farther(pooled[cells], _farther(high, low))
    return pooled


def _mean_of_band(
    band: np.ndarray, across: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    sums, scaled, finite = (
        np.zeros(across.size - 1),
        np.zeros(across.size - 1),
        np.ones(across.size - 1, bool),
    )
    counts = np.diff(across) * band.shape[0]
    for cells, borders, block in _blocks(band, across, convert):
        part = np.add.reduceat(block.sum(axis=0, dtype=np.float64), borders)
        if not np.isfinite(
            part
        ).all():  # perhaps only the sum, and not the mean, is more than float64 holds
            widths = np.repeat(counts[cells], np.diff([*borders, block.shape[1]]))
            scaled[cells] += np.add.reduceat((block / widths).sum(axis=0), borders)
            finite[cells] &= np.logical_and.reduceat(np.isfinite(block).all(axis=0), borders)
            part[:] = 0
        sums[cells] += part
    sums /= counts
    means, most = sums + scaled, np.finfo(np.float64).max
    return np.where(
        finite, np.clip(means, -most, most), means
    )  # rounding can make the sum of the parts infinite


def _farther(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise the one that is farther from 0; NaN is farther than all."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.where(np.isnan(b) | (np.abs(b) > np.abs(a)), b, a)
