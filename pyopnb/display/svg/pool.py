"""Large matrices reduced to the size of a picture."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

__all__ = ["Pooling", "edges", "pool", "to_floats"]

Pooling: TypeAlias = Literal["mean", "nearest"]
"""How a cell summarizes its elements: by their mean, or by the one in the middle."""


def edges(size: int, most: int) -> np.ndarray:
    """Return the borders of at most ``most`` similar cells along an axis: int64[cells + 1].

    Examples
    --------
    >>> edges(5, 2).tolist(), edges(2, 5).tolist()
    ([0, 2, 5], [0, 1, 2])
    """
    count = min(size, most)
    return np.arange(count + 1, dtype=np.int64) * size // max(1, count)


def to_floats(block: np.ndarray) -> np.ndarray:
    """Convert to float64; complex numbers become their modulus."""
    # A NaN that signals would warn.
    with np.errstate(all="ignore"):
        if block.dtype.kind != "c":
            return block.astype(np.float64)
        modulus: np.ndarray = np.abs(block).astype(np.float64)
    # Otherwise the modulus of Inf+NaNj would be Inf.
    modulus[np.isnan(block)] = np.nan
    return modulus


def _middles(borders: np.ndarray) -> np.ndarray:
    middles: np.ndarray = (borders[:-1] + borders[1:]) // 2
    return middles


def pool(matrix: np.ndarray, rows: int, columns: int, how: Pooling) -> np.ndarray:
    """Reduce a matrix to fewer cells.

    Parameters
    ----------
    matrix : ndarray
        Two axes, neither of them empty; never copied as a whole.
    rows, columns : int
        The most cells along each axis.
    how : str
        ``mean`` or ``nearest``.

    Returns
    -------
    ndarray
        float64[cells down, cells across].

    Examples
    --------
    >>> matrix = np.array([[1, -2, 3, 4], [0, 0, 0, -9]])
    >>> pool(matrix, 1, 2, "nearest"), pool(matrix, 1, 2, "mean")
    (array([[ 0., -9.]]), array([[-0.25, -0.5 ]]))
    """
    down = edges(matrix.shape[0], rows)
    across = edges(matrix.shape[1], columns)
    cells_are_elements = down.size > matrix.shape[0] and across.size > matrix.shape[1]
    if how == "nearest" or cells_are_elements:
        return to_floats(matrix[np.ix_(_middles(down), _middles(across))])
    # Row by row of cells, so that nothing large is made.
    sums = np.empty((down.size - 1, across.size - 1))
    with np.errstate(all="ignore"):
        for row, (first, last) in enumerate(pairwise(down)):
            block = to_floats(matrix[first:last]).sum(axis=0)
            sums[row] = np.add.reduceat(block, across[:-1])
        means: np.ndarray = sums / (np.diff(down)[:, None] * np.diff(across))
    return means
