"""Views as files, in the format that the file's name ends in."""

from __future__ import annotations

import os
from pathlib import Path

from pyopnb.display.figures import figure_png
from pyopnb.display.html import document
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
        ``.png`` needs matplotlib.
    """
    if not is_path(path) or not Path(path).name:
        next_ = '"folder/file.html"'
        raise InputError("save, path", expected="a path", got=describe(path), next=next_)
    path = Path(path)
    suffix = path.suffix.lower()
    formats = _formats(view)
    if suffix not in formats:
        best = ".html"
        if ".svg" in formats:
            best = ".svg"
        raise InputError(
            f"save, {sanitize(type(view.thing).__name__)}",
            expected=f"a name that ends in {', '.join(formats)}",
            got=sanitize(path.name),
            next=f"save({sanitize(repr(str(path.with_suffix(best))))})",
        )
    # Before the picture is made, which can take a while.
    check_writable(path)
    data = _encode(view, suffix)
    with atomic_write(path) as file:
        file.stream.write(data)


def _formats(view: View) -> list[str]:
    formats = [".html"]
    if view.draw is not None:
        formats += [".svg", ".png"]
    # What can be written as JSON can be read back.
    if hasattr(view.thing, "to_json"):
        formats.append(".json")
    if hasattr(view.thing, "to_csv"):
        formats.append(".csv")
    return formats


def _encode(view: View, suffix: str) -> bytes:
    if suffix == ".png" and view.draw is not None:
        return figure_png(view.draw())
    if suffix == ".svg":
        return view.svg.encode()
    if suffix == ".json":
        return str(view.thing.to_json()).encode()
    if suffix == ".csv":
        return str(view.thing.to_csv()).encode()
    return document(view.title, view.body).encode()
