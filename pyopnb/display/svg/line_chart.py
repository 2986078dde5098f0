"""Numbers against numbers as lines, with round numbers beside the axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from pyopnb.display.svg.axes import ChartAxis, axis_for, tick_texts
from pyopnb.display.svg.chart import SMALL, Chart, frame, small_text
from pyopnb.display.svg.colors import INK
from pyopnb.display.svg.shapes import Path, PathStep, Rectangle, Shape, ring
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["line_chart"]

# Told apart without red and green (P. Tol, "Color Schemes", 2021, vibrant); two of them are darker,
# so that each has a contrast of 3 to white and to black.
_COLORS = (
    "#0077bb",
    "#e47231",
    "#009988",
    "#cc3311",
    "#2b9dc8",
    "#ee3377",
    "#888888",
    "#aa7744",
)
_GRID = "#8c959f40"
_WIDTH, _HEIGHT = 320, 180
# The numbers of the y-axis have at least this much room, so that charts below each other begin at
# one x.
_MARGIN = 56
# A line of text is this many pixels high.
_LINE = 15
_LONGEST_NAME = 150
# On a line with more points they are not marked one by one.
_MOST_POINTS = 60
_TICKS = 4
# Lengths of strokes and gaps.
_DASHES = (5.0, 4.0)
# A tick below the axis has about this many pixels, so that wide charts have more of them.
_TICK_WIDTH = 80
# The texts of marks take this many lines at the top.
_MARK_LINES = 4

_Point = tuple[float, float]


@dataclass(frozen=True)
class _Plot:
    """The area between the axes, in pixels, and the numbers at its borders."""

    across: ChartAxis
    up: ChartAxis
    start: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.start + self.width

    def x(self, values: Any) -> list[float]:
        """Place numbers from left to right."""
        xs: list[float] = (self.start + self.width * self.across.positions(values)).tolist()
        return xs

    def y(self, values: Any) -> list[float]:
        """Place numbers from the bottom up; numbers beyond the axis lie on its end, NaN nowhere."""
        positions = np.clip(self.up.positions(values), 0, 1)
        ys: list[float] = (self.height - self.height * positions).tolist()
        return ys


def line_chart(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    title: str,
    *,
    label: str = "",
    names: Sequence[str] = (),
    marks: Sequence[tuple[float, str]] = (),
    log_y: bool = False,
    limits: tuple[float, float] | None = None,
    dashed: Sequence[str] = (),
    joined: bool = False,
    size: tuple[float, float] = (_WIDTH, _HEIGHT),
) -> Chart:
    """Draw numbers against numbers as lines with their points, and a name each; NaN leaves a gap.

    Parameters
    ----------
    x : sequence of float
        Rising or not; drawn on a logarithmic axis where all are above 0 and their ratios are equal.
    lines : dict
        For each name the numbers, as many as ``x``; at most ten, which have room beside the plot.
        A single line has the title alone.
    label : str
        The name of the x-axis.
    names : sequence of str
        The text at each ``x`` instead of its number.
    marks : sequence of (float, str)
        Numbers on the x-axis, rising, that get an upright line with a text.
    log_y : bool
        Whether the y-axis is logarithmic.
    limits : (float, float), optional
        The ends of the y-axis; by default the least and the largest number.
    dashed : sequence of str
        Names of lines that are dashed, so that a line below them shows through.
    joined : bool
        Whether points are joined over the gaps, as of lines that have numbers at other ``x``
        than their neighbors.
    size : (float, float)
        Of the area between the axes, in pixels.
    """
    points = np.asarray(x, np.float64)
    values = np.array(list(lines.values()), np.float64)
    up = ChartAxis(*limits) if limits else axis_for(values, log=log_y)
    values[~np.isfinite(values)] = np.nan
    if up.log:
        # A logarithmic axis has no room for numbers of 0 and less.
        values[values <= 0] = np.nan
    ticks = up.ticks(_TICKS)
    texts = tick_texts(ticks, log=up.log)
    start = max(_MARGIN, 10 + max(text_width(text, SMALL) for text in texts))
    plot = _Plot(axis_for(points, log=_is_geometric(points)), up, start, *size)
    shapes: list[Shape] = []
    shapes += _y_ticks(plot, ticks, texts)
    shapes += _x_ticks(plot, points, names)
    shapes.append(frame(plot.start, 0, plot.width, plot.height))
    colors = dict(zip(lines, cycle(_COLORS), strict=False))
    for name, numbers in zip(lines, values, strict=True):
        shown = np.isfinite(numbers) if joined else slice(None)
        at = list(zip(plot.x(points[shown]), plot.y(numbers[shown]), strict=True))
        shapes += _curve(at, colors[name], _DASHES if name in dashed else ())
    shapes += _marks(plot, marks)
    text = fit(label, SMALL, plot.width)
    shapes.append(small_text(plot.start + plot.width / 2, plot.height + 30, text, "middle"))
    # The half of a text below the end of the axis needs some room.
    width = plot.right + 10
    if len(lines) > 1:
        shapes += _legend(plot, colors)
        width = plot.right + 30 + _LONGEST_NAME
    return Chart(width, plot.height + 34, shapes, title)


def _is_geometric(x: np.ndarray) -> bool:
    """Tell whether numbers have equal ratios and not equal distances, as from np.geomspace."""
    if x.size < 3 or not x.min() > 0:
        return False
    ratios = np.diff(np.log(x))
    distances = np.diff(x)
    return _are_equal(ratios) and not _are_equal(distances)


def _are_equal(numbers: np.ndarray) -> bool:
    return bool(np.ptp(numbers) < 1e-3 * abs(numbers[0]))


def _y_ticks(plot: _Plot, ticks: Sequence[float], texts: Sequence[str]) -> Iterator[Shape]:
    """Write the numbers beside the axis, each at a line across the plot."""
    for y, text in zip(plot.y(ticks), texts, strict=True):
        yield _stroke((plot.start, y), (plot.right, y), _GRID)
        yield small_text(plot.start - 4, y + 4, text, "end")


def _x_ticks(plot: _Plot, points: np.ndarray, names: Sequence[str]) -> Iterator[Shape]:
    """Write the numbers, or names, below the axis, as many as have room."""
    ticks = points.tolist()
    texts = list(names)
    if not names:
        ticks = plot.across.ticks(max(_TICKS, int(plot.width / _TICK_WIDTH)))
        texts = tick_texts(ticks, log=plot.across.log)
    free_from = 0.0
    for x, text in sorted(zip(plot.x(ticks), texts, strict=True)):
        short = fit(text, SMALL, plot.width / 2)
        half = text_width(short, SMALL) / 2
        # A text at an end moves inwards, so that nothing of it is cut.
        middle = min(max(x, half), plot.right + 10 - half)
        # One that would touch the text before it is left out.
        if middle - half >= free_from:
            yield _stroke((x, 0), (x, plot.height), _GRID)
            yield small_text(middle, plot.height + 15, short, "middle")
            free_from = middle + half + 4


def _legend(plot: _Plot, colors: Mapping[str, str]) -> Iterator[Shape]:
    """Name the lines beside the plot."""
    y = 6.0
    for name, color in colors.items():
        yield Rectangle(plot.right + 10, y, 12, 3, color)
        yield small_text(plot.right + 26, y + 5, fit(name, SMALL, _LONGEST_NAME))
        y += _LINE


def _stroke(start: _Point, end: _Point, color: str, dashes: tuple[float, ...] = ()) -> Path:
    return Path((("M", start), ("L", end)), stroke=color, dashes=dashes)


def _curve(points: Sequence[_Point], color: str, dashes: tuple[float, ...]) -> Iterator[Shape]:
    """Draw a line through the points, with a gap where a number is missing."""
    steps: list[PathStep] = []
    command = "M"
    for x, y in points:
        if not np.isfinite(y):
            command = "M"
            continue
        steps.append((command, (x, y)))
        command = "L"
        if len(points) <= _MOST_POINTS:
            yield ring(x, y, 1.5, color)
    yield Path(tuple(steps), stroke=color, stroke_width=1.5, dashes=dashes)


def _marks(plot: _Plot, marks: Sequence[tuple[float, str]]) -> Iterator[Shape]:
    """Draw dashed upright lines with their texts, and only the line where a text has no room."""
    free_from = [plot.start] * _MARK_LINES
    for position, text in marks:
        (x,) = plot.x([position])
        yield _stroke((x, 0), (x, plot.height), INK, _DASHES)
        short = fit(text, SMALL, plot.width / 2)
        width = text_width(short, SMALL)
        start = x + 4
        if start + width > plot.right:
            # On the other side of the line, where there is room.
            start = x - 4 - width
        for line, free in enumerate(free_from):
            if start >= free:
                free_from[line] = start + width + 4
                yield small_text(start, 12 + 13 * line, short)
                break
