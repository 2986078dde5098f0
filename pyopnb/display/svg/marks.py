"""Marks of boxes and lines: their colours, signs and badges."""

from __future__ import annotations

from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["BADGE", "badge_text", "badge_width", "mark_colour", "plain_mark"]

BADGE = 9
"""Font size."""

# Colour and sign of each.
_MARKS = {
    "added": ("#1a7f37", "+"),
    "removed": ("#c4302b", "−"),
    "changed": ("#9a6700", "~"),
}
# A mark that begins with one of these is drawn like the word beside it.
_SIGNS = {"+": "added", "-": "removed"}
_UNKNOWN = ("#44546a", "")


def plain_mark(mark: str) -> str:
    """Return the mark whose look a mark has: of one with a sign ``added`` or ``removed``, else itself.

    Examples
    --------
    >>> plain_mark("-fused"), plain_mark("changed"), plain_mark("-0.5")
    ('removed', 'changed', '-0.5')
    """
    if mark[1:2].isalpha():
        return _SIGNS.get(mark[:1], mark)
    return mark


def mark_colour(mark: str) -> str:
    """Return the colour of a mark, as ``#rrggbb``."""
    return _MARKS.get(plain_mark(mark), _UNKNOWN)[0]


def badge_width(mark: str) -> float:
    """Measure how much room a mark takes beside the title of its box, in pixels."""
    if mark:
        return text_width(badge_text(mark), BADGE, bold=True) + 16
    return 0


def badge_text(mark: str) -> str:
    """Write what the badge of a mark says."""
    plain = plain_mark(mark)
    sign = _MARKS.get(plain, _UNKNOWN)[1]
    # The sign of a mark such as +fused is drawn before it.
    word = mark if plain == mark else mark[1:]
    return f"{sign} {fit(word, BADGE, 90, bold=True)}".strip()
