"""Views as files: what kind of file, its name's ending says."""

from __future__ import annotations

import os
from pathlib import Path

from pyopnb.display.html import escaped
from pyopnb.display.plots import pixels
from pyopnb.display.view import View
from pyopnb.ops.atomic_write import atomic_write
from pyopnb.ops.errors import FeedError, sanitize

__all__ = ["write"]

_ENDINGS = (".html", ".svg", ".png", ".json")


def write(view: View, path: str | os.PathLike[str]) -> None:
    """Write a view; a file that is there stays as it was until the new one is whole.

    Raises
    ------
    FeedError
        The name's ending is none that this view can be written as.
    PyopError
        A graph as ``.png`` needs matplotlib.
    """
    path = Path(path)
    ending = path.suffix.lower()
    can = _can(view)
    if ending not in can:
        raise FeedError(
            f"save, {sanitize(type(view.thing).__name__)}",
            expected=f"a name that ends in {', '.join(can)}",
            got=sanitize(path.name),
            next=_instead(ending, can, path),
        )
    data = _written(view, ending)
    with atomic_write(path) as file:
        file.stream.write(data)


def _can(view: View) -> list[str]:
    held = {".svg": bool(view.svg), ".png": bool(view.png or view.svg), ".json": hasattr(view.thing, "to_json")}
    return [ending for ending in _ENDINGS if held.get(ending, True)]


def _instead(ending: str, can: list[str], path: Path) -> str:
    other = ".svg" if ".svg" in can and ending != ".svg" else ".html"
    return f"save({sanitize(repr(str(path.with_suffix(other))))})"


def _written(view: View, ending: str) -> bytes:
    if ending == ".svg":
        return view.svg.encode()
    if ending == ".png":
        return view.png or pixels(view.svg)
    if ending == ".json":
        return str(view.thing.to_json()).encode()
    return _page(view).encode()


def _page(view: View) -> str:
    """A page of its own: it needs nothing that is not in it, and is light or dark as the reader's system is."""
    style = "margin:2rem auto;max-width:75rem;padding:0 1rem;font:15px/1.5 system-ui,sans-serif"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(view.title)}</title></head>\n"
        f'<body style="{style}">{view.body}</body></html>\n'
    )
