"""Legends: what the colours of a picture mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pyopnb.display.svg.cells import SPECIAL, cells
from pyopnb.display.svg.colours import INK, LINE, ColourScale, hex_colour
from pyopnb.display.svg.numbers import quantity
from pyopnb.display.svg.shapes import Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["SMALL", "SWATCH", "frame", "scale_strip", "small_text", "special_colours"]

SMALL = 10
"""Font size."""

SWATCH = 46
"""A special colour and its name take this many pixels."""


def scale_strip(scale: ColourScale, x: float, y: float, width: float) -> Iterator[Shape]:
    """Draw the colours of a scale with its numbers, 20 pixels high."""
    positions = np.linspace(0, 1, 128).tolist()
    yield cells(np.array([[scale.value_at(at) for at in positions]]), scale, x, y, width, 8)
    yield frame(x, y, width, 8)
    low, middle, high = (quantity(scale.value_at(at), scale.unit) for at in (0.0, 0.5, 1.0))
    yield small_text(x, y + 19, low)
    if not scale.low < scale.high:
        return
    # A narrow strip has no room for three numbers.
    if sum(text_width(text, SMALL) + 4 for text in (low, middle, high)) < width:
        yield small_text(x + width / 2, y + 19, middle, "middle")
    yield small_text(x + width, y + 19, high, "end")


def special_colours(names: Sequence[str], right: float, y: float) -> Iterator[Shape]:
    """Name colours that are not on a scale, beside its strip; ``right`` is where they end.

    Parameters
    ----------
    names : sequence of str
        Of `SPECIAL`; another has no colour.
    right, y : float

    Returns
    -------
    iterator of Shape
    """
    x = right - SWATCH * len(names) + 10
    for name in names:
        colour = hex_colour(SPECIAL[name]) if name in SPECIAL else "none"
        yield Rectangle(x, y, 9, 8, colour, LINE, 0.5)
        yield small_text(x + 13, y + 8, name)
        x += SWATCH


def small_text(x: float, y: float, text: str, anchor: str = "start") -> Text:
    """Write a text beside a chart."""
    return Text(x, y, fit(text, SMALL, 600), SMALL, INK, anchor)


def frame(x: float, y: float, width: float, height: float) -> Rectangle:
    """Draw the border of a picture."""
    return Rectangle(x, y, width, height, "none", LINE, 0.5)
