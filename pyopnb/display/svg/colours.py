"""Numbers as colours.

Lightness alone is monotonic along a palette, so it can be read in grey and by people who do not see its hues.

An ``<img>`` does not know whether the page around it is light or dark. So pictures have no background, their words have a
colour that can be read on both, and pale cells are transparent: on white they are pale, on black they are dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from pyopnb.display.svg.axes import ChartAxis

__all__ = [
    "DARK",
    "INK",
    "LINE",
    "NOT_FINITE",
    "RGB",
    "RGBA",
    "ColourScale",
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

# Colours at equal distances along a palette, chosen in OKLab, where equal steps look equally large
# (B. Ottosson, "A perceptual color space for image processing", 2020).
_PALETTES = {
    # From a pale yellow over orange and red to a violet that is seen on black too.
    "sequential": "f6f0ca f9e2a6 ffd28a fec17f ffb075 ff9e6f fe896d ff736e fe5877 fe2c84 ec1998 d416a9 bb1cb5",
    # From blue over pale to red.
    "diverging": "0267c7 488bdd 82aee6 bad0ed f2f2f2 ebc3bc e09488 d16353 be2517",
    # As a photograph's pixels are shown everywhere else.
    "grey": "000000 ffffff",
}


@cache
def palette(kind: str = "sequential") -> tuple[RGB, ...]:
    """Return the 256 colours of a palette.

    Parameters
    ----------
    kind : str
        ``sequential``: from pale to dark, for magnitudes. ``diverging``: from blue over pale to red, for numbers on both sides
        of a centre. ``grey``: from black to white, for numbers that are never negative, such as the pixels of a photograph.

    Returns
    -------
    tuple of (int, int, int)
    """
    anchors = np.array([tuple(bytes.fromhex(text)) for text in _PALETTES[kind].split()])
    steps = np.linspace(0, len(anchors) - 1, _STEPS)
    channels = [np.interp(steps, np.arange(len(anchors)), channel) for channel in anchors.T]
    colours = np.rint(np.stack(channels, axis=1)).astype(int)
    return tuple((red, green, blue) for red, green, blue in colours.tolist())


@cache
def translucent(kind: str) -> tuple[RGBA, ...]:
    """Make the colours of a palette as transparent as they can be and still look the same on white.

    Parameters
    ----------
    kind : str
        As for `palette`; what looks like a photograph stays opaque.

    Returns
    -------
    tuple of (int, int, int, int)
    """
    if kind == "grey":
        return tuple((*colour, 255) for colour in palette(kind))
    return tuple(_remove_white(colour) for colour in palette(kind))


def _remove_white(colour: RGB) -> RGBA:
    opacity = 255 - min(colour)
    channels = []
    for part in colour:
        # White has no opacity, and no colour to be seen.
        channels.append(round(255 - (255 - part) * 255 / max(1, opacity)))
    red, green, blue = channels
    return red, green, blue, opacity


def hex_colour(colour: RGB) -> str:
    """Write a colour as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def text_colour(background: str) -> str:
    """Choose dark or white, whichever has more contrast on a background (WCAG 2)."""
    luminance = 0.0
    for at, weight in ((1, 0.2126), (3, 0.7152), (5, 0.0722)):
        part = int(background[at : at + 2], 16) / 255
        linear = part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        luminance += weight * linear
    if (luminance + 0.05) ** 2 > 1.05 * 0.064:
        return DARK
    return "#ffffff"


@dataclass(frozen=True)
class ColourScale(ChartAxis):
    """A mapping of numbers to the colours of a palette; numbers beyond its ends have the colours of the ends.

    Attributes
    ----------
    low, high : float
        The numbers of the first and the last colour.
    log : bool
        Whether the scale is logarithmic; numbers of 0 and less then have the first colour.
    kind : str
        The `palette`.
    unit : str
        Of the numbers, which a legend writes with a prefix.
    """

    kind: str = "sequential"
    unit: str = ""

    def colour(self, value: float) -> str:
        """Return the colour of a number, as ``#rrggbb``."""
        if not math.isfinite(value):
            return NOT_FINITE
        position = min(1.0, max(0.0, float(self.positions(value))))
        # Where all numbers are equal, they are in the middle of a scale with two sides, and at the beginning of others.
        if not self.low < self.high and self.kind != "diverging":
            position = 0.0
        return hex_colour(palette(self.kind)[round((_STEPS - 1) * position)])


def scale_for(values: Iterable[float], *, log: bool | None = None) -> ColourScale:
    """Make a scale that covers some numbers.

    Parameters
    ----------
    values : iterable of float
    log : bool, optional
        Whether it is logarithmic. By default it is where no number is negative and the largest is over 1,000 times the smallest
        that is not 0.

    Returns
    -------
    ColourScale

    Examples
    --------
    >>> scale_for([0.0, 1e-7, 0.5])
    ColourScale(low=1e-07, high=0.5, log=True, kind='sequential', unit='')
    """
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    least = min([value for value in finite if value > 0], default=0.0)
    if log is None:
        log = low >= 0 and high > 1000 * least > 0
    if log and least:
        # A decade at least, so that what is nearly equal looks so.
        return ColourScale(min(least, high / 10), high, log=True)
    return ColourScale(min(0.0, low) if low < high / 2 else low, high)
