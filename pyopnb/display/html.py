"""HTML that survives in a saved and untrusted notebook, in light and dark themes.

Of such HTML a front end keeps text, ``<pre>``, tables, ``<details>``, inline styles, and images whose data are in the page, so
nothing here makes anything else; classes and attributes of ours are for a script that a trusted notebook runs (`live_picture`).
Colours of text and background stay the theme's.
"""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Iterable

from pyopnb.ops.messages import sanitize, sanitize_source

__all__ = [
    "MAX_BYTES",
    "WRAP",
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
"""Lines are wrapped between words; JupyterLab breaks those of a ``<pre>`` inside words."""

_PRE = f"font-family:monospace;margin:0;{WRAP};background:none;color:inherit"
_SOURCE = "font-family:monospace;margin:6px 0;white-space:pre;overflow-x:auto;background:none;color:inherit"


def escape(text: object, longest: int = 200) -> str:
    r"""Untrusted text for HTML: cut, on one line, its control characters as escapes.

    Examples
    --------
    >>> escape("<b>\x07")
    '&lt;b&gt;\\x07'
    """
    return html.escape(sanitize(text, longest).replace("\n", " "), quote=True)


def image(
    data: bytes | str, alt: str, *, width: int | None = None, max_height: int | None = None
) -> str:
    """An image whose data are in the page.

    Parameters
    ----------
    data : bytes or str
        A PNG, or the text of an SVG.
    alt : str
        What it shows, as a sentence.
    width : int, optional
        In pixels; by default the image's own. It is never wider than its cell.
    max_height : int, optional
        Put the image in its own size into a box of at most this height, which scrolls.

    Returns
    -------
    str
    """
    raw = data.encode() if isinstance(data, str) else data
    kind = "image/png" if raw.startswith(b"\x89PNG") else "image/svg+xml"
    size = f' width="{width}"' if width else ""
    style = "max-width:none" if max_height else "max-width:100%;height:auto"
    source = base64.b64encode(raw).decode()
    element = (
        f'<img src="data:{kind};base64,{source}" alt="{escape(alt, 1000)}"{size} style="{style}">'
    )
    return (
        f'<div style="overflow:auto;max-height:{max_height}px">{element}</div>'
        if max_height
        else element
    )


def pack(data: bytes) -> str:
    """Bytes compressed and as Base64, which is safe anywhere in HTML and JSON."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def pre(text: str) -> str:
    """Preformatted text; long lines are cut."""
    return f'<pre style="{_PRE}">{html.escape("".join(sanitize(line, 2000) for line in text.splitlines(keepends=True)))}</pre>'


def source(text: str) -> str:
    """Source code, whole, in a block that scrolls sideways."""
    return f'<pre style="{_SOURCE}">{html.escape(sanitize_source(text))}</pre>'


def note(text: str) -> str:
    """A faint remark."""
    return f'<div style="opacity:0.7;font-size:90%">{escape(text, 1000)}</div>'


def paragraph(content: str) -> str:
    """HTML with some space above and below."""
    return f'<div style="margin:8px 0">{content}</div>'


def details(summary: str, content: str, *, open: bool = False) -> str:
    """HTML folded under a line of text."""
    return (
        f"<details{' open' if open else ''}><summary>{escape(summary)}</summary>{content}</details>"
    )


def join(parts: Iterable[str], most: int = MAX_BYTES) -> str:
    """Parts of HTML as one output of at most so many bytes; it says how many parts it leaves out."""
    kept: list[str] = []
    length = len('<div class="pyopnb-output"></div>') + 200
    left_out = 0
    for part in parts:
        size = len(part.encode())
        if length + size <= most:
            kept.append(part)
            length += size
        else:
            left_out += 1
    if left_out:
        kept.append(
            note(
                f"{left_out} more {'part is' if left_out == 1 else 'parts are'} left out, to keep this output small"
            )
        )
    return f'<div class="pyopnb-output">{"".join(kept)}</div>'


def document(title: str, body: str) -> str:
    """A page of its own, which loads nothing, and is light or dark like the reader's system."""
    style = "margin:2rem auto;max-width:75rem;padding:0 1rem;font:15px/1.5 system-ui,sans-serif"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title></head>\n"
        f'<body style="{style}">{body}</body></html>\n'
    )
