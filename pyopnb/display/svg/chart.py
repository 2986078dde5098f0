"""Charts: heat maps, densities and bars, with what their colours and axes mean, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from pyopnb.display.svg.cells import cells
from pyopnb.display.svg.colours import DARK, INK, Scale
from pyopnb.display.svg.legend import SMALL, frame, legend_of_words, legend_with_special, small_text
from pyopnb.display.svg.shapes import (
    Cells,
    Circle,
    Drawing,
    Group,
    Path,
    Rectangle,
    Shape,
    Text,
    drawing,
)
from pyopnb.display.svg.text_width import fit, text_width

__all__ = [
    "Chart",
    "abreast",
    "bar_chart",
    "density",
    "heat_maps",
    "line_chart",
    "page",
    "size_on_page",
]

_GAP, _PADDING = 28, 8  # between charts, and around them
_HEAD = 22  # height of a chart's title
_BAR = "#6a5acd"
# Of medium lightness, and told apart without red and green (P. Tol, "Colour Schemes", 2021, vibrant).
_LINE_COLOURS = (
    "#0077bb",
    "#ee7733",
    "#009988",
    "#cc3311",
    "#33bbee",
    "#ee3377",
    "#888888",
    "#aa7744",
)
_MOST_POINTS = 60  # of a line on which each is marked
_MOST_STRETCHED = 8  # times as long as high
_THINNEST = 24  # pixels of a single row


@dataclass(frozen=True)
class Chart:
    """Shapes with their size in pixels.

    Attributes
    ----------
    width, height : float
    shapes : list of Shape
    image : Cells, optional
        The cells of a heat map without any words.
    """

    width: float
    height: float
    shapes: Sequence[Shape]
    image: Cells | None = None


def size_on_page(shape: tuple[int, int], most: int) -> tuple[float, float, bool]:
    """Width and height of a matrix in pixels, at most so many, and whether they are in its proportions.

    They are unless one side is so much longer that the other could hardly be seen.

    Examples
    --------
    >>> size_on_page((128, 256), 256), size_on_page((4000, 6000), 300), size_on_page((1, 1000), 256)
    ((256, 128, True), (300.0, 200.0, True), (256, 24, False))
    """
    rows, columns = shape
    if max(shape) <= _MOST_STRETCHED * min(shape):
        size = min(16, most // max(shape)) if max(shape) <= most else most / max(shape)
        return columns * size, rows * size, True
    width, height = (
        min(most, side * max(1, min(16, most // max(shape)))) for side in (columns, rows)
    )
    return max(width, _THINNEST), max(height, _THINNEST), False


def abreast(count: int, shape: tuple[int, int]) -> int:
    """How many of ``count`` matrices of a shape are in one row of a sheet, so that the sheet is about square."""
    return min(count, max(2, min(8, math.ceil(math.sqrt(count * shape[0] / shape[1])))))


def heat_maps(
    matrices: Sequence[np.ndarray],
    names: Sequence[str],
    scale: Scale | None,
    title: str = "",
    *,
    size: tuple[float, float] | None = None,
    in_row: int = 1,
    below: str = "",
    blank_zero: bool = False,
    marks: Sequence[tuple[int, float, float]] = (),
    words: Mapping[str, float] | None = None,
) -> Chart:
    """Matrices as heat maps in rows, with the scale below; or pictures without a scale.

    Parameters
    ----------
    matrices : sequence of ndarray
        float64[rows, columns]; without a scale pictures, uint8[rows, columns, 3] or 4. All of one shape.
    names : sequence of str
        The text above each; unused if there is one.
    scale : Scale or None
    title : str
    size : (float, float), optional
        Width and height of each in pixels.
    in_row : int
        How many are side by side.
    below : str
        The text below the scale.
    blank_zero : bool
        Whether 0 is transparent.
    marks : sequence of (int, float, float)
        Matrix, row and column of places that get a ring.
    words : dict, optional
        What the numbers mean, if they are few: shown instead of the scale.

    Returns
    -------
    Chart
    """
    rows, columns = matrices[0].shape[:2]
    many = len(matrices) > 1
    width, height = size or size_on_page((rows, columns), 256)[:2]
    label, gap, head = (13 if many else 0), 8, (_HEAD if title else 0)
    pitch = height + gap + label
    corners = [
        ((k % in_row) * (width + gap), head + (k // in_row) * pitch + label)
        for k in range(len(matrices))
    ]
    shapes: list[Shape] = [_title(title)] if title else []

    def drawn(matrix: np.ndarray, x: float, y: float, width: float, height: float) -> Cells:
        if scale is None:
            return Cells(x, y, width, height, matrix)
        return cells(matrix, scale, x, y, width, height, blank_zero=blank_zero)

    for (x, y), matrix, name in zip(corners, matrices, names, strict=True):
        if many:
            shapes.append(small_text(x, y - 4, fit(name, SMALL, width + gap - 2)))
        shapes += [drawn(matrix, x, y, width, height), frame(x, y, width, height)]
    for k, row, column in marks:
        shapes += _ring(
            corners[k][0] + column * width / columns, corners[k][1] + row * height / rows
        )
    bottom = head + math.ceil(len(matrices) / in_row) * pitch + 4
    total = max(in_row * (width + gap) - gap, 200)
    if words and scale:
        shapes += legend_of_words(words, scale, bottom)
        bottom += 12
    elif scale:
        special = [*_special_values(matrices), *(["0"] if blank_zero else [])]
        shapes += legend_with_special(scale, special, bottom, min(total, 300))
        bottom += 26
    if below:
        shapes.append(small_text(0, bottom + 12, below))
        bottom += 16
    sheet = _sheet(matrices, in_row)
    image = drawn(sheet, 0, 0, sheet.shape[1] * width / columns, sheet.shape[0] * height / rows)
    return Chart(max(total, text_width(below, SMALL)), bottom, shapes, image)


def _ring(x: float, y: float) -> Iterator[Circle]:
    yield Circle(x, y, 6, "#ffffff", 3.5)  # a halo, so that the ring is visible on any colour
    yield Circle(x, y, 6, DARK, 1.5)


def _special_values(matrices: Sequence[np.ndarray]) -> list[str]:
    tests = (("NaN", np.isnan), ("inf", np.isposinf), ("-inf", np.isneginf))
    return [name for name, test in tests if any(test(matrix).any() for matrix in matrices)]


def _sheet(matrices: Sequence[np.ndarray], in_row: int) -> np.ndarray:
    """The matrices side by side, one cell of 0 between them; pictures get an opacity, which is 0 there."""
    if len(matrices) == 1:
        return matrices[0]
    if matrices[0].ndim == 3:
        matrices = [
            one if one.shape[2] == 4 else np.insert(one, 3, 255, axis=2) for one in matrices
        ]
    rows, columns, *parts = matrices[0].shape
    down = math.ceil(len(matrices) / in_row)
    sheet = np.zeros((down * (rows + 1) - 1, in_row * (columns + 1) - 1, *parts), matrices[0].dtype)
    for number, matrix in enumerate(matrices):
        y, x = (number // in_row) * (rows + 1), (number % in_row) * (columns + 1)
        sheet[y : y + rows, x : x + columns] = matrix
    return sheet


def density(
    counts: np.ndarray,
    title: str,
    *,
    x: Sequence[str],
    y: Sequence[str],
    labels: tuple[str, str],
    line: Sequence[tuple[float, float]] = (),
) -> Chart:
    """A two-dimensional histogram with axes.

    Parameters
    ----------
    counts : ndarray
        float64[rows, columns]; the first row is at the top, and 0 is transparent.
    title : str
    x, y : sequence of str
        Texts at equal distances along the axes, from the left and from the top.
    labels : (str, str)
        Names of the axes.
    line : sequence of (float, float), optional
        Points of a line, from (0, 0) at the upper left corner to (1, 1).

    Returns
    -------
    Chart
    """
    side = 220
    left = 26 + max((text_width(text, SMALL) for text in y), default=0)
    scale = Scale(1.0, max(2.0, float(counts.max())), log=True)
    shapes: list[Shape] = [
        _title(title),
        cells(counts, scale, left, _HEAD, side, side, blank_zero=True),
        frame(left, _HEAD, side, side),
    ]
    if line:
        points = [(left + side * across, _HEAD + side * down) for across, down in line]
        steps = tuple(("L" if number else "M", point) for number, point in enumerate(points))
        shapes.append(Path(steps, stroke=INK, stroke_width=1.25, dashes=(4, 3)))
    for number, text in enumerate(x):
        anchor = "start" if number == 0 else "end" if number == len(x) - 1 else "middle"
        shapes.append(
            small_text(left + side * number / max(1, len(x) - 1), _HEAD + side + 12, text, anchor)
        )
    for number, text in enumerate(y):
        baseline = 9 if number == 0 else 0 if number == len(y) - 1 else 4
        shapes.append(
            small_text(left - 4, _HEAD + side * number / max(1, len(y) - 1) + baseline, text, "end")
        )
    shapes.append(small_text(left + side / 2, _HEAD + side + 26, labels[0], "middle"))
    shapes.append(Text(9, _HEAD + side / 2, labels[1], SMALL, INK, "middle", upwards=True))
    return Chart(left + side, _HEAD + side + 30, shapes)


def bar_chart(counts: Mapping[str, int], title: str, below: str = "") -> Chart:
    """Counts as horizontal bars, one a line, with their names and numbers.

    Parameters
    ----------
    counts : dict
    title : str
    below : str
        The text below the bars.

    Returns
    -------
    Chart
    """
    most = max(counts.values(), default=0) or 1
    left = 8 + max((text_width(name, SMALL) for name in counts), default=0)
    pitch, longest = 15, 130
    shapes: list[Shape] = [_title(title)]
    for number, (name, count) in enumerate(counts.items()):
        y = _HEAD + number * pitch
        length = max(1.5, longest * count / most) if count else 0
        shapes.append(small_text(left - 6, y + 10, name, "end"))
        if count:
            shapes.append(Rectangle(left, y + 1, length, pitch - 4, _BAR, radius=1.5))
        shapes.append(small_text(left + length + 5, y + 10, f"{count:,}"))
    height = _HEAD + pitch * len(counts)
    if below:
        shapes.append(small_text(0, height + 12, below))
        height += 16
    return Chart(left + longest + 60, height, shapes)


def line_chart(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    title: str,
    *,
    label: str = "",
    names: Sequence[str] = (),
    marks: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Numbers against numbers as lines with their points, and a name each; NaN leaves a gap.

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
        Places on the x-axis that get an upright line with a text; not on a logarithmic one.

    Returns
    -------
    Chart
    """
    width, height = 320, 180
    across = np.log(x) if _is_geometric(x) else np.asarray(x, np.float64)
    values = np.array(list(lines.values()), np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    heights = _tick_texts((high, (low + high) / 2, low))
    left = 10 + max(text_width(text, SMALL) for text in heights)
    xs = left + width * _shares(across, float(across.min()), float(across.max()))
    ys = _HEAD + height * (1 - _shares(values, low, high))
    shapes: list[Shape] = [_title(title), frame(left, _HEAD, width, height)]
    for number, (name, line) in enumerate(zip(lines, ys, strict=True)):
        colour = _LINE_COLOURS[number % len(_LINE_COLOURS)]
        good = np.isfinite(values[number])
        steps = [
            ("L" if k and good[k - 1] else "M", (xs[k], line[k])) for k in range(len(xs)) if good[k]
        ]
        shapes.append(Path(tuple(steps), stroke=colour, stroke_width=1.5))
        shapes += [
            Circle(xs[k], line[k], 1.5, colour, 1.5)
            for k in range(len(xs))
            if good[k] and len(xs) <= _MOST_POINTS
        ]
        shapes.append(Rectangle(left + width + 10, _HEAD + 6 + 15 * number, 12, 3, colour))
        shapes.append(
            small_text(left + width + 26, _HEAD + 11 + 15 * number, fit(name, SMALL, 150))
        )
    for number, (place, text) in enumerate(marks):
        shapes += _mark(
            left + width * float(_shares(np.array(place), across.min(), across.max())),
            left + width,
            height,
            number,
            text,
        )
    for text, baseline in zip(heights, (9, height / 2 + 4, height), strict=True):
        shapes.append(small_text(left - 4, _HEAD + baseline, text, "end"))
    order = np.argsort(xs)
    ticks = [int(order[round(share * (len(order) - 1))]) for share in (0, 0.5, 1)]
    texts = [names[at] for at in ticks] if names else _tick_texts([x[at] for at in ticks])
    for at, text, anchor in zip(ticks, texts, ("start", "middle", "end"), strict=True):
        if at == ticks[0] or xs[at] > xs[ticks[0]]:
            shapes.append(small_text(xs[at], _HEAD + height + 12, text, anchor))
    shapes.append(small_text(left + width / 2, _HEAD + height + 26, label, "middle"))
    room = 30 + max((text_width(fit(name, SMALL, 150), SMALL) for name in lines), default=0)
    return Chart(left + width + room, _HEAD + height + 30, shapes)


def _tick_texts(values: Sequence[float]) -> list[str]:
    """Numbers beside an axis: in three digits, or in as many up to six as tell them apart; thousands are written out."""
    for digits in (3, 4, 5, 6):
        is_long = [digits == 3 and 1_000 <= abs(value) < 1_000_000 for value in values]
        texts = [
            f"{value:,.0f}" if long else f"{value:.{digits}g}"
            for value, long in zip(values, is_long, strict=True)
        ]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _mark(x: float, right: float, height: float, number: int, text: str) -> Iterator[Shape]:
    """A dashed upright line and what it means, on one of four lines so that neighbours can be read."""
    yield Path(
        (("M", (x, _HEAD)), ("L", (x, _HEAD + height))), stroke=INK, stroke_width=1, dashes=(4, 3)
    )
    fits = x + 4 + text_width(text, SMALL) <= right
    yield small_text(
        x + 4 if fits else x - 4, _HEAD + 12 + 13 * (number % 4), text, "start" if fits else "end"
    )


def _is_geometric(x: Sequence[float]) -> bool:
    if len(x) < 3 or min(x) <= 0:
        return False
    steps = np.diff(np.log(x))
    return bool(
        np.ptp(steps) < 1e-3 * abs(steps[0]) and np.ptp(np.diff(x)) > 1e-3 * abs(x[1] - x[0])
    )


def _shares(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where numbers are from low to high, 0 to 1; the distance of two floats can overflow, that of their halves cannot."""
    with np.errstate(all="ignore"):
        return (
            (values / 2 - low / 2) / (high / 2 - low / 2)
            if low < high
            else np.full(values.shape, 0.5)
        )


def page(charts: Sequence[Chart], title: str, in_row: int = 3) -> Drawing:
    """Charts in rows.

    Parameters
    ----------
    charts : sequence of Chart
        At least one.
    title : str
        What they show, for who cannot see them.
    in_row : int
        Charts of a row.

    Returns
    -------
    Drawing
    """
    shapes: list[Shape] = []
    width, y = 0.0, float(_PADDING)
    for first in range(0, len(charts), in_row):
        row = charts[first : first + in_row]
        offsets = list(accumulate((chart.width + _GAP for chart in row), initial=_PADDING))
        shapes += [Group(x, y, tuple(chart.shapes)) for x, chart in zip(offsets, row, strict=False)]
        width = max(width, offsets[-1] - _GAP + _PADDING)
        y += max(chart.height for chart in row) + _GAP
    return drawing(
        math.ceil(width), math.ceil(y - _GAP + _PADDING), shapes, fit(title, SMALL, 2_000)
    )


def _title(text: str) -> Text:
    return Text(0, 11, fit(text, 12, 480, bold=True), 12, INK, bold=True)
