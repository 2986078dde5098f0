"""Views as files, in the format that the file's name ends in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pyopnb.common import file_writes, sanitize
from pyopnb.display.model_explorer import node_data
from pyopnb.display.page.markup import document
from pyopnb.display.svg.to_matplotlib import figure_png
from pyopnb.display.views import View
from pyopnb.engine import argument_checks
from pyopnb.errors import InputError

__all__ = ["write"]

_NODES = ".nodes.json"


def write(view: View, path: str | os.PathLike[str]) -> None:
    """Write a view; an existing file stays as it was until the new one is complete.

    Raises
    ------
    InputError
        This view cannot be written in the format that the name ends in.
    OSError
        The file cannot be written.
    PyopError
        ``.png`` needs matplotlib.
    """
    if not argument_checks.is_path(path) or not Path(path).name:
        next_ = '"folder/file.html"'
        raise InputError(
            "save, path", expected="a path", got=argument_checks.describe(path), next=next_
        )
    path = Path(path)
    suffix = path.suffix.lower()
    if path.name.lower().endswith(_NODES):
        suffix = _NODES
    drawing, thing, canvas = view.draw, view.thing, view.canvas
    writers: dict[str, Callable[[], str | bytes]] = {
        ".html": lambda: document(view.title, view.body)
    }
    if drawing is not None:
        writers[".svg"] = lambda: view.svg
        writers[".png"] = lambda: figure_png(drawing())
    for ending in (".json", ".csv"):
        # Anything that can be written as JSON can be read back.
        method = getattr(thing, f"to_{ending[1:]}", None)
        if method is not None:
            writers[ending] = method
    if canvas is not None and any(color for _, _, color, _ in canvas.nodes):
        # Without colors, as in the plain graph of a model, the file would be empty.
        writers[_NODES] = lambda: node_data(canvas)
    if suffix not in writers:
        where = f"save, {type(thing).__name__}"
        expected = f"a name that ends in {', '.join(writers)}"
        best = ".html"
        if ".svg" in writers:
            best = ".svg"
        next_ = f"save({sanitize(repr(str(path.with_suffix(best))))})"
        raise InputError(where, expected=expected, got=path.name, next=next_)
    # Before the picture is made, which can take a while.
    file_writes.check_writable(path)
    data = writers[suffix]()
    with file_writes.atomic_write(path) as file:
        file.stream.write(data.encode() if isinstance(data, str) else data)
