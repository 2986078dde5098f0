"""Pictures for the list of tutorials: each shows the first picture that its own notebook gave when the pages were built."""

from __future__ import annotations

import html
import re

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["add_pictures"]

PAGE = "tutorials"
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
    """Return the HTML of a page's first picture, or of the beginning of its first op or cell."""
    for node in page.findall():
        if isinstance(node, nodes.raw) and "html" in node.get("format", ""):
            match = re.search(r'<img[^>]*?src="(data:image/[^"]+)"', node.astext())
            if match and len(match[1]) > SMALLEST:
                return f'<img alt="" src="{match[1]}">'
        if isinstance(node, nodes.image) and node["uri"] in app.env.images:
            _, name = app.env.images[node["uri"]]
            return f'<img alt="" src="_images/{name}">'
    blocks = [block.astext() for block in page.findall(nodes.literal_block)]
    ops = [text for text in blocks if text.startswith("%%pyop")]
    text = next(iter([*ops, *blocks]), "")
    return f"<pre>{html.escape(chr(10).join(text.splitlines()[:LINES]))}</pre>"
