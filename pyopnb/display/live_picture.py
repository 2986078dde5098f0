"""Pictures of graphs that answer where scripts run, and are plain images where they do not."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from pyopnb.display.html import image, pack
from pyopnb.display.svg.graph import Picture
from pyopnb.display.svg.shapes import Drawing, Group
from pyopnb.ops.text_table import row_key

__all__ = ["MOST_ANSWERS", "live_picture", "script"]

MOST_ANSWERS = 36_000
"""Bytes of what the boxes of one picture tell."""

_LINES = (99, 4, 1)  # of one box; fewer if these are too many bytes


def live_picture(picture: Picture, alt: str, *, max_height: int | None = None) -> str:
    """An image of a graph, with what its boxes tell; `script` is needed once beside all of them.

    A front end that does not trust the notebook removes the attribute and the script, and the image stays.

    Parameters
    ----------
    picture : Picture
    alt, max_height
        As of `image`.

    Returns
    -------
    str
    """
    element = image(picture.svg, alt, max_height=max_height)
    boxes = _boxes(picture.drawing)
    # As base64 no name of a model can end the attribute.
    return f'<div class="pyopnb-graph" data-boxes="{boxes}">{element}</div>' if boxes else element


def _boxes(drawing: Drawing) -> str:
    groups = [shape for shape in drawing.shapes if isinstance(shape, Group)]
    if not any(group.about for group in groups):
        return ""
    keys = [[row_key(name) for name in group.names] for group in groups]
    for lines in _LINES:
        abouts = ["\n".join(group.about.split("\n")[:lines]) for group in groups]
        packed = pack(json.dumps([*zip(abouts, keys, strict=True)], ensure_ascii=False).encode())
        if len(packed) <= MOST_ANSWERS:
            return packed
    return ""


@functools.cache
def script() -> str:
    """The element that lets the pictures in the element around it answer."""
    lines = (Path(__file__).parent / "live_picture.js").read_text("utf-8").splitlines()
    code = "\n".join(line.strip() for line in lines if not line.lstrip().startswith("//"))
    return f"<script>{code}</script>"
