"""Heat maps: matrices as cells in rows, with the scale of their colors below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pyopnb.display.svg.chart import SMALL, Chart, frame, scale_strip, small_text
from pyopnb.display.svg.colors import ColorScale
from pyopnb.display.svg.shapes import Cells, Shape
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["heat_maps", "size_on_page"]

# A longer matrix is drawn higher than its proportions say.
_MOST_STRETCHED = 4
# A single row is drawn this many pixels high.
_THINNEST = 24
# A cell has at most this many pixels, and one across a long matrix at least so many.
_LARGEST_CELL, _LEAST_CELL = 16, 10
# Pixels between matrices, and for the text above each of them.
_GAP, _LABEL = 8, 13
# And for the numbers of rows beside one.
_ROW_LABEL = 70
_LEAST_WIDTH, _WIDEST_LEGEND = 200, 300


def size_on_page(shape: tuple[int, int], most: int) -> tuple[float, float]:
    """Return width and height of a matrix in pixels, up to a limit.

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
    least = max(_THINNEST, min(most / 2, _LEAST_CELL * min(shape)))
    cell = max(1, cell)
    return max(min(most, columns * cell), least), max(min(most, rows * cell), least)


def heat_maps(
    matrices: Sequence[np.ndarray],
    scale: ColorScale | None,
    size: tuple[float, float],
    *,
    names: Sequence[str] = (),
    shape: tuple[int, int] | None = None,
    origin: str = "upper",
    in_row: int = 1,
    title: str = "",
    caption: str = "",
    blank_zero: bool = False,
) -> Chart:
    """Draw matrices as heat maps in rows, with the scale below; or pictures without a scale.

    Parameters
    ----------
    matrices : sequence of ndarray
        float64[rows, columns]; without a scale pictures, uint8[rows, columns, 3] or
        4. All of one shape.
    size : (float, float)
        Width and height of each in pixels.
    names : sequence of str
        The text above each; unused if there is one.
    shape : (int, int), optional
        Numbers the rows and columns of a single matrix, of which its cells may be means.
    origin : str
        Whether row 0 is at the ``upper`` or the ``lower`` side, where the caller put it.
    in_row : int
        How many are side by side.
    blank_zero : bool
        Whether 0 is transparent.
    """
    width = max(in_row * (size[0] + _GAP) - _GAP, _LEAST_WIDTH)
    # A single matrix has the title alone.
    head = 0
    if len(matrices) > 1:
        head = _LABEL
    step = head + size[1] + _GAP
    shapes: list[Shape] = []
    for number, matrix in enumerate(matrices):
        row, column = divmod(number, in_row)
        x = column * (size[0] + _GAP)
        y = row * step + head
        if head:
            shapes.append(small_text(x, y - 4, fit(names[number], SMALL, size[0] + _GAP - 2)))
        # A picture consists of its own pixels.
        if scale:
            pixels = scale.pixels(matrix, blank_zero=blank_zero)
            name = names[number] if head else ""
            shapes.append(Cells(x, y, *size, pixels, matrix, name))
        else:
            shapes.append(Cells(x, y, *size, matrix))
        shapes.append(frame(x, y, *size))
    height = step * -(-len(matrices) // in_row) + 4
    if scale and shape and not head:
        shapes += _axis_labels(shape, size, origin)
        width = max(width, size[0] + _ROW_LABEL)
        height += _LABEL
    if scale:
        numbers = np.stack(matrices)
        special = {
            "NaN": np.isnan(numbers).any(),
            "inf": np.isposinf(numbers).any(),
            "-inf": np.isneginf(numbers).any(),
            "0": blank_zero,
        }
        names = [name for name, is_there in special.items() if is_there]
        shapes += scale_strip(scale, 0, height, min(width, _WIDEST_LEGEND), names)
        height += 26
    return Chart(width, height, shapes, title, caption)


def _axis_labels(shape: tuple[int, int], size: tuple[float, float], origin: str) -> Iterator[Shape]:
    """Write the first and the last row and column beside a matrix, where there is room."""
    rows = ["row 0", f"row {shape[0] - 1:,}"]
    if origin == "lower":
        rows.reverse()
    last_column = f"column {shape[1] - 1:,}"
    right, bottom = size
    if text_width("column 0" + last_column, SMALL) + _GAP < right:
        yield small_text(0, bottom + 12, "column 0")
        yield small_text(right, bottom + 12, last_column, "end")
    else:
        yield small_text(0, bottom + 12, last_column)
    if bottom >= 2 * _LABEL:
        yield small_text(right + 5, 9, rows[0])
    yield small_text(right + 5, bottom, rows[1])
