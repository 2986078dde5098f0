"""Views as files, in the format that the file's name ends in."""

from __future__ import annotations

import os
from pathlib import Path

from pyopnb.display.html import document
from pyopnb.display.plots import figure_png
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.ops.arguments import describe, is_path
from pyopnb.ops.atomic_write import atomic_write, check_writable
from pyopnb.ops.messages import sanitize

__all__ = ["write"]


def write(view: View, path: str | os.PathLike[str]) -> None:
    """Write a view; an existing file stays as it was until the new one is complete.

    Parameters
    ----------
    view : View
    path : str or os.PathLike

    Raises
    ------
    InputError
        This view cannot be written in the format that the name ends in.
    OSError
        The file cannot be written.
    PyopError
        A graph as ``.png`` needs matplotlib.
    """
    if not is_path(path) or not Path(path).name:
        raise InputError(
            "save, path", expected="a path", got=describe(path), next='"folder/file.html"'
        )
    path = Path(path)
    suffix = path.suffix.lower()
    formats = _formats(view)
    if suffix not in formats:
        other = ".svg" if ".svg" in formats else ".html"
        raise InputError(
            f"save, {sanitize(type(view.thing).__name__)}",
            expected=f"a name that ends in {', '.join(formats)}",
            got=sanitize(path.name),
            next=f"save({sanitize(repr(str(path.with_suffix(other))))})",
        )
    check_writable(path)
    data = _encode(view, suffix)
    with atomic_write(path) as file:
        file.stream.write(data)


def _formats(view: View) -> list[str]:
    pictures = [".svg", ".png"] if view.draw else []
    return [".html", *pictures, *([".json"] if hasattr(view.thing, "to_json") else [])]


def _encode(view: View, suffix: str) -> bytes:
    if suffix == ".png" and view.draw:
        return view.png or figure_png(view.draw())
    if suffix == ".svg":
        return view.svg.encode()
    text = view.thing.to_json() if suffix == ".json" else document(view.title, view.body)
    return str(text).encode()
