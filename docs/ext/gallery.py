"""Illustrate the list of tutorials with pictures that their notebooks gave in this build."""

from __future__ import annotations

import base64
import html
import re

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["add_pictures"]

PAGE = "tutorials"
TAG = "gallery"
"""The tag of the cell whose picture shows the point of a tutorial."""
SMALLEST = 1500  # characters of a picture's data; a sparkline in a line of text has less
LINES = 9


def add_pictures(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a picture above each entry of the page of tutorials."""
    if docname != PAGE:
        return
    for item in list(doctree.findall(nodes.list_item)):
        target = _tutorial(item)
        if target is None:
            continue
        item.parent["classes"] = [*item.parent["classes"], "gallery"]
        picture = _picture(app, app.env.get_doctree(f"{PAGE}/{target}"))
        item.insert(0, nodes.raw("", f'<div class="preview">{picture}</div>', format="html"))


def _tutorial(item: nodes.list_item) -> str | None:
    """Return the tutorial that an entry's first link leads to, or None."""
    for reference in item.findall(nodes.reference):
        match = re.search(rf"{PAGE}/(\w+)\.html", reference.get("refuri", ""))
        if match:
            return match[1]
    return None


def _picture(app: Sphinx, page: nodes.document) -> str:
    """Return the HTML of the picture of a page's tagged cell, or of the next best.

    That is the first wide picture of the page, its first tall one, or else the text of its first
    op, or else of its first cell.
    """
    tagged = [cell for cell in page.findall(nodes.container) if f"tag_{TAG}" in cell["classes"]]
    # What shows the point is shown whole; of others, a part that fills the card.
    kind = ' class="whole"' if tagged else ""
    tall = ""
    for node in (tagged[0] if tagged else page).findall():
        if isinstance(node, nodes.raw) and "html" in node.get("format", ""):
            match = re.search(r'<img[^>]*?src="(data:image/[^"]+)"', node.astext())
            if match and len(match[1]) > SMALLEST:
                if _is_wide(match[1]):
                    return f'<img{kind} alt="" src="{match[1]}">'
                tall = tall or f'<img class="tall" alt="" src="{match[1]}">'
        # Pillow gives a picture as PNG and as JPEG, in any order; pages show the PNG,
        # and only it is copied.
        is_shown = isinstance(node, nodes.image) and not node["uri"].endswith(".jpg")
        if is_shown and node["uri"] in app.env.images:
            _, name = app.env.images[node["uri"]]
            return f'<img{kind} alt="" src="_images/{name}">'
    if tall:
        return tall
    blocks = [block.astext() for block in page.findall(nodes.literal_block)]
    ops = [text for text in blocks if text.startswith("%%pyop")]
    text = next(iter([*ops, *blocks]), "")
    return f"<pre>{html.escape(chr(10).join(text.splitlines()[:LINES]))}</pre>"


def _is_wide(data: str) -> bool:
    """Tell whether a picture is wider than high.

    Of a tall graph, a card would show only the first node.
    """
    drawing = base64.b64decode(data.partition(",")[2])
    size = re.search(rb'width="([\d.]+)" height="([\d.]+)"', drawing)
    return size is not None and float(size[1]) > float(size[2])
