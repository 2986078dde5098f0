"""Numbers as colors.

Lightness alone is monotonic along a palette, so it can be read in gray and by people who
do not see its hues.

Pictures have no background, and the page around them may be light or dark. Lines can be seen on
both; cells are opaque, so that they look the same on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from pyopnb.display.svg.axes import ChartAxis

__all__ = [
    "DARK",
    "INK",
    "LINE",
    "PALETTES",
    "SPECIAL",
    "THEMES",
    "ColorScale",
    "hex_color",
    "palette",
    "scale_for",
    "text_color",
]

INK = "#757b82"
"""Words on the page, where nothing is known of it: no color has more contrast to white and black.

In an SVG they have the colors of `THEMES`.
"""

THEMES: Mapping[str, tuple[str, str]] = {
    "light": ("#32383f", "#ffffff"),
    "dark": ("#d0d7de", "#111111"),
}
"""Words and their halo, which has the color of the page.

Where a browser takes a page for light that is dark, words can be read on their halo.
"""

DARK = "#1b1f24"
"""Words on a pale color."""

LINE = "#8c959f"

SPECIAL: Mapping[str, tuple[int, int, int]] = {
    "NaN": (213, 0, 127),
    "inf": (0, 121, 107),
    "-inf": (0, 77, 140),
}
"""The colors of NaN and infinities, which no palette has."""

# This leaves room among PNG's 256 colors for the special ones and for transparency.
_SHADES = 250

# Colors at equal distances along a palette, chosen in OKLab, where equal steps look equally large
# (B. Ottosson, "A perceptual color space for image processing", 2020).
PALETTES = {
    # From a pale yellow over orange and red to a violet that is seen on black too.
    "sequential": (
        "f6f0ca f9e2a6 ffd28a fec17f ffb075 ff9e6f fe896d ff736e fe5877 fe2c84 ec1998 d416a9 bb1cb5"
    ),
    # From blue over pale to red.
    "diverging": "0267c7 488bdd 82aee6 bad0ed f2f2f2 ebc3bc e09488 d16353 be2517",
    # The grays in which photographs are shown everywhere else.
    "gray": "000000 ffffff",
}


@cache
def palette(kind: str = "sequential") -> np.ndarray:
    """Return the colors of a palette, uint8[250, 3].

    Parameters
    ----------
    kind : str
        ``sequential``: from pale to dark, for magnitudes. ``diverging``: from blue over pale to
        red, for numbers on both sides of a center. ``gray``: from black to white, for numbers that
        are never negative, such as the pixels of a photograph.
    """
    anchors = np.array([tuple(bytes.fromhex(text)) for text in PALETTES[kind].split()])
    steps = np.linspace(0, len(anchors) - 1, _SHADES)
    channels = [np.interp(steps, np.arange(len(anchors)), channel) for channel in anchors.T]
    colors: np.ndarray = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return colors


def hex_color(color: Iterable[int]) -> str:
    """Write a color as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def text_color(background: str) -> str:
    """Choose dark or white, by the larger contrast on a background (WCAG 2)."""
    luminance = 0.0
    for part, weight in zip(bytes.fromhex(background[1:]), (0.2126, 0.7152, 0.0722), strict=True):
        share = part / 255
        if share <= 0.04045:
            linear = share / 12.92
        else:
            linear = ((share + 0.055) / 1.055) ** 2.4
        luminance += weight * linear
    if (luminance + 0.05) ** 2 > 1.05 * 0.064:
        return DARK
    return "#ffffff"


@dataclass(frozen=True)
class ColorScale(ChartAxis):
    """A mapping of numbers to the colors of a palette; numbers beyond an end have its color.

    Attributes
    ----------
    low, high : float
        The numbers of the first and the last color.
    log : bool
        Whether the scale is logarithmic; numbers of 0 and less then have the first color.
    kind : str
        The `palette`.
    unit : str
        Of the numbers, which a legend writes with a prefix.
    """

    kind: str = "sequential"
    unit: str = ""

    def color(self, value: float) -> str:
        """Return the color of a number, as ``#rrggbb``; infinities have the color of NaN."""
        if not math.isfinite(value):
            return hex_color(SPECIAL["NaN"])
        return hex_color(palette(self.kind)[int(self._shades(np.array(value)))])

    def pixels(self, values: np.ndarray, *, blank_zero: bool = False) -> np.ndarray:
        """Return the colors of numbers, as uint8[…, 4]; NaN and infinities have separate ones.

        Parameters
        ----------
        blank_zero : bool
            Whether 0 is transparent instead of a color of the scale.
        """
        shades = palette(self.kind)[self._shades(values)]
        colors: np.ndarray = np.insert(shades, 3, 255, axis=-1)
        special = (np.isnan(values), np.isposinf(values), np.isneginf(values))
        for color, hits in zip(SPECIAL.values(), special, strict=True):
            colors[hits] = (*color, 255)
        if blank_zero:
            colors[values == 0] = 0
        return colors

    def _shades(self, values: np.ndarray) -> np.ndarray:
        """Return the index of the color of each number."""
        positions = np.nan_to_num(self.positions(values), nan=0.0, posinf=1.0, neginf=0.0)
        # Where all numbers are equal, they are in the middle of a scale with two sides, and at the
        # beginning of others.
        if not self.low < self.high and self.kind != "diverging":
            positions = np.zeros_like(positions)
        shades: np.ndarray = np.rint((_SHADES - 1) * np.clip(positions, 0, 1)).astype(np.intp)
        return shades


def scale_for(values: Iterable[float], *, log: bool | None = None, unit: str = "") -> ColorScale:
    """Make a scale that covers some numbers.

    Parameters
    ----------
    log : bool, optional
        Whether it is logarithmic. By default it is where no number is negative and the largest is
        over 1,000 times the smallest that is not 0.

    Examples
    --------
    >>> scale_for([0.0, 1e-7, 0.5])
    ColorScale(low=1e-07, high=0.5, log=True, kind='sequential', unit='')
    """
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    least = min([value for value in finite if value > 0], default=0.0)
    if log is None:
        log = low >= 0 and high > 1000 * least > 0
    if log and least:
        # The scale spans a decade at least, so that nearly equal numbers look so.
        return ColorScale(min(least, high / 10), high, log=True, unit=unit)
    return ColorScale(min(0.0, low) if low < high / 2 else low, high, unit=unit)
