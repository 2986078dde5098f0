"""Numbers as colours.

Lightness alone is monotonic along a palette, so it can be read in grey and by people who do not see its hues. Colours are
computed in OKLab (B. Ottosson, "A perceptual color space for image processing", 2020), in which equal steps look equally large.

An ``<img>`` does not know whether the page around it is light or dark. So pictures have no background, their words have a
colour that can be read on both, and pale cells are transparent: on white they are pale, on black they are dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

__all__ = [
    "DARK",
    "INK",
    "LINE",
    "NOT_FINITE",
    "RGB",
    "RGBA",
    "Scale",
    "hex_colour",
    "palette",
    "scale_for",
    "text_colour",
    "translucent",
]

INK = "#757b82"
"""Words on the page: a contrast of 4.2 or more to white and to JupyterLab's dark background."""

DARK = "#1b1f24"
"""Words on a pale colour."""

LINE = "#8c959f"
NOT_FINITE = "#d5007f"
"""NaN and infinities: a colour that no palette has."""

RGB: TypeAlias = tuple[int, int, int]
"""Each from 0 to 255."""

RGBA: TypeAlias = tuple[int, int, int, int]
"""The same, and the opacity."""

_STEPS = 256


@cache
def palette(kind: str = "sequential") -> tuple[RGB, ...]:
    """The 256 colours of a palette.

    Parameters
    ----------
    kind : str
        ``sequential``: from pale to dark, for magnitudes. ``diverging``: from blue over pale to red, for numbers on both sides
        of a centre. ``grey``: from black to white, for numbers that are never negative, such as the pixels of a photograph.

    Returns
    -------
    tuple of (int, int, int)

    Raises
    ------
    ValueError
        There is no palette of that name.
    """
    if kind not in _PALETTES:
        raise ValueError(f"{kind!r} is not a palette: {', '.join(_PALETTES)}")
    make = _PALETTES[kind]
    return tuple(make(step / (_STEPS - 1)) for step in range(_STEPS))


def _sequential(t: float) -> RGB:
    # From a pale yellow over orange and red to a violet that is seen on black too.
    return _from_oklch(0.95 - 0.39 * t, 0.05 + 0.2 * math.sin(math.pi * 0.6 * t), 100 - 130 * t)


def _diverging(t: float) -> RGB:
    distance = abs(2 * t - 1)
    return _from_oklch(0.96 - 0.44 * distance, 0.19 * distance, 255 if t < 0.5 else 30)


def _grey(t: float) -> RGB:
    return (round(255 * t),) * 3  # as a photograph's pixels are shown everywhere else


_PALETTES = {"sequential": _sequential, "diverging": _diverging, "grey": _grey}


@cache
def translucent(kind: str) -> tuple[RGBA, ...]:
    """A palette whose colours are as transparent as they can be and still look as they do in `palette` on white.

    Parameters
    ----------
    kind : str
        As for `palette`; what looks like a photograph stays opaque.

    Returns
    -------
    tuple of (int, int, int, int)
    """
    colours = palette(kind)
    return (
        tuple((*colour, 255) for colour in colours)
        if kind == "grey"
        else tuple(map(_remove_white, colours))
    )


def _remove_white(colour: RGB) -> RGBA:
    opacity = 255 - min(colour)
    red, green, blue = (round(255 - (255 - part) * 255 / max(1, opacity)) for part in colour)
    return red, green, blue, opacity


def _from_oklch(lightness: float, chroma: float, hue: float) -> RGB:
    """The sRGB colour of that lightness and hue; chroma is reduced until the colour is within sRGB's gamut."""
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
    return round(
        255 * (12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055)
    )


def hex_colour(colour: RGB) -> str:
    """A colour as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def text_colour(background: str) -> str:
    """Dark or white, whichever has more contrast on a background (WCAG 2), as ``#rrggbb``."""
    parts = (int(background[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return DARK if (luminance + 0.05) ** 2 > 1.05 * 0.064 else "#ffffff"


@dataclass(frozen=True)
class Scale:
    """A mapping of numbers to the colours of a palette.

    Attributes
    ----------
    low, high : float
        The numbers of the first and the last colour; numbers beyond them have these colours too.
    log : bool
        Whether the scale is logarithmic; numbers of 0 and less then have the first colour.
    kind : str
        The `palette`.
    """

    low: float
    high: float
    log: bool = False
    kind: str = "sequential"

    def position(self, value: float) -> float:
        """Where on the palette a number is, from 0 to 1."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.log:
            value = math.log(value) if value > 0 else low
        if not low < high:
            return 0.5 if self.kind == "diverging" else 0.0
        # Halved first, because the distance of two floats can overflow.
        return min(1.0, max(0.0, (value / 2 - low / 2) / (high / 2 - low / 2)))

    def colour(self, value: float) -> str:
        """The colour of a number, as ``#rrggbb``."""
        if not math.isfinite(value):
            return NOT_FINITE
        return hex_colour(palette(self.kind)[round((_STEPS - 1) * self.position(value))])

    def value_at(self, position: float) -> float:
        """The number at a position from 0 to 1."""
        if self.log:
            return math.exp(
                math.log(self.low) + position * (math.log(self.high) - math.log(self.low))
            )
        return self.low * (1 - position) + self.high * position


def scale_for(values: Iterable[float], *, log: bool | None = None, around: bool = False) -> Scale:
    """A scale that covers these numbers.

    Parameters
    ----------
    values : iterable of float
    log : bool, optional
        Whether it is logarithmic. By default it is where no number is negative and the largest is over 1,000 times the smallest
        that is not 0.
    around : bool
        Whether it is symmetric about 0.

    Returns
    -------
    Scale

    Examples
    --------
    >>> scale_for([0.0, 1e-7, 0.5])
    Scale(low=1e-07, high=0.5, log=True, kind='sequential')
    """
    finite = [value for value in values if math.isfinite(value)]
    if around:
        limit = max(map(abs, finite), default=0.0)
        return Scale(-limit, limit, kind="diverging")
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    positive = [value for value in finite if value > 0]
    if log is None:
        log = bool(positive) and low >= 0 and high > 1000 * min(positive)
    if log and positive:
        return Scale(
            min(*positive, high / 10), high, log=True
        )  # a decade at least: what is nearly equal looks so
    return Scale(min(0.0, low) if low < high / 2 else low, high)
