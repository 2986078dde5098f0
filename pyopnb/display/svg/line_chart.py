"""Numbers against numbers as lines or stems, with round numbers beside the axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.display.svg.axes import ChartAxis, axis_for
from pyopnb.display.svg.chart import HEAD, Chart, chart_title, title_width
from pyopnb.display.svg.colours import INK
from pyopnb.display.svg.legend import SMALL, frame, small_text
from pyopnb.display.svg.numbers import tick_texts
from pyopnb.display.svg.shapes import Circle, Path, PathStep, Rectangle, Shape
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["line_chart"]

# Of medium lightness, and told apart without red and green (P. Tol, "Colour Schemes", 2021, vibrant).
_COLOURS = (
    "#0077bb",
    "#ee7733",
    "#009988",
    "#cc3311",
    "#33bbee",
    "#ee3377",
    "#888888",
    "#aa7744",
)
_GRID = "#8c959f40"
_FAINT = "#8c959f"
_WIDTH, _HEIGHT = 320, 180
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
# The texts of marks stand on this many lines at the top.
_MARK_LINES = 4


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

    @property
    def bottom(self) -> float:
        return HEAD + self.height

    def x(self, values: Any) -> np.ndarray:
        """Place numbers from left to right."""
        return self.start + self.width * self.across.positions(values)

    def y(self, values: Any) -> np.ndarray:
        """Place numbers from the bottom up; those beyond the axis lie on its end, NaN and infinities nowhere."""
        numbers = np.array(values, np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        if self.up.log:
            # A logarithmic axis has no room for numbers of 0 and less.
            numbers[numbers <= 0] = np.nan
        positions = np.clip(self.up.positions(numbers), 0, 1)
        ys: np.ndarray = self.bottom - self.height * positions
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
    unit: str = "",
    limits: tuple[float, float] | None = None,
    stems: bool = False,
    dashed: Sequence[str] = (),
    joined: Sequence[str] = (),
    faint: Sequence[str] = (),
    margin: float = 0,
    size: tuple[float, float] = (_WIDTH, _HEIGHT),
) -> Chart:
    """Draw numbers against numbers as lines with their points, and a name each; NaN leaves a gap.

    Parameters
    ----------
    x : sequence of float
        Rising or not; drawn on a logarithmic axis where all are above 0 and their ratios are equal.
    lines : dict
        For each name the numbers, as many as ``x``. A single line has the title alone.
    title : str
    label : str
        The name of the x-axis.
    names : sequence of str
        What is written at each ``x`` instead of its number.
    marks : sequence of (float, str)
        Numbers on the x-axis that get an upright line with a text.
    log_y : bool
        Whether the y-axis is logarithmic.
    unit : str
        Of the y-axis, whose numbers get prefixes.
    limits : (float, float), optional
        The ends of the y-axis; by default the least and the largest number.
    stems : bool
        Whether each number stands on a line from 0, instead of being joined with the next.
    dashed : sequence of str
        Names of lines through whose gaps one below them is seen.
    joined : sequence of str
        Names of lines whose points are joined over the gaps, as they have fewer than the others.
    faint : sequence of str
        Names of lines that are thin and grey, behind one that says the same smoothed.
    margin : float
        The least room for the numbers of the y-axis, so that charts below each other begin at one x.
    size : (float, float)
        Of the area between the axes, in pixels.

    Returns
    -------
    Chart
    """
    points = np.asarray(x, np.float64)
    values = np.array(list(lines.values()), np.float64)
    up = _axis_up(values, limits, log_y, stems)
    ticks = up.ticks(_TICKS)
    texts = tick_texts(ticks, log=up.log, unit=unit)
    # The numbers beside the axis stand left of it, so they say where it is.
    start = max(margin, 10 + max(text_width(text, SMALL) for text in texts))
    across = axis_for(points, log=_is_geometric(points))
    plot = _Plot(across, up, start, *size)

    shapes: list[Shape] = [chart_title(title, plot.right)]
    shapes += _y_ticks(plot, ticks, texts)
    shapes += _x_ticks(plot, points, names)
    shapes.append(frame(plot.start, HEAD, plot.width, plot.height))
    xs = plot.x(points)
    all_ys = plot.y(values)
    colours = _colours(list(lines), faint)
    for name, ys in zip(lines, all_ys, strict=True):
        colour = colours[name]
        if stems:
            shapes += _stems(plot, xs, ys, colour)
            continue
        shown = np.isfinite(ys) if name in joined else np.ones(len(ys), bool)
        shapes += _curve(xs[shown], ys[shown], colour, name in dashed, name in faint)
    shapes += _marks(plot, marks)
    shapes.append(_axis_label(plot, label))
    if len(lines) > 1:
        shapes += _legend(plot, colours)
    return Chart(_chart_width(plot, title, list(lines)), plot.bottom + 34, shapes)


def _colours(names: Sequence[str], faint: Sequence[str]) -> dict[str, str]:
    """Choose the colour of each line."""
    colours: dict[str, str] = {}
    for name in names:
        strong = len(colours) - sum(colour == _FAINT for colour in colours.values())
        colours[name] = _FAINT if name in faint else _COLOURS[strong % len(_COLOURS)]
    return colours


def _chart_width(plot: _Plot, title: str, names: list[str]) -> float:
    # The half of a text below the end of the axis needs some room.
    width = max(plot.right + 10, title_width(title, plot.right))
    if len(names) > 1:
        for name in names:
            short = fit(name, SMALL, _LONGEST_NAME)
            width = max(width, plot.right + 30 + text_width(short, SMALL))
    return width


def _axis_up(
    values: np.ndarray, limits: tuple[float, float] | None, log: bool, stems: bool
) -> ChartAxis:
    axis = ChartAxis(*limits) if limits is not None else axis_for(values, log=log)
    # A stem's length is its number only if it stands on 0.
    if stems:
        return ChartAxis(min(0.0, axis.low), max(0.0, axis.high))
    return axis


def _is_geometric(x: np.ndarray) -> bool:
    """Tell whether numbers have equal ratios and not equal distances, as those of np.geomspace."""
    if x.size < 3 or not x.min() > 0:
        return False
    ratios = np.diff(np.log(x))
    distances = np.diff(x)
    has_equal_ratios = np.ptp(ratios) < 1e-3 * abs(ratios[0])
    return bool(has_equal_ratios and np.ptp(distances) > 1e-3 * abs(distances[0]))


def _y_ticks(plot: _Plot, ticks: Sequence[float], texts: Sequence[str]) -> Iterator[Shape]:
    for y, text in zip(plot.y(ticks).tolist(), texts, strict=True):
        yield _stroke((plot.start, y), (plot.right, y), _GRID)
        yield small_text(plot.start - 4, y + 4, text, "end")


def _x_ticks(plot: _Plot, points: np.ndarray, names: Sequence[str]) -> Iterator[Shape]:
    """Write the numbers, or names, below the axis, as many as have room."""
    most = max(_TICKS, int(plot.width / _TICK_WIDTH))
    if names:
        order = np.argsort(points, kind="stable")
        picked = order[:: -(-len(names) // most)]
        ticks = points[picked].tolist()
        texts = [names[at] for at in picked]
    else:
        ticks = plot.across.ticks(most)
        texts = tick_texts(ticks, log=plot.across.log)
    free_from = 0.0
    for x, text in zip(plot.x(ticks).tolist(), texts, strict=True):
        yield _stroke((x, HEAD), (x, plot.bottom), _GRID)
        short = fit(text, SMALL, plot.width / 2)
        half = text_width(short, SMALL) / 2
        # A text at an end moves inwards, so that nothing of it is cut.
        middle = min(max(x, half), plot.right + 10 - half)
        # A text that would touch the one before it is left out; its line stays.
        if middle - half >= free_from:
            yield small_text(middle, plot.bottom + 15, short, "middle")
            free_from = middle + half + 4


def _axis_label(plot: _Plot, label: str) -> Shape:
    text = fit(label, SMALL, plot.width)
    return small_text(plot.start + plot.width / 2, plot.bottom + 30, text, "middle")


def _legend(plot: _Plot, colours: Mapping[str, str]) -> Iterator[Shape]:
    """Name the lines beside the plot, as many as it is high."""
    names = list(colours)
    room = int(plot.height / _LINE)
    shown = names if len(names) <= room else names[: room - 1]
    y = HEAD + 6.0
    for name in shown:
        yield Rectangle(plot.right + 10, y, 12, 3, colours[name])
        yield small_text(plot.right + 26, y + 5, fit(name, SMALL, _LONGEST_NAME))
        y += _LINE
    if len(shown) < len(names):
        yield small_text(plot.right + 26, y + 5, f"and {len(names) - len(shown):,} more")


def _stroke(start: tuple[float, float], end: tuple[float, float], colour: str) -> Path:
    return Path((("M", start), ("L", end)), stroke=colour, stroke_width=1)


def _curve(
    xs: np.ndarray, ys: np.ndarray, colour: str, is_dashed: bool, is_faint: bool
) -> Iterator[Shape]:
    """Draw a line through the points; where a number is missing it begins anew."""
    dashes = _DASHES if is_dashed else ()
    steps: list[PathStep] = []
    command = "M"
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not np.isfinite(y):
            command = "M"
            continue
        steps.append((command, (x, y)))
        command = "L"
        if len(xs) <= _MOST_POINTS and not is_faint:
            yield Circle(x, y, 1.5, colour, 1.5)
    width = 0.75 if is_faint else 1.5
    yield Path(tuple(steps), stroke=colour, stroke_width=width, dashes=dashes)


def _stems(plot: _Plot, xs: np.ndarray, ys: np.ndarray, colour: str) -> Iterator[Shape]:
    """Draw each number as a point on a line from 0."""
    base = float(plot.y(0.0))
    steps: list[PathStep] = []
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if np.isfinite(y):
            steps += [("M", (x, base)), ("L", (x, y))]
            yield Circle(x, y, 2, colour, 2)
    yield _stroke((plot.start, base), (plot.right, base), INK)
    yield Path(tuple(steps), stroke=colour, stroke_width=1.5)


def _marks(plot: _Plot, marks: Sequence[tuple[float, str]]) -> Iterator[Shape]:
    """Draw dashed upright lines with what they mean; a text without room is left out, its line stays."""
    written: list[tuple[int, float, float]] = []
    for position, text in marks:
        x = float(plot.x(position))
        steps: tuple[PathStep, ...] = (("M", (x, HEAD)), ("L", (x, plot.bottom)))
        yield Path(steps, stroke=INK, stroke_width=1, dashes=_DASHES)
        short = fit(text, SMALL, plot.width / 2)
        width = text_width(short, SMALL)
        start = x + 4
        if start + width > plot.right:
            # On the other side of the line, where there is room.
            start = x - 4 - width
        line = _free_line(written, start, start + width)
        if line is not None and start >= plot.start:
            written.append((line, start, start + width))
            yield small_text(start, HEAD + 12 + 13 * line, short)


def _free_line(written: Sequence[tuple[int, float, float]], start: float, end: float) -> int | None:
    """Return the first line on which no other text is in the way."""
    for line in range(_MARK_LINES):
        is_free = True
        for text_line, text_start, text_end in written:
            if text_line == line and start < text_end + 4 and text_start < end + 4:
                is_free = False
        if is_free:
            return line
    return None
