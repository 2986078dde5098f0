"""HTML that survives in a saved notebook that nobody trusts, in light and dark themes.

What a notebook's front end keeps of such HTML is text, ``<pre>``, tables, ``<details>``, inline styles, and pictures that lie
in the page itself. So nothing here makes anything else. Colours of text and ground stay the theme's.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable

from pyopnb.ops.errors import sanitize

__all__ = ["LARGEST", "details", "escaped", "image", "length_of_image", "note", "page", "pre"]

LARGEST = 200_000
"""Bytes that one output of a notebook may have."""

_KINDS = {b"\x89PNG": "image/png"}
_PRE = "font-family:monospace;margin:0;white-space:pre-wrap;background:none;color:inherit"


def escaped(text: object, longest: int = 200) -> str:
    r"""Text of anybody's for HTML or SVG: cut, its control characters as escapes, on one line.

    Examples
    --------
    >>> escaped("<b>\x07")
    '&lt;b&gt;\\x07'
    """
    return html.escape(sanitize(text, longest).replace("\n", " "), quote=True)


def image(data: bytes | str, alt: str, *, width: int | None = None, tall: int | None = None) -> str:
    """A picture in the page itself.

    Parameters
    ----------
    data : bytes or str
        A PNG, or the text of an SVG.
    alt : str
        What it shows, as a sentence.
    width : int, optional
        In pixels; the picture's own without it. It is never wider than its cell.
    tall : int, optional
        The height from which on it is in a box that scrolls, and keeps its own width there.
    """
    raw = data.encode() if isinstance(data, str) else data
    kind = _KINDS.get(raw[:4], "image/svg+xml")
    size = f' width="{width}"' if width else ""
    style = "max-width:none" if tall else "max-width:100%;height:auto"
    source = base64.b64encode(raw).decode()
    made = f'<img src="data:{kind};base64,{source}" alt="{escaped(alt, 1000)}"{size} style="{style}">'
    return f'<div style="overflow:auto;max-height:{tall}px">{made}</div>' if tall else made


def length_of_image(data: bytes | str) -> int:
    """How long `image` makes a picture, at most, its text left out."""
    return 4 * (len(data.encode() if isinstance(data, str) else data) + 2) // 3 + 300


def pre(text: str) -> str:
    """Text as it is, lines kept."""
    return f'<pre style="{_PRE}">{html.escape("".join(sanitize(line, 2000) for line in text.splitlines(keepends=True)))}</pre>'


def note(text: str) -> str:
    """A remark below something."""
    return f'<div style="opacity:0.7;font-size:90%">{escaped(text, 1000)}</div>'


def details(summary: str, content: str, *, open: bool = False) -> str:
    """HTML folded under a line of text."""
    return f"<details{' open' if open else ''}><summary>{escaped(summary)}</summary>{content}</details>"


def page(parts: Iterable[str], most: int = LARGEST) -> str:
    """Parts of HTML as one output; those that would make it too large are left out, and it says how many."""
    made: list[str] = []
    length = len("<div></div>") + 200
    left = 0
    for part in parts:
        size = len(part.encode())
        if length + size <= most:
            made.append(part)
            length += size
        else:
            left += 1
    if left:
        made.append(note(f"{left} more {'part is' if left == 1 else 'parts are'} left out, to keep this output small"))
    return f"<div>{''.join(made)}</div>"
