"""Heat maps: matrices as cells in rows, with the scale of their colours below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pyopnb.display.svg.cells import cells
from pyopnb.display.svg.chart import HEAD, Chart, chart_title
from pyopnb.display.svg.colours import ColourScale
from pyopnb.display.svg.legend import SMALL, SWATCH, frame, scale_strip, small_text, special_colours
from pyopnb.display.svg.shapes import Cells, Shape
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["heat_maps", "size_on_page"]

# A longer matrix is drawn higher than its proportions say.
_MOST_STRETCHED = 8
# A single row is drawn this many pixels high.
_THINNEST = 24
# A cell has at most this many pixels.
_LARGEST_CELL = 16
# Pixels between matrices, and for the text above each of them.
_GAP, _LABEL = 8, 13
_LEAST_WIDTH, _WIDEST_LEGEND = 200, 300


def size_on_page(shape: tuple[int, int], most: int) -> tuple[float, float]:
    """Return width and height of a matrix in pixels, at most so many.

    They have its proportions unless one side is so much longer that the other could hardly be seen.

    Examples
    --------
    >>> size_on_page((128, 256), 256), size_on_page((4000, 6000), 300), size_on_page((1, 1000), 256)
    ((256, 128), (300.0, 200.0), (256, 24))
    """
    rows, columns = shape
    longer = max(shape)
    cell: float = min(_LARGEST_CELL, most // longer) if longer <= most else most / longer
    if longer <= _MOST_STRETCHED * min(shape):
        return columns * cell, rows * cell
    cell = max(1, cell)
    width = min(most, columns * cell)
    height = min(most, rows * cell)
    return max(width, _THINNEST), max(height, _THINNEST)


def heat_maps(
    matrices: Sequence[np.ndarray],
    names: Sequence[str],
    scale: ColourScale | None,
    title: str = "",
    *,
    size: tuple[float, float],
    in_row: int = 1,
    below: str = "",
    blank_zero: bool = False,
) -> Chart:
    """Draw matrices as heat maps in rows, with the scale below; or pictures without a scale.

    Parameters
    ----------
    matrices : sequence of ndarray
        float64[rows, columns]; without a scale pictures, uint8[rows, columns, 3] or 4. All of one shape.
    names : sequence of str
        The text above each; unused if there is one.
    scale : ColourScale or None
    title : str
    size : (float, float)
        Width and height of each in pixels.
    in_row : int
        How many are side by side.
    below : str
        The text below the scale.
    blank_zero : bool
        Whether 0 is transparent.

    Returns
    -------
    Chart
    """
    width = max(in_row * (size[0] + _GAP) - _GAP, _LEAST_WIDTH, text_width(below, SMALL))
    shapes: list[Shape] = []
    y = 0.0
    if title:
        shapes.append(chart_title(title, width))
        y += HEAD
    for first in range(0, len(matrices), in_row):
        # A single matrix has the title alone.
        y += _LABEL if len(matrices) > 1 else 0
        for number, matrix in enumerate(matrices[first : first + in_row]):
            x = number * (size[0] + _GAP)
            if len(matrices) > 1:
                name = fit(names[first + number], SMALL, size[0] + _GAP - 2)
                shapes.append(small_text(x, y - 4, name))
            shapes.append(_cells(matrix, scale, (x, y), size, blank_zero))
            shapes.append(frame(x, y, *size))
        y += size[1] + _GAP
    y += 4
    if scale:
        shapes += _scale(np.stack(matrices), scale, min(width, _WIDEST_LEGEND), y, blank_zero)
        y += 26
    if below:
        shapes.append(small_text(0, y + 12, below))
        y += 16
    return Chart(width, y, shapes)


def _scale(
    numbers: np.ndarray, scale: ColourScale, width: float, y: float, blank_zero: bool
) -> Iterator[Shape]:
    """Draw the strip of a scale, and beside it the special colours that are in the picture."""
    special = {"NaN": np.isnan(numbers), "inf": np.isposinf(numbers), "-inf": np.isneginf(numbers)}
    names = [name for name, hits in special.items() if hits.any()]
    if blank_zero:
        names.append("0")
    yield from scale_strip(scale, 0, y, width - SWATCH * len(names))
    yield from special_colours(names, width, y)


def _cells(
    matrix: np.ndarray,
    scale: ColourScale | None,
    corner: tuple[float, float],
    size: tuple[float, float],
    blank_zero: bool,
) -> Cells:
    # A picture consists of its own pixels.
    if scale is None:
        return Cells(*corner, *size, matrix)
    return cells(matrix, scale, *corner, *size, blank_zero=blank_zero)
