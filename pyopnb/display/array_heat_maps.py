"""Arrays as heat maps of a matrix or of the slices of a stack, or as photographs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pyopnb.display.array_curve import curve_of, is_curve
from pyopnb.display.array_look import ArrayLook, Limits
from pyopnb.display.array_picture import ArrayPicture, sheet_of, squeeze, title_of_array
from pyopnb.display.photographs import channel_axis, looks_like_photographs, photographs
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.colours import ColourScale
from pyopnb.display.svg.heat_map import heat_maps
from pyopnb.display.svg.pool import Pooling, pool
from pyopnb.errors import InputError
from pyopnb.traces.summary import Summary

__all__ = ["picture_of", "sheet_picture"]

# A number is an outlier if it is so many times what 98 % of all cells are at most.
_OUTLIER = 4.0
_POOLED = {"mean": "the mean of", "nearest": "one of"}


def picture_of(
    value: np.ndarray, summary: Summary, look: ArrayLook, most_bytes: int, name: str = ""
) -> ArrayPicture:
    """Make the curve, the heat map or the photograph of an array of numbers.

    Parameters
    ----------
    value : ndarray
    summary : Summary
    look : ArrayLook
    most_bytes : int
        Of the picture in a page.
    name : str

    Returns
    -------
    ArrayPicture

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
    return sheet_picture(value, summary, look, most_bytes, title)


def sheet_picture(
    value: np.ndarray,
    summary: Summary,
    look: ArrayLook,
    most_bytes: int,
    title: str,
    *,
    names: Sequence[str] = (),
    in_row: int = 0,
    remark: str = "",
) -> ArrayPicture:
    """Make heat maps or photographs.

    Parameters
    ----------
    value : ndarray
    summary : Summary
    look : ArrayLook
    most_bytes : int
    title : str
    names : sequence of str
        What is written above the matrices; by default their indices.
    in_row : int
        How many are side by side; by default as many as make the sheet square.
    remark : str
        Begins the caption.

    Returns
    -------
    ArrayPicture
    """
    axis = _channels(value, summary, look)
    stack, leading = _stacked(value, axis)
    sheet = sheet_of(stack.shape[1:3], len(stack))
    stack = stack[: sheet.drawn]
    names = names or [_index(number, leading) for number in range(sheet.drawn)]
    # The mean of two ids would be another id.
    holds_ids = value.dtype.kind in "iu" and value.dtype.itemsize >= 4
    pooling: Pooling = "nearest" if holds_ids else "mean"

    def make(down: int, across: int) -> ArrayPicture:
        scale = None
        pictures: Sequence[np.ndarray]
        if axis is None:
            pictures = [pool(matrix, down, across, pooling) for matrix in stack]
            scale, words = _scale(pictures, summary, look.limits, value.dtype.kind == "c")
            words += sheet.caption(down, across, "slices", "cell", _POOLED[pooling])
        else:
            pictures, words = photographs(stack, down, across, summary, look)
            words += sheet.caption(down, across, "pictures", "pixel", "the mean of")

        def draw(title: str, caption: str) -> Chart:
            columns = in_row or sheet.in_row
            size = sheet.size
            return heat_maps(
                pictures, names, scale, title, size=size, in_row=columns, below=caption
            )

        is_diverging = scale is not None and scale.kind == "diverging"
        return ArrayPicture(draw, title, f"{remark} {words}".strip(), is_diverging)

    return sheet.fit(most_bytes, make)


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
    """Put the matrices or photographs of an array along one axis; return the axes that it stands for, too."""
    if channels is not None:
        value = np.moveaxis(value, channels, -1)
        leading = squeeze(value[..., 0, 0, 0]).shape if value.ndim > 3 else (1,)
        return value.reshape(-1, *value.shape[-3:]), leading
    squeezed = squeeze(value)
    matrices = np.atleast_2d(squeezed)
    return matrices.reshape(-1, *matrices.shape[-2:]), squeezed.shape[:-2] or (1,)


def _index(number: int, leading: tuple[int, ...]) -> str:
    return ",".join(map(str, np.unravel_index(number, leading)))


def _scale(
    matrices: Sequence[np.ndarray], summary: Summary, limits: Limits | None, is_complex: bool
) -> tuple[ColourScale, str]:
    """Choose the colours of a sheet, and say which number is beyond them."""
    if limits is not None:
        low, high = limits
        return ColourScale(low, high, kind="diverging" if low == -high else "grey"), ""
    sizes = np.abs(np.concatenate([matrix.ravel() for matrix in matrices]))
    sizes = sizes[np.isfinite(sizes)]
    high = float(sizes.max(initial=0))
    typical = float(np.quantile(sizes, 0.98)) if sizes.size else 0.0
    words = ""
    # One number must not be so large that all others look like 0.
    if 0 < _OUTLIER * typical < high:
        high = 1.5 * typical
        words = f"The farthest from 0 is {max(summary.least, summary.greatest, key=abs):.4g}. "
    if is_complex:
        return ColourScale(0.0, high), words
    low = float(summary.least or 0)
    if low < 0:
        return ColourScale(-high, high, kind="diverging"), words
    # What is never negative looks as in a photograph.
    return ColourScale(
        low if math.isfinite(low) and low > high / 2 else 0.0, high, kind="grey"
    ), words
