"""Draw arrays of one axis, or long ones of a few channels, as curves.

Of many numbers, the extremes are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.display.array_look import ArrayLook, squeeze, title_of_array
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.svg.pool import edges, to_floats
from pyopnb.traces import Summary

__all__ = ["curve_of", "is_curve"]

_SIZE = (480, 160)
_MOST_CHANNELS = 8
# A matrix is drawn as curves of channels if it is at least this many times longer than wide.
_LONGER = 4
# A longer array is drawn by the smallest and the largest number in each of this many cells.
_CELLS = 240


def is_curve(value: np.ndarray) -> bool:
    """Tell whether an array is drawn as lines: one axis, or a long one with a few channels.

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
) -> Chart:
    """Make the curve of an array that `is_curve`.

    Parameters
    ----------
    look : ArrayLook
        ``limits`` are the ends of the axis.
    labels : sequence of str
        The names of the channels; by default their indices.
    """
    array = squeeze(value)
    if array.ndim == 1:
        channels = [array]
    else:
        channels = list(array.T)
    labels = labels or [f"[:,{number}]" for number in range(len(channels))]
    is_long = len(array) > 2 * _CELLS
    if is_long:
        # The points are divided among the channels, so that the picture stays small.
        borders = edges(len(array), max(30, _CELLS // len(channels)))
        positions = np.repeat(borders[:-1], 2)
        curves = [_extremes(channel, borders) for channel in channels]
    else:
        positions = np.arange(len(array))
        curves = [to_floats(channel).tolist() for channel in channels]
    label, numbers = _abscissa(look.feeds or {}, len(array))
    marks = []
    if summary.has_nonfinite and not is_long:
        # A gap alone would hardly be seen.
        gap = int(np.argmax(~np.isfinite(curves).all(axis=0)))
        marks.append((numbers[gap], f"NaN or Inf at {gap:,}"))
    return line_chart(
        numbers[positions].tolist(),
        dict(zip(labels, curves, strict=True)),
        title_of_array(value, summary, name),
        label=label,
        marks=marks,
        limits=look.limits,
        log_y=look.log,
        size=_SIZE,
    )


def _abscissa(feeds: Mapping[str, Any], count: int) -> tuple[str, np.ndarray]:
    """Choose a feed that rises or falls as the x-axis of so many numbers, or else their indices."""
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.size == count:
            numbers = to_floats(value).ravel()
            steps = np.diff(numbers)
            if (steps > 0).all() or (steps < 0).all():
                return name, numbers
    return "index", np.arange(count)


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
