"""How wide a text is, without a font: what a picture needs to know before it is drawn."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache

from pyopnb.ops.errors import sanitize

__all__ = ["FONT", "fitted", "width"]

FONT = "Helvetica,Arial,'Liberation Sans',sans-serif"
"""Sans-serif faces whose letters are equally wide; another face that takes their place is at most a little wider."""

_EM = {  # parts of the font's size
    0.24: "'ijl|",
    0.30: "!,./:;I[\\]ft ⟨⟩·",
    0.36: '"()*`r{}-',
    0.53: "Jckszvxy^°",
    0.70: "ABEKPSVXY&",
    0.76: "CDHNRUw+<=>~±×−→",
    0.82: "GOQT",
    0.90: "mM%…—",
    1.02: "W@",
}
_WIDTHS = {letter: em for em, letters in _EM.items() for letter in letters}
_OTHER, _WIDE = 0.58, 1.05


@cache
def _width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.combining(letter):
        return 0.0
    if ord(letter) < 0x250:
        return _OTHER if letter.islower() or letter.isdigit() or letter == "_" else 0.76
    return _WIDE if unicodedata.east_asian_width(letter) in "WF" else 0.9


def width(text: str, size: float, *, bold: bool = False) -> float:
    """A text's width in pixels, rather too much than too little."""
    return sum(map(_width, text)) * size * (1.08 if bold else 1.0)


@lru_cache(2048)  # a network says the same things again and again
def fitted(text: str, size: float, most: float, *, bold: bool = False) -> str:
    r"""A text of anybody's on one line, cut to a width, its control characters as escapes.

    Examples
    --------
    >>> fitted("a long\nname", 10, 40)
    'a long…'
    """
    line = sanitize(text[:400], 400).replace("\n", " ")
    if width(line, size, bold=bold) <= most and len(text) <= 400:
        return line
    left = most - width("…", size, bold=bold)
    for place, letter in enumerate(line):
        left -= width(letter, size, bold=bold)
        if left < 0:
            return line[:place].rstrip() + "…"
    return line + "…"
