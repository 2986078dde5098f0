"""Arrays of one axis as stems or curves, and long ones of a few channels; of many numbers the extremes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pyopnb.display.array_look import ArrayLook
from pyopnb.display.array_picture import ArrayPicture, squeeze, title_of_array
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.svg.pool import edges, to_floats
from pyopnb.traces.summary import Summary

__all__ = ["curve_of", "is_curve"]

_SIZE = (480, 160)
# So few numbers are told apart better as stems than on a line.
_MOST_STEMS = 32
_MOST_CHANNELS = 8
# A matrix is a curve of channels if it is so many times longer than wide; other narrow ones are matrices.
_LONGER = 4
# A longer array is drawn by the least and the largest number of so many cells.
_CELLS = 240


def is_curve(value: np.ndarray) -> bool:
    """Tell whether an array is drawn as lines: one axis, or a long one and a last one of a few channels.

    Examples
    --------
    >>> is_curve(np.zeros((1, 64))), is_curve(np.zeros((64, 2))), is_curve(np.zeros((64, 16)))
    (True, True, False)
    """
    shape = squeeze(value).shape
    if len(shape) == 1:
        return value.size > 1
    return len(shape) == 2 and shape[1] <= _MOST_CHANNELS and shape[0] >= _LONGER * shape[1]


def curve_of(
    value: np.ndarray,
    summary: Summary,
    look: ArrayLook,
    name: str = "",
    labels: Sequence[str] = (),
) -> ArrayPicture:
    """Make the curve of an array that `is_curve`.

    Parameters
    ----------
    value : ndarray
    summary : Summary
    look : ArrayLook
        ``limits`` are the ends of the axis.
    name : str
    labels : sequence of str
        The names of the channels; by default their indices.

    Returns
    -------
    ArrayPicture
    """
    array = squeeze(value)
    channels = [array] if array.ndim == 1 else list(array.T)
    positions = np.arange(len(array))
    # Of many channels each gets its part of the points, so that a picture stays small.
    borders = edges(len(array), max(30, _CELLS // len(channels)))
    if len(array) > 2 * _CELLS:
        positions = np.repeat(borders[:-1], 2)
    lines = {}
    for number, channel in enumerate(channels):
        label = labels[number] if labels else f"[:,{number}]"
        if len(array) > 2 * _CELLS:
            lines[label] = _extremes(channel, borders)
        else:
            lines[label] = to_floats(channel).tolist()
    marks = []
    if summary.has_nonfinite and len(array) <= 2 * _CELLS:
        # A gap alone would hardly be seen.
        gaps = ~np.isfinite(np.array(list(lines.values()))).all(axis=0)
        marks.append((int(gaps.argmax()), f"NaN or Inf at {gaps.argmax():,}"))

    def draw(title: str, caption: str) -> Chart:
        return line_chart(
            positions.tolist(),
            lines,
            title,
            label="index",
            marks=marks,
            limits=look.limits,
            stems=len(channels) == 1 and len(array) <= _MOST_STEMS,
            size=_SIZE,
        )

    return ArrayPicture(draw, title_of_array(value, summary, name))


def _extremes(channel: np.ndarray, borders: np.ndarray) -> list[float]:
    """Find the least and the largest finite number of each cell."""
    numbers = []
    for first, last in pairwise(borders):
        cell = to_floats(channel[first:last])
        finite = cell[np.isfinite(cell)]
        if finite.size:
            numbers += [float(finite.min()), float(finite.max())]
        else:
            numbers += [np.nan, np.nan]
    return numbers
