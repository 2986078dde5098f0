"""Draw a matrix, or the slices of a stack, as heat maps or photographs of limited size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyopnb.display.array_curve import curve_of, is_curve
from pyopnb.display.array_look import ArrayLook, squeeze, title_of_array
from pyopnb.display.photographs import channel_axis, looks_like_photographs, photographs
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.colors import ColorScale, scale_for
from pyopnb.display.svg.heat_map import heat_maps, size_on_page
from pyopnb.display.svg.pool import Pooling, pool
from pyopnb.display.svg.shapes import Cells
from pyopnb.errors import InputError
from pyopnb.traces import Summary

__all__ = ["chart_of", "sheet_of"]

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
# An outlier is larger than this many times the 98th percentile of all cells' sizes.
_OUTLIER = 4.0


def chart_of(
    value: np.ndarray, summary: Summary, look: ArrayLook, most_bytes: int, name: str = ""
) -> Chart:
    """Draw the curve, the heat map or the photograph of an array of numbers.

    Parameters
    ----------
    most_bytes : int
        Of the picture in a page.

    Raises
    ------
    InputError
        The array has no numbers, or is asked to be a photograph and cannot be one.
    """
    if summary.kind != "number" or not summary.count:
        got = str(summary.type or summary.kind)
        raise InputError("show", expected="an array of numbers that is not empty", got=got)
    if look.rgb is None and is_curve(value):
        return curve_of(value, summary, look, name)
    title = title_of_array(value, summary, name)
    # Each channel is drawn as a matrix.
    if look.rgb is False and channel_axis(value) == -1:
        value = np.moveaxis(value, -1, -3)
    return sheet_of(value, summary, look, most_bytes, title)


def sheet_of(
    value: np.ndarray,
    summary: Summary,
    look: ArrayLook,
    most_bytes: int,
    title: str,
    *,
    names: Sequence[str] = (),
    in_row: int = 0,
    remark: str = "",
) -> Chart:
    """Draw heat maps or photographs.

    Parameters
    ----------
    names : sequence of str
        Titles above the matrices; by default their indices.
    in_row : int
        How many are side by side; by default as many as make the sheet square.
    remark : str
        Begins the caption.
    """
    axis = _channels(value, summary, look)
    stack, leading = _stacked(value, axis)
    count = len(stack)
    shape: tuple[int, int] = stack.shape[1:3]
    drawn, columns, size = _sheet(shape, leading)
    stack = stack[:drawn]
    if look.origin == "lower":
        stack = stack[:, ::-1]
    if not names:
        indices = [np.unravel_index(number, leading) for number in range(drawn)]
        names = [",".join(map(str, index)) for index in indices]
    remarks = [remark]
    if drawn < count:
        remarks.append(f"{drawn} of {count:,} {'slices' if axis is None else 'pictures'}.")
    if not math.isclose(size[0] * shape[0], size[1] * shape[1]):
        remarks.append("The sides are not to scale.")
    rows = min(shape[0], round(size[1]))
    across = min(shape[1], round(size[0]))
    # How well pixels compress is known only when they are compressed, so sizes are tried.
    while True:
        scale = None
        if axis is None:
            matrices, pooled = _pooled(stack, rows, across)
            if look.log:
                matrices = [np.abs(matrix) for matrix in matrices]
            scale, words = _scale(matrices, summary, look, value.dtype.kind == "c")
        else:
            matrices, words = photographs(stack, rows, across, summary, look)
            pooled = "the mean of"
        sentences = [*remarks, words]
        if rows * across < shape[0] * shape[1]:
            cell = f"{shape[0] / rows:.3g} × {shape[1] / across:.3g}"
            sentences.append(f"A cell is {pooled} {cell}.")
        chart = heat_maps(
            matrices,
            scale,
            size,
            names=names,
            shape=shape,
            origin=look.origin,
            in_row=in_row or columns,
            title=title,
            caption=" ".join(filter(None, sentences)),
        )
        images = [drawing for drawing in chart.shapes if isinstance(drawing, Cells)]
        length = _ENCODED * sum(len(image.png) for image in images)
        if length <= most_bytes or rows * across == 1:
            return chart
        # Noise hardly compresses, so that bytes follow the number of cells.
        share = min(0.9, 0.97 * math.sqrt(most_bytes / length))
        rows = max(1, int(rows * share))
        across = max(1, int(across * share))


def _sheet(
    shape: tuple[int, int], leading: tuple[int, ...]
) -> tuple[int, int, tuple[float, float]]:
    """Choose how many of some matrices are drawn, how many in a row, and how large each is."""
    count = math.prod(leading)
    # Small slices are cheap, so more of them are drawn.
    affordable = min(_MOST_SLICES, _MOST_ELEMENTS // (shape[0] * shape[1]))
    drawn = min(count, max(_FEWEST_SLICES, affordable))
    # A row is one of the last leading axis, or an equal part of it.
    last = leading[-1]
    in_row = math.ceil(last / math.ceil(last / _MOST_IN_ROW))
    side = max(_SMALLEST_SLICE, _SLICES_SIDE // in_row)
    if count == 1 and max(shape) <= _MOST_STRETCHED * min(shape):
        side = _SIDE
    return drawn, in_row, size_on_page(shape, side)


def _pooled(stack: np.ndarray, rows: int, columns: int) -> tuple[list[np.ndarray], str]:
    """Reduce matrices to the size of a picture; also return what a cell says of its elements."""
    pooling: Pooling = "mean"
    words = "the mean of"
    # The mean of two ids would be another id.
    if stack.dtype.kind in "iu" and stack.dtype.itemsize >= 4:
        pooling = "nearest"
        words = "one of"
    return [pool(matrix, rows, columns, pooling) for matrix in stack], words


def _channels(value: np.ndarray, summary: Summary, look: ArrayLook) -> int | None:
    """Return the axis of the channels of photographs; None for matrices."""
    axis = channel_axis(value)
    if look.rgb and axis is None:
        raise InputError(
            "show, rgb",
            expected="3 or 4 channels as the last axis, or before the last two",
            got=str(summary.type),
            next="rgb=False, or np.stack([…], axis=-1)",
        )
    if look.rgb or (look.rgb is None and looks_like_photographs(value, summary)):
        return axis
    return None


def _stacked(value: np.ndarray, channels: int | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """Put the matrices or photographs of an array along one axis; return the axes it replaces."""
    if channels is not None:
        value = np.moveaxis(value, channels, -1)
        if value.ndim > 3:
            leading = squeeze(value[..., 0, 0, 0]).shape
        else:
            leading = (1,)
        return value.reshape(-1, *value.shape[-3:]), leading
    squeezed = squeeze(value)
    matrices = np.atleast_2d(squeezed)
    return matrices.reshape(-1, *matrices.shape[-2:]), squeezed.shape[:-2] or (1,)


def _scale(
    matrices: Sequence[np.ndarray], summary: Summary, look: ArrayLook, is_complex: bool
) -> tuple[ColorScale, str]:
    """Choose the colors of a sheet, and say which number is beyond them."""
    sizes = np.abs(np.concatenate([matrix.ravel() for matrix in matrices]))
    sizes = sizes[np.isfinite(sizes)]
    if look.log:
        scale = scale_for(sizes.tolist(), log=True)
        if look.limits:
            scale = ColorScale(*look.limits, log=True)
        words = ""
        if (summary.least or 0) < 0:
            words = "The colors are of |x|."
        return replace(scale, kind=look.colors or "sequential"), words
    if look.limits:
        low, high = look.limits
        kind = "diverging" if low == -high else "gray"
        return ColorScale(low, high, kind=look.colors or kind), ""
    high = float(sizes.max(initial=0))
    typical = 0.0
    if sizes.size:
        typical = float(np.quantile(sizes, 0.98))
    words = ""
    # One number must not be so large that all others look like 0.
    if 0 < _OUTLIER * typical < high:
        high = 1.5 * typical
        words = f"The farthest from 0 is {max(summary.least, summary.greatest, key=abs):.4g}."
    low = float(summary.least or 0)
    kind = "gray"
    if is_complex:
        kind = "sequential"
        low = 0.0
    elif low < 0:
        kind = "diverging"
        low = -high
    elif not high / 2 < low < math.inf:
        # Numbers that are never negative are gray, as in a photograph.
        low = 0.0
    return ColorScale(low, high, kind=look.colors or kind), words
