"""Where in two arrays the differences are, as a picture of a few thousand fields, counted block by block."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["FIELDS", "Grid", "matrix"]

FIELDS = 64
"""Fields of a picture along each axis, at most; four times as many where there is but one row."""

_WIDEST = 2**17  # columns that are kept one by one, as long as a field's rows are looked at


def matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns as which an array is looked at: the last axis is across.

    Examples
    --------
    >>> matrix((2, 3, 4)), matrix((5,)), matrix(())
    ((6, 4), (1, 5), (1, 1))
    """
    return math.prod(shape[:-1]), shape[-1] if shape else 1


def _edges(size: int, most: int) -> np.ndarray:
    count = min(size, most)
    return np.arange(count + 1, dtype=np.int64) * size // max(1, count)


def _field(at: int, size: int, edges: np.ndarray) -> int:
    """The field that an index is in: the last that begins at it or before."""
    return ((at + 1) * (edges.size - 1) - 1) // size


class Grid:
    """The largest difference of each field; infinite where no number says how large it is.

    Parameters
    ----------
    shape : tuple of int
        Of the arrays.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rows, self.columns = matrix(shape)
        self._down = _edges(self.rows, FIELDS)
        self._across = _edges(self.columns, FIELDS if self.rows > 1 else 4 * FIELDS)
        self.fields = np.zeros((self._down.size - 1, self._across.size - 1))
        self._row = np.zeros(0)  # of one field's rows the largest of each column, and which field that is
        self._of = -1

    def add(self, d: np.ndarray, at: int, most: float | None = None) -> None:
        """Count a block of differences that begins at an element of the whole; ``most`` is its largest, where that is known."""
        if most is not None and self.columns > _WIDEST and self._in_one_field(at, d.size):
            row, column = divmod(at, self.columns)
            spot = _field(row, self.rows, self._down), _field(column, self.columns, self._across)
            self.fields[spot] = max(self.fields[spot], most)
            return
        done = 0
        while done < d.size:
            row, column = divmod(at + done, self.columns)
            field = _field(row, self.rows, self._down)
            size = min(d.size - done, (int(self._down[field + 1]) - row) * self.columns - column)
            part = d[done : done + size]
            if self.columns > _WIDEST:
                self._pieces(part, field, column)
            else:
                self._whole(part, field, column)
            done += size

    def _in_one_field(self, at: int, size: int) -> bool:
        column = at % self.columns
        last = column + size - 1
        if last >= self.columns:
            return False
        return _field(column, self.columns, self._across) == _field(last, self.columns, self._across)

    def _whole(self, d: np.ndarray, field: int, column: int) -> None:
        if self._of != field or self._row.dtype != d.dtype:
            self._let_go()
            self._of, self._row = field, np.zeros(self.columns, d.dtype)
        head = min(d.size, -column % self.columns)
        if head:
            self._raise(d[:head], column)
        rows = (d.size - head) // self.columns
        tail = head + rows * self.columns
        if rows:
            self._raise(self._band(d[head:tail], rows), 0)
        if tail < d.size:
            self._raise(d[tail:], 0)

    def _raise(self, found: np.ndarray, column: int) -> None:
        held = self._row[column : column + found.size]
        np.maximum(held, found, out=held)

    def _band(self, band: np.ndarray, rows: int) -> np.ndarray:
        """The largest of each column. Halves against each other are long lines, which NumPy is fast along."""
        odd = []
        while rows > 1:
            half = rows // 2
            if rows % 2:
                odd.append(band[2 * half * self.columns : rows * self.columns])
            band = np.maximum(band[: half * self.columns], band[half * self.columns : 2 * half * self.columns])
            rows = half
        for one in odd:
            band = np.maximum(band, one)
        return band

    def _let_go(self) -> None:
        if self._of >= 0:
            self._put(self._of, np.maximum.reduceat(self._row, self._across[:-1]), slice(None))
            self._of = -1

    def _pieces(self, d: np.ndarray, field: int, column: int) -> None:
        """Parts of rows that are too long to be kept."""
        done = 0
        while done < d.size:
            size = min(d.size - done, self.columns - column)
            left, right = (_field(one, self.columns, self._across) for one in (column, column + size - 1))
            starts = np.maximum(self._across[left : right + 1] - column, 0)
            self._put(field, np.maximum.reduceat(d[done : done + size], starts), slice(left, right + 1))
            done, column = done + size, 0

    def _put(self, field: int, found: np.ndarray, where: slice) -> None:
        held = self.fields[field, where]
        np.maximum(held, found, out=held)

    def scatter(self, d: np.ndarray, at: np.ndarray) -> None:
        """Count differences at places that rise but have gaps."""
        if d.size:
            full = np.zeros(int(at[-1] - at[0]) + 1, d.dtype)
            full[at - at[0]] = d
            self.add(full, int(at[0]))

    def spoil(self, at: np.ndarray) -> None:
        """Note places where no number says how large the difference is."""
        rows, columns = np.divmod(at, self.columns)
        down, across = (
            np.searchsorted(edges, one, side="right") - 1 for edges, one in ((self._down, rows), (self._across, columns))
        )
        self.fields[down, across] = math.inf

    def done(self) -> np.ndarray:
        """The fields."""
        self._let_go()
        return self.fields
