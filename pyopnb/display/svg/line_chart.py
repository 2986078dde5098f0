"""Numbers against numbers as lines, with round numbers beside the axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pyopnb.display.svg.axes import Axis, axis_for, tick_texts
from pyopnb.display.svg.chart import HEAD, Chart, chart_title
from pyopnb.display.svg.colours import INK
from pyopnb.display.svg.legend import SMALL, frame, small_text
from pyopnb.display.svg.shapes import Circle, Path, Rectangle, Shape
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
_WIDTH, _HEIGHT = 320, 180
# A line of text is this many pixels high.
_LINE = 15
_LONGEST_NAME = 150
# On a line with more points they are not marked one by one.
_MOST_POINTS = 60
_TICKS = 4


def line_chart(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    title: str,
    *,
    label: str = "",
    names: Sequence[str] = (),
    marks: Sequence[tuple[float, str]] = (),
    log_y: bool = False,
) -> Chart:
    """Draw numbers against numbers as lines with their points, and a name each; NaN leaves a gap.

    Parameters
    ----------
    x : sequence of float
        Rising or not; drawn on a logarithmic axis where all are above 0 and their ratios are equal.
    lines : dict
        For each name the numbers, as many as ``x``.
    title : str
    label : str
        The name of the x-axis.
    names : sequence of str
        What is written at each ``x`` instead of its number.
    marks : sequence of (float, str)
        Numbers on the x-axis that get an upright line with a text.
    log_y : bool
        Whether the y-axis is logarithmic.

    Returns
    -------
    Chart
    """
    points = np.asarray(x, np.float64)
    values = np.array(list(lines.values()), np.float64)
    across, up = axis_for(points, log=_is_geometric(points)), axis_for(values, log=log_y)
    y_ticks = up.ticks(_TICKS)
    y_texts = tick_texts(y_ticks, log=up.log)
    x_low = 10 + max(text_width(text, SMALL) for text in y_texts)
    x_high, bottom = x_low + _WIDTH, HEAD + _HEIGHT

    shapes: list[Shape] = [chart_title(title)]
    heights = bottom - _HEIGHT * up.positions(y_ticks)
    for y, text in zip(heights, y_texts, strict=True):
        shapes.append(_stroke((x_low, y), (x_high, y), _GRID))
        shapes.append(small_text(x_low - 4, y + 4, text, "end"))
    shapes += _x_ticks(points, names, across, x_low)
    shapes.append(frame(x_low, HEAD, _WIDTH, _HEIGHT))

    xs = x_low + _WIDTH * across.positions(points)
    ys = bottom - _HEIGHT * up.positions(values)
    # A logarithmic axis has no place for numbers of 0 and less.
    if up.log:
        ys[values <= 0] = np.nan
    name_width = 0.0
    for number, name in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        shapes += _curve(xs, ys[number], colour)
        short = fit(name, SMALL, _LONGEST_NAME)
        name_width = max(name_width, text_width(short, SMALL))
        y = HEAD + 6 + _LINE * number
        shapes.append(Rectangle(x_high + 10, y, 12, 3, colour))
        shapes.append(small_text(x_high + 26, y + 5, short))
    for number, (position, text) in enumerate(marks):
        at = x_low + _WIDTH * float(across.positions(position))
        shapes += _mark(at, x_high, number, text)
    shapes.append(small_text(x_low + _WIDTH / 2, bottom + 30, label, "middle"))
    return Chart(x_high + 30 + name_width, bottom + 34, shapes)


def _is_geometric(x: np.ndarray) -> bool:
    """Tell whether numbers have equal ratios and not equal distances, as those of np.geomspace."""
    if x.size < 3 or not x.min() > 0:
        return False
    ratios, distances = np.diff(np.log(x)), np.diff(x)
    has_equal_ratios = np.ptp(ratios) < 1e-3 * abs(ratios[0])
    return bool(has_equal_ratios and np.ptp(distances) > 1e-3 * abs(distances[0]))


def _x_ticks(points: np.ndarray, names: Sequence[str], axis: Axis, x_low: float) -> Iterator[Shape]:
    """Write the numbers, or names, below the axis, as many as have room."""
    if names:
        order = np.argsort(points, kind="stable")
        step = -(-len(names) // _TICKS)
        picked = order[::step]
        ticks, texts = points[picked].tolist(), [names[at] for at in picked]
    else:
        ticks = axis.ticks(_TICKS)
        texts = tick_texts(ticks, log=axis.log)
    bottom = HEAD + _HEIGHT
    free_from = -np.inf
    for x, text in zip(x_low + _WIDTH * axis.positions(ticks), texts, strict=True):
        yield _stroke((x, HEAD), (x, bottom), _GRID)
        short = fit(text, SMALL, _WIDTH / 2)
        half = text_width(short, SMALL) / 2
        # A text that would touch the one before it is left out; its line stays.
        if x - half >= free_from:
            yield small_text(x, bottom + 15, short, "middle")
            free_from = x + half + 4


def _stroke(start: tuple[float, float], end: tuple[float, float], colour: str) -> Path:
    return Path((("M", start), ("L", end)), stroke=colour, stroke_width=1)


def _curve(xs: np.ndarray, ys: np.ndarray, colour: str) -> Iterator[Shape]:
    """Draw a line through the points; where a number is missing it begins anew."""
    steps = []
    command = "M"
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not np.isfinite(y):
            command = "M"
            continue
        steps.append((command, (x, y)))
        command = "L"
        if len(xs) <= _MOST_POINTS:
            yield Circle(x, y, 1.5, colour, 1.5)
    yield Path(tuple(steps), stroke=colour, stroke_width=1.5)


def _mark(x: float, x_high: float, number: int, text: str) -> Iterator[Shape]:
    """Draw a dashed upright line and what it means, on one of four lines so that neighbours can be read."""
    yield Path(
        (("M", (x, HEAD)), ("L", (x, HEAD + _HEIGHT))), stroke=INK, stroke_width=1, dashes=(4, 3)
    )
    y = HEAD + 12 + 13 * (number % 4)
    if x + 4 + text_width(text, SMALL) <= x_high:
        yield small_text(x + 4, y, text)
    else:
        yield small_text(x - 4, y, text, "end")
