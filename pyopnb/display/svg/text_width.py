"""The width of text, estimated without a font, which layout needs before anything is drawn."""

from __future__ import annotations

import unicodedata
from functools import cache

from pyopnb.common import sanitize

__all__ = ["FONT", "fit", "text_width"]

FONT = "Helvetica,Arial,'Liberation Sans',sans-serif"
"""Sans-serif fonts with the same metrics; another that replaces them is at most slightly wider."""

# The widths of letters, as parts of the font's size.
_EM = {
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
# Helvetica needs 1.08; DejaVu Sans, which many Linux machines have instead, is
# wider when it is bold.
_BOLD = 1.2
_LOWER, _UPPER, _FULL_WIDTH, _OTHER = 0.58, 0.76, 1.05, 0.9


@cache
def _width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.combining(letter):
        return 0.0
    if ord(letter) < 0x250:
        if letter.islower() or letter.isdigit() or letter == "_":
            return _LOWER
        return _UPPER
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL_WIDTH
    return _OTHER


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text in pixels, rather too large than too small."""
    width = sum(map(_width, text)) * size
    if bold:
        return width * _BOLD
    return width


def fit(text: str, size: float, width: float, *, bold: bool = False) -> str:
    r"""Cut untrusted text to a width in pixels, on one line, its control characters escaped.

    Examples
    --------
    >>> fit("a long\nname", 10, 40)
    'a long…'
    """
    line = sanitize(text[:400], 400).replace("\n", " ")
    if text_width(line, size, bold=bold) <= width and len(text) <= 400:
        return line
    room = width - text_width("…", size, bold=bold)
    for at, letter in enumerate(line):
        room -= text_width(letter, size, bold=bold)
        if room < 0:
            return line[:at].rstrip() + "…"
    return line + "…"
