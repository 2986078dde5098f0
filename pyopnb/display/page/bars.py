"""Bars of text in the cells of tables."""

from __future__ import annotations

__all__ = ["bar_of"]

# A full bar has this many characters, each of which can be filled by eighths.
_LENGTH = 16
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar_of(value: float, largest: float) -> str:
    """Draw a number as a bar in proportion to the largest, or nothing if it rounds to 0.

    Examples
    --------
    >>> bar_of(8, 16), bar_of(0.5, 16), bar_of(0.001, 16)
    ('████████', '▌', '')
    """
    if not value > 0 or not largest > 0:
        return ""
    share = min(1.0, value / largest)
    full, eighths = divmod(round(8 * _LENGTH * share), 8)
    return "█" * full + _EIGHTHS[eighths].strip()
