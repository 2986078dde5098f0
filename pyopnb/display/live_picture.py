"""Pictures of graphs that answer clicks where scripts run, and are plain images elsewhere."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from pyopnb.common import Table
from pyopnb.display.page.markup import image, pack
from pyopnb.display.svg.shapes import Drawing, Group
from pyopnb.display.svg.to_svg import to_svg

__all__ = ["live_picture", "script"]


def live_picture(drawing: Drawing, alt: str, *, max_height: int | None = None, at: int = 0) -> str:
    """Make an image of a graph that holds the texts of its boxes.

    `script` is needed once beside all such images. A front end that does not trust the notebook
    removes the attribute and the script, and the image stays.

    Parameters
    ----------
    alt, max_height
        As for `image`.
    at : int
        The box that is seen first of a picture that scrolls.
    """
    element = image(to_svg(drawing, titles=False), alt, max_height=max_height)
    boxes = _boxes(drawing)
    if not boxes:
        return element
    # As base64 no name of a model can end the attribute.
    return f'<div class="pyopnb-graph" data-boxes="{boxes}" data-at="{at}">{element}</div>'


def _boxes(drawing: Drawing) -> str:
    """Pack the card of each box, and the rows of tables that are about it."""
    groups = [shape for shape in drawing.shapes if isinstance(shape, Group)]
    if not any(group.about for group in groups):
        return ""
    boxes = [(group.about, list(map(Table.row_key, group.names))) for group in groups]
    return pack(json.dumps(boxes, ensure_ascii=False).encode())


@functools.cache
def script(file: str = "live_picture.js") -> str:
    """Write the element that lets the pictures in the element around it answer."""
    text = (Path(__file__).parent / file).read_text("utf-8")
    lines = []
    for line in text.splitlines():
        if not line.lstrip().startswith("//"):
            lines.append(line.strip())
    return f"<script>{chr(10).join(lines)}</script>"
