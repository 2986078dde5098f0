"""Numbers as colours: scales whose order the eye sees, and their legends.

Lightness alone tells the order, so a scale can be read in grey and by whoever does not see its hues. Colours are made in OKLab
(B. Ottosson, 2020), in which equal steps look equal, and need no table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape

__all__ = ["CARD", "LINE", "MUTED", "NOT_FINITE", "TEXT", "Scale", "ink", "legend", "palette", "scale"]

CARD = "#f7f8fa"
"""The ground of pictures: they bring their own, as an ``<img>`` does not know the theme around it."""

TEXT = "#1b1f24"
MUTED = "#59636e"
LINE = "#8c959f"
NOT_FINITE = "#d5007f"
"""NaN and infinities: a colour of no scale."""

_RGB = tuple[int, int, int]
_STEPS = 256


@cache
def palette(kind: str = "rising") -> tuple[_RGB, ...]:
    """256 colours.

    Parameters
    ----------
    kind : str
        ``rising``: from pale to dark, for what begins at nothing. ``around``: blue over pale to red, for what has a middle.
        ``light``: from black to white, for what is never negative, such as a photograph.
    """
    if kind not in _PALETTES:
        raise ValueError(f"{kind!r} is no palette: {', '.join(_PALETTES)}")
    make = _PALETTES[kind]
    return tuple(make(step / (_STEPS - 1)) for step in range(_STEPS))


def _rising(t: float) -> _RGB:
    # A pale yellow, over orange and red, to a dark violet.
    return _from_oklch(0.95 - 0.63 * t, 0.05 + 0.14 * math.sin(math.pi * min(1.0, 0.15 + 0.75 * t)), 100 - 150 * t)


def _around(t: float) -> _RGB:
    away = abs(2 * t - 1)
    return _from_oklch(0.96 - 0.51 * away, 0.19 * away, 255 if t < 0.5 else 30)


def _light(t: float) -> _RGB:
    return _from_oklch(0.15 + 0.85 * t, 0.0, 0.0)


_PALETTES = {"rising": _rising, "around": _around, "light": _light}


def _from_oklch(lightness: float, chroma: float, hue: float) -> _RGB:
    """The colour of that lightness and hue; paler where a screen has none that is so strong."""
    angle = math.radians(hue)
    while True:
        linear = _linear(lightness, chroma * math.cos(angle), chroma * math.sin(angle))
        if chroma < 0.004 or all(-0.001 <= part <= 1.001 for part in linear):
            red, green, blue = (_eight_bits(part) for part in linear)
            return red, green, blue
        chroma -= 0.004


def _linear(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _eight_bits(linear: float) -> int:
    linear = min(1.0, max(0.0, linear))
    return round(255 * (12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055))


def _written(colour: _RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def ink(colour: str) -> str:
    """The colour of text on a ground, ``#rrggbb``: dark or white, whichever stands out more."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return TEXT if (bright + 0.05) ** 2 > 1.05 * 0.064 else "#ffffff"


@dataclass(frozen=True)
class Scale:
    """Which colour a number has.

    Attributes
    ----------
    low, high : float
        What has the first and the last colour; beyond them nothing changes.
    log : bool
        Whether equal ratios are equal steps; numbers of 0 and less then have the first colour.
    kind : str
        The `palette`.
    """

    low: float
    high: float
    log: bool = False
    kind: str = "rising"

    def place(self, value: float) -> float:
        """Where a number stands, from 0 to 1."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.log:
            value = math.log(value) if value > 0 else low
        if not low < high:
            return 0.5 if self.kind == "around" else 0.0
        # Halved first: the span of two floats can be more than a float holds.
        return min(1.0, max(0.0, (value / 2 - low / 2) / (high / 2 - low / 2)))

    def colour(self, value: float) -> str:
        """A number's colour, ``#rrggbb``."""
        if not math.isfinite(value):
            return NOT_FINITE
        return _written(palette(self.kind)[round((_STEPS - 1) * self.place(value))])

    def at(self, place: float) -> float:
        """The number at a place from 0 to 1."""
        if self.log:
            return math.exp(math.log(self.low) + place * (math.log(self.high) - math.log(self.low)))
        return self.low * (1 - place) + self.high * place


def scale(values: Iterable[float], *, log: bool | None = None, around: bool = False) -> Scale:
    """A scale for these numbers.

    Parameters
    ----------
    values : iterable of float
    log : bool, optional
        Without it: where all are 0 or more, and the largest is over 1,000 times the least that is not 0.
    around : bool
        Whether 0 is the middle.

    Examples
    --------
    >>> scale([0.0, 1e-7, 0.5])
    Scale(low=1e-07, high=0.5, log=True, kind='rising')
    """
    finite = [value for value in values if math.isfinite(value)]
    if around:
        most = max(map(abs, finite), default=0.0)
        return Scale(-most, most, kind="around")
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    positive = [value for value in finite if value > 0]
    if log is None:
        log = bool(positive) and low >= 0 and high > 1000 * min(positive)
    if log and positive:
        return Scale(min(positive), high, log=True)
    return Scale(min(0.0, low) if low < high / 2 else low, high)


def legend(scale: Scale, title: str, x: float = 0, y: float = 0, width: float = 180) -> str:
    """A strip of the scale's colours with its numbers, 34 pixels high, as a part of an SVG."""
    stops = "".join(f'<stop offset="{k / 16}" stop-color="{scale.colour(scale.at(k / 16))}"/>' for k in range(17))
    middle = f'<text x="{x + width / 2:g}" y="{y + 32:g}" text-anchor="middle">{scale.at(0.5):.3g}</text>'
    return (
        f'<g font-size="10" fill="{MUTED}"><linearGradient id="scale">{stops}</linearGradient>'
        f'<text x="{x:g}" y="{y + 9:g}">{escape(title)}</text>'
        f'<rect x="{x:g}" y="{y + 13:g}" width="{width:g}" height="8" rx="2" fill="url(#scale)"/>'
        f'<text x="{x:g}" y="{y + 32:g}">{scale.low:.3g}</text>{middle if scale.low < scale.high else ""}'
        f'<text x="{x + width:g}" y="{y + 32:g}" text-anchor="end">{scale.high:.3g}</text></g>'
    )
