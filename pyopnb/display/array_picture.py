"""Pictures of arrays: drawn with a title or without, on a sheet that has room for a few pixels and a few bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.heat_map import size_on_page
from pyopnb.display.svg.shapes import Cells
from pyopnb.traces.summary import Summary

__all__ = ["ArrayPicture", "Sheet", "sheet_of", "squeeze", "title_of_array"]

# Pixels of a picture, and of slices side by side.
_SIDE, _SLICES_SIDE = 256, 448
_FEWEST_SLICES, _MOST_SLICES, _MOST_ELEMENTS = 16, 64, 2**16
# A slice is at least this many pixels wide or high.
_SMALLEST_SLICE = 40
_MOST_IN_ROW = 8
# A longer matrix is not drawn in its proportions.
_MOST_STRETCHED = 8
# A byte of PNG takes this many in the page: it is base64 in an SVG that is base64.
_ENCODED = 1.8


@dataclass(frozen=True)
class ArrayPicture:
    """The picture of an array.

    Attributes
    ----------
    draw : callable
        Makes the chart with a title and a caption, which may be empty.
    title, caption : str
    is_diverging : bool
        Whether its colours are the signs of numbers.
    """

    draw: Callable[[str, str], Chart]
    title: str
    caption: str = ""
    is_diverging: bool = False

    @cached_property
    def plain(self) -> Chart:
        """Draw it without title and caption, which a page writes as text."""
        return self.draw("", "")

    @cached_property
    def titled(self) -> Chart:
        """Draw it with title and caption."""
        return self.draw(self.title, self.caption)


@dataclass(frozen=True)
class Sheet:
    """How matrices of a shape are placed: how many of ``count``, how large each in pixels, how many in a row."""

    shape: tuple[int, int]
    count: int
    drawn: int
    in_row: int
    size: tuple[float, float]

    def fit(self, most_bytes: int, make: Callable[[int, int], ArrayPicture]) -> ArrayPicture:
        """Make the picture with as many rows and columns as the page has pixels and bytes for."""
        rows = min(self.shape[0], round(self.size[1]))
        columns = min(self.shape[1], round(self.size[0]))
        # How well pixels compress is known only when they are compressed, so sizes are tried.
        while True:
            picture = make(rows, columns)
            images = [shape for shape in picture.plain.shapes if isinstance(shape, Cells)]
            size = _ENCODED * sum(len(image.png) for image in images)
            if size <= most_bytes or rows * columns == 1:
                return picture
            # Noise hardly compresses, so that bytes follow the number of cells.
            share = min(0.9, 0.97 * math.sqrt(most_bytes / size))
            rows = max(1, int(rows * share))
            columns = max(1, int(columns * share))

    def caption(self, rows: int, columns: int, slices: str, cell: str, pooled: str) -> str:
        """Say how the picture differs from all elements in their own proportions."""
        sentences = []
        if self.drawn < self.count:
            sentences.append(f"{self.drawn} of {self.count:,} {slices}.")
        down = self.shape[0] / rows
        across = self.shape[1] / columns
        if down * across > 1:
            sentences.append(f"A {cell} is {pooled} {down:.3g} × {across:.3g}.")
        if not math.isclose(self.size[0] * self.shape[0], self.size[1] * self.shape[1]):
            sentences.append("The sides are not to scale.")
        return " ".join(sentences)


def sheet_of(shape: tuple[int, int], count: int) -> Sheet:
    """Choose how many of ``count`` matrices are drawn, and how large."""
    # Small slices are cheap, so more of them are drawn.
    affordable = min(_MOST_SLICES, _MOST_ELEMENTS // (shape[0] * shape[1]))
    drawn = min(count, max(_FEWEST_SLICES, affordable))
    # The sheet shall be about square.
    square = math.ceil(math.sqrt(drawn * shape[0] / shape[1]))
    in_row = min(drawn, max(2, min(_MOST_IN_ROW, square)))
    # Rows of nearly the same length: four are two rows of two, and not three and one.
    rows = math.ceil(drawn / in_row)
    in_row = math.ceil(drawn / rows)
    side = max(_SMALLEST_SLICE, _SLICES_SIDE // in_row)
    if count == 1 and max(shape) <= _MOST_STRETCHED * min(shape):
        side = _SIDE
    return Sheet(shape, count, drawn, in_row, size_on_page(shape, side))


def squeeze(value: np.ndarray) -> np.ndarray:
    """Drop axes of length 1, but keep at least one axis."""
    return value.reshape([size for size in value.shape if size != 1] or [1])


def title_of_array(value: np.ndarray, summary: Summary, name: str) -> str:
    """Write what a picture shows: a name, and the type."""
    title = str(summary.type)
    if value.dtype.kind == "c":
        title = f"|x|, {title}"
    if name:
        return f"{name}: {title}"
    return title
