"""Charts on a card of their own ground: fields of colour, bars and densities, with what their colours and axes mean.

A chart is a piece of SVG of known size, and cards set charts side by side. Fields are a PNG within the SVG: a thousand of them
cost no more than their pixels.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pyopnb.display.html import escaped
from pyopnb.display.svg.colours import CARD, LINE, MUTED, TEXT, Scale, palette
from pyopnb.display.svg.png import enlarged, png

__all__ = ["Chart", "bars", "card", "field", "pixels", "tiles"]

_GAP = 28
_HEAD = 22  # of a chart's title
_STEPS = 246
_OWN = {"NaN": (213, 0, 127), "inf": (0, 121, 107), "-inf": (0, 77, 140), "nothing": (255, 255, 255)}
"""Colours that no scale has; they follow the scale's in the PNG's table."""
_PLACE = {name: _STEPS + place for place, name in enumerate(_OWN)}


@dataclass(frozen=True)
class Chart:
    """A piece of SVG with its size in pixels; `png` where it is made of fields."""

    width: float
    height: float
    body: str
    png: bytes = b""


def pixels(values: np.ndarray, scale: Scale, size: tuple[int, int] = (1, 1), nothing: bool = False) -> bytes:
    """A PNG of numbers: those of the scale by its colours, NaN and infinities by their own; 0 has none if ``nothing``."""
    every = palette(scale.kind)
    colours = [every[round(k * (len(every) - 1) / (_STEPS - 1))] for k in range(_STEPS)]
    which = np.rint((_STEPS - 1) * _places(values, scale)).astype(np.uint8)
    which[np.isnan(values)] = _PLACE["NaN"]
    which[np.isposinf(values)] = _PLACE["inf"]
    which[np.isneginf(values)] = _PLACE["-inf"]
    if nothing:
        which[values == 0] = _PLACE["nothing"]
    return png(enlarged(which, *size), [*colours, *_OWN.values()])


def _places(values: np.ndarray, scale: Scale) -> np.ndarray:
    """`Scale.place` of many; of what is not finite it does not matter."""
    low, high = scale.low, scale.high
    with np.errstate(all="ignore"):
        if scale.log:
            low, high, values = math.log(low), math.log(high), np.log(np.maximum(values, low))
        if not low < high:
            return np.full(values.shape, 0.5 if scale.kind == "around" else 0.0)
        places = (values / 2 - low / 2) / (high / 2 - low / 2)
    return np.clip(np.nan_to_num(places, nan=0.0, posinf=0.0, neginf=0.0), 0, 1)


def _fields(rows: int, columns: int, room: int) -> tuple[int, int]:
    """How many pixels a field has across and down: square, but a strip is not thinner than can be seen."""
    side = max(1, min(16, room // max(rows, columns)))
    return max(side, -(-24 // columns)), max(side, -(-24 // rows))


def tiles(
    matrices: Sequence[np.ndarray],
    names: Sequence[str],
    scale: Scale,
    title: str,
    *,
    below: str = "",
    nothing: bool = False,
    marks: Sequence[tuple[int, float, float]] = (),
    words: Mapping[str, float] | None = None,
) -> Chart:
    """Matrices as fields of colour, in rows, with the scale below.

    Parameters
    ----------
    matrices : sequence of ndarray
        All of one shape.
    names : sequence of str
        What is written over each; none where there is one.
    scale : Scale
    title : str
    below : str
        What is written below the scale.
    nothing : bool
        Whether 0 is "nothing", and white.
    marks : sequence of (int, float, float)
        Matrix, row and column of places that get a ring.
    words : dict, optional
        What numbers mean, where there are few: it stands in the place of the scale.
    """
    rows, columns = matrices[0].shape
    many = len(matrices) > 1
    abreast = min(len(matrices), max(2, min(8, round(8 * rows / columns)))) if many else 1
    size = _fields(rows, columns, max(40, 448 // abreast) if many else 256)
    wide, high = columns * size[0], rows * size[1]
    label, gap = (13 if many else 0), 8
    spots = [
        ((k % abreast) * (wide + gap), _HEAD + (k // abreast) * (high + gap + label) + label) for k in range(len(matrices))
    ]
    body = [_title(title)]
    for (x, y), matrix, name in zip(spots, matrices, names, strict=True):
        if many:
            body.append(_small(x, y - 4, name, "start"))
        body.append(_picture(pixels(matrix, scale, nothing=nothing), x, y, wide, high, stretch=True))
    body += [_ring(spots[k][0] + column * size[0], spots[k][1] + row * size[1]) for k, row, column in marks]
    deep = _HEAD + math.ceil(len(matrices) / abreast) * (high + gap + label) + 4
    whole = max(abreast * (wide + gap) - gap, 200)
    body.append(_words(words, scale, deep) if words else _legend(scale, _odd(matrices), deep, min(whole, 300), nothing))
    deep += 12 if words else 26
    if below:
        body.append(_small(0, deep + 12, below, "start"))
        deep += 16
    sheet = _sheet(matrices, abreast) if many else matrices[0]
    return Chart(max(whole, 5.2 * len(below)), deep, "".join(body), pixels(sheet, scale, size, nothing))


def _ring(x: float, y: float) -> str:
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none"'
    return f'{ring} stroke="{CARD}" stroke-width="3.5"/>{ring} stroke="{TEXT}" stroke-width="1.5"/>'


def _odd(matrices: Sequence[np.ndarray]) -> list[str]:
    tests = (("NaN", np.isnan), ("inf", np.isposinf), ("-inf", np.isneginf))
    return [name for name, test in tests if any(test(matrix).any() for matrix in matrices)]


def _sheet(matrices: Sequence[np.ndarray], abreast: int) -> np.ndarray:
    """Matrices beside each other, for a picture without words."""
    rows, columns = matrices[0].shape
    down = math.ceil(len(matrices) / abreast)
    sheet = np.zeros((down * (rows + 1) - 1, abreast * (columns + 1) - 1))
    for place, matrix in enumerate(matrices):
        y, x = (place // abreast) * (rows + 1), (place % abreast) * (columns + 1)
        sheet[y : y + rows, x : x + columns] = matrix
    return sheet


def field(
    matrix: np.ndarray,
    scale: Scale,
    title: str,
    *,
    x: Sequence[str],
    y: Sequence[str],
    words: Sequence[str],
    line: Sequence[tuple[float, float]] = (),
) -> Chart:
    """A matrix with axes; its first row is at the top.

    Parameters
    ----------
    matrix : ndarray
    scale : Scale
    title : str
    x, y : sequence of str
        What is written at the ends of the axes, and, where there are more, at equal steps between.
    words : sequence of (str, str)
        Names of the axes.
    line : sequence of (float, float), optional
        Points of a line over it, from (0, 0) at the left of the top to (1, 1).
    """
    side = 220
    left = 26 + 5.6 * max(map(len, y), default=0)
    body = [_title(title), _picture(pixels(matrix, scale, nothing=True), left, _HEAD, side, side, stretch=True)]
    body.append(
        f'<rect x="{left}" y="{_HEAD}" width="{side}" height="{side}" fill="none" stroke="{LINE}" stroke-width="0.75"/>'
    )
    if line:
        points = " ".join(f"{left + side * across:.1f},{_HEAD + side * down:.1f}" for across, down in line)
        body.append(f'<polyline points="{points}" fill="none" stroke="{TEXT}" stroke-width="1.25" stroke-dasharray="4 3"/>')
    for place, name in enumerate(x):
        at = left + side * place / max(1, len(x) - 1)
        end = "start" if place == 0 else "end" if place == len(x) - 1 else "middle"
        body.append(_small(at, _HEAD + side + 12, name, end))
    for place, name in enumerate(y):
        at = _HEAD + side * place / max(1, len(y) - 1)
        body.append(_small(left - 4, at + (9 if place == 0 else 0 if place == len(y) - 1 else 4), name, "end"))
    body.append(_small(left + side / 2, _HEAD + side + 26, words[0], "middle"))
    middle = _HEAD + side / 2
    body.append(f'<g transform="rotate(-90 6 {middle})">{_small(6, middle + 3, words[1], "middle")}</g>')
    return Chart(left + side, _HEAD + side + 30, "".join(body))


def bars(counts: Sequence[int], names: Sequence[str], title: str, below: str = "") -> Chart:
    """Counts as bars from the left, one a line, with what they count and how many."""
    most = max(counts, default=0) or 1
    left, line, wide = 8 + 6.0 * max(map(len, names), default=0), 15, 130
    body = [_title(title)]
    for place, (count, name) in enumerate(zip(counts, names, strict=True)):
        y = _HEAD + place * line
        length = max(1.5, wide * count / most) if count else 0
        body.append(_small(left - 6, y + 10, name, "end"))
        body.append(f'<rect x="{left:g}" y="{y + 1}" width="{length:.1f}" height="{line - 4}" rx="1.5" fill="#6a5acd"/>')
        body.append(_small(left + length + 5, y + 10, f"{count:,}", "start"))
    deep = _HEAD + line * len(counts)
    if below:
        body.append(_small(0, deep + 12, below, "start"))
        deep += 16
    return Chart(left + wide + 60, deep, "".join(body))


def card(charts: Sequence[Chart], title: str) -> str:
    """Charts side by side on one card: a whole SVG."""
    pad = 14
    x, body = float(pad), []
    for chart in charts:
        body.append(f'<g transform="translate({x:.1f} {pad})">{chart.body}</g>')
        x += chart.width + _GAP
    width, height = math.ceil(x - _GAP + pad), math.ceil(max(chart.height for chart in charts) + 2 * pad)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"><title>{escaped(title, 200)}</title>'
        f'<rect width="{width}" height="{height}" rx="8" fill="{CARD}"/>{"".join(body)}</svg>'
    )


def _title(text: str) -> str:
    return f'<text x="0" y="11" font-size="12" font-weight="600" fill="{TEXT}">{escaped(text, 80)}</text>'


def _small(x: float, y: float, text: str, end: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="10" fill="{MUTED}" text-anchor="{end}">{escaped(text, 80)}</text>'


def _picture(data: bytes, x: float, y: float, wide: float, high: float, stretch: bool = False) -> str:
    fit = ' preserveAspectRatio="none"' if stretch else ""
    source = base64.b64encode(data).decode()
    frame = f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="none" stroke="{LINE}" stroke-width="0.5"/>'
    place = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
    return f'<image {place}{fit} style="image-rendering:pixelated" href="data:image/png;base64,{source}"/>{frame}'


def _words(words: Mapping[str, float], scale: Scale, y: float) -> str:
    body, x = [], 0.0
    for word, value in words.items():
        body.append(_swatch(x, y, scale.colour(value) if value or scale.kind == "around" else "#ffffff", word))
        x += 30 + 6 * len(word)
    return "".join(body)


def _swatch(x: float, y: float, colour: str, word: str) -> str:
    square = f'<rect x="{x:g}" y="{y:g}" width="9" height="8" fill="{colour}" stroke="{LINE}" stroke-width="0.5"/>'
    return square + _small(x + 13, y + 8, word, "start")


def _legend(scale: Scale, found: Sequence[str], y: float, wide: float, nothing: bool) -> str:
    """The strip of the scale, and the colours that it does not have but the picture does."""
    strip = np.array([[scale.at(k / 127) for k in range(128)]])
    own = [*found, *(["nothing"] if nothing else [])]
    room = wide - 46 * len(own)
    body = [_picture(pixels(strip, scale), 0, y, room, 8, stretch=True)]
    ends = [(0.0, "start"), (0.5, "middle"), (1.0, "end")] if scale.low < scale.high else [(0.0, "start")]
    body += [_small(room * at, y + 19, f"{scale.at(at):.3g}", end) for at, end in ends]
    for place, name in enumerate(own):
        colour = "#{:02x}{:02x}{:02x}".format(*_OWN[name])
        body.append(_swatch(room + 10 + 46 * place, y, colour, "0" if name == "nothing" else name))
    return "".join(body)
