"""Legends: what the colours of a picture mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pyopnb.display.svg.cells import SPECIAL, cells
from pyopnb.display.svg.colours import INK, LINE, Scale, hex_colour
from pyopnb.display.svg.shapes import Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["SMALL", "frame", "legend", "legend_of_words", "legend_with_special", "small_text"]

SMALL = 10
"""Font size."""


def legend(scale: Scale, title: str, x: float, y: float, width: float) -> Iterator[Shape]:
    """The colours of a scale with its numbers under a title, 34 pixels high."""
    yield small_text(x, y + 9, fit(title, SMALL, width))
    yield from _scale_strip(scale, x, y + 13, width, opaque=True)


def _scale_strip(
    scale: Scale, x: float, y: float, width: float, *, opaque: bool = False
) -> Iterator[Shape]:
    values = np.array([[scale.value_at(k / 127) for k in range(128)]])
    if opaque:  # as `Scale.colour` is
        yield Rectangle(x, y, width, 8, "#ffffff")
    yield cells(values, scale, x, y, width, 8)
    yield frame(x, y, width, 8)
    ticks = (
        ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
        if scale.low < scale.high
        else ((0.0, "start"),)
    )
    for position, anchor in ticks:
        yield small_text(x + width * position, y + 19, f"{scale.value_at(position):.3g}", anchor)


def legend_with_special(
    scale: Scale, special: Sequence[str], y: float, width: float
) -> Iterator[Shape]:
    """The scale's strip, and beside it the special colours that the heat map has."""
    room = width - 46 * len(special)
    yield from _scale_strip(scale, 0, y, room)
    for number, name in enumerate(special):
        yield from _swatch(
            room + 10 + 46 * number,
            y,
            hex_colour(SPECIAL[name]) if name in SPECIAL else "none",
            name,
        )


def legend_of_words(words: Mapping[str, float], scale: Scale, y: float) -> Iterator[Shape]:
    """The colours of a few values, each with a word for it."""
    x = 0.0
    for word, value in words.items():
        yield from _swatch(x, y, scale.colour(value) if value else "none", word)
        x += 30 + text_width(word, SMALL)


def _swatch(x: float, y: float, colour: str, word: str) -> Iterator[Shape]:
    yield Rectangle(x, y, 9, 8, colour, LINE, 0.5)
    yield small_text(x + 13, y + 8, word)


def small_text(x: float, y: float, text: str, anchor: str = "start") -> Text:
    """A text beside a chart."""
    return Text(x, y, fit(text, SMALL, 600), SMALL, INK, anchor)


def frame(x: float, y: float, width: float, height: float) -> Rectangle:
    """The border of a picture."""
    return Rectangle(x, y, width, height, "none", LINE, 0.5)
