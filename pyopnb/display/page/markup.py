"""HTML that survives in a saved and untrusted notebook, in light and dark themes.

Of such HTML a front end keeps text, ``<pre>``, tables, ``<details>``, inline styles, and
images whose data are in the page, so nothing here makes anything else; our classes and
attributes are for a script that a trusted notebook runs (`live_picture`). Colors of text and
background stay the theme's.
"""

from __future__ import annotations

import base64
import gzip
import html
import re
from collections.abc import Iterable

from pyopnb.common import Table, messages, plural, sanitize

__all__ = [
    "MAX_BYTES",
    "WRAP",
    "alert",
    "details",
    "document",
    "escape",
    "image",
    "join",
    "note",
    "pack",
    "paragraph",
    "pre",
    "source",
]

MAX_BYTES = 200_000
"""The size of one output of a notebook."""

WRAP = "white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"
"""Lines are wrapped between words; JupyterLab breaks lines of a ``<pre>`` inside words."""

_LONGEST_LINE = 2_000
_BLOCKS = re.compile("[ \u2580-\u259f]+")
_BORDER = "1px solid rgba(128,128,128,0.35)"
_PLAIN = "font-family:monospace;background:none;color:inherit"
_PRE = f"{_PLAIN};margin:0;{WRAP}"
_SOURCE = f"{_PLAIN};margin:6px 0;white-space:pre;overflow-x:auto"
_PAGE = "margin:2rem auto;max-width:75rem;padding:0 1rem;font:15px/1.5 system-ui,sans-serif"


def escape(text: object, longest: int = 200) -> str:
    r"""Escape untrusted text for HTML, cut and on one line, with control characters escaped.

    Examples
    --------
    >>> escape("<b>\x07")
    '&lt;b&gt;\\x07'
    """
    return html.escape(sanitize(text, longest).replace("\n", " "), quote=True)


def image(data: bytes | str, alt: str, *, max_height: int | None = None) -> str:
    """Make an image whose data are in the page.

    Parameters
    ----------
    data : bytes or str
        A PNG, or the text of an SVG.
    alt : str
        A sentence on its contents, for people who cannot see it.
    max_height : int, optional
        Put the image in its own size into a box of at most this height, which scrolls.
    """
    raw = data.encode() if isinstance(data, str) else data
    # A PNG begins with its signature; all else that is drawn is an SVG.
    mime = "image/svg+xml"
    if raw.startswith(b"\x89PNG"):
        mime = "image/png"
    style = "max-width:100%;height:auto;vertical-align:top"
    if max_height:
        style = "max-width:none"
    address = f"data:{mime};base64,{base64.b64encode(raw).decode()}"
    # A screen reader would read out every block of a histogram.
    words = escape(_BLOCKS.sub(" ", alt), 1000)
    element = f'<img src="{address}" alt="{words}" style="{style}">'
    if max_height:
        # The border shows where the picture is cut, also where scroll bars are hidden.
        box = f"overflow:auto;max-height:{max_height}px;border:{_BORDER}"
        return f'<div style="{box}">{element}</div>'
    return element


def pack(data: bytes) -> str:
    """Compress bytes and write them as Base64, which is safe anywhere in HTML and JSON."""
    # Without the time, so that the same model gives the same notebook.
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def pre(text: str) -> str:
    """Write preformatted text; long lines are cut."""
    lines = [sanitize(line, _LONGEST_LINE) for line in text.splitlines(keepends=True)]
    return f'<pre style="{_PRE}">{html.escape("".join(lines))}</pre>'


def source(text: str) -> str:
    """Write source code in a block that scrolls sideways."""
    return f'<pre style="{_SOURCE}">{html.escape(messages.sanitize_source(text))}</pre>'


def note(text: str) -> str:
    """Write a faint remark."""
    return f'<div style="opacity:0.7;font-size:90%">{escape(text, 1000)}</div>'


def alert(title: str, text: str) -> str:
    """Write an error under its title, with a red bar at its left."""
    style = "border-left:4px solid #c43b3b;padding-left:8px;margin:4px 0"
    return f'<div style="{style}" role="alert"><b>{escape(title)}</b>{pre(text)}</div>'


def paragraph(content: str) -> str:
    """Put some space above and below HTML."""
    return f'<div style="margin:8px 0">{content}</div>'


def details(summary: str, content: str, *, open: bool = False, key: str = "") -> str:
    """Fold HTML under a line of text; the box of a picture with the same ``key`` opens it."""
    element = "<details"
    if open:
        element += " open"
    if key:
        element += f' data-pyopnb="{Table.row_key(key)}"'
    return f"{element}><summary>{escape(summary)}</summary>{content}</details>"


def join(parts: Iterable[str], most: int = MAX_BYTES) -> str:
    """Join parts of HTML into one output of limited size; it says how many it leaves out."""
    kept: list[str] = []
    # The element around the parts and the remark below them need some room too.
    room = most - 250
    left_out = 0
    for part in parts:
        # A part that is too large is left out whole: cut HTML would spoil the rest.
        size = len(part.encode())
        if size <= room:
            kept.append(part)
            room -= size
        else:
            left_out += 1
    if left_out:
        verb = "are"
        if left_out == 1:
            verb = "is"
        count = plural(left_out, "more part")
        kept.append(note(f"{count} {verb} left out, to keep this output small"))
    return f'<div class="pyopnb-output">{"".join(kept)}</div>'


def document(title: str, body: str) -> str:
    """Write a page that loads nothing, and is light or dark like the reader's system."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title></head>\n"
        f'<body style="{_PAGE}">{body}</body></html>\n'
    )
