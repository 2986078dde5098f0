"""A view of a thing: its text, its HTML, and its picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onnx import ModelProto, NodeProto

from pyopnb.display.svg.cells import cells_png
from pyopnb.display.svg.colours import Scale
from pyopnb.display.svg.shapes import Cells, Drawing
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.ops.displayable import Displayable

__all__ = ["Canvas", "View"]


@dataclass(frozen=True)
class Canvas:
    """The graph of a view, for others who draw it.

    Attributes
    ----------
    model : ModelProto
    nodes : tuple of (NodeProto, str, str)
        Nodes of it with their colours as ``#rrggbb``, which may be empty, and what is known of them.
    scale : Scale or None
        What the colours mean, and ``legend`` of what.
    legend : str
    """

    model: ModelProto
    nodes: tuple[tuple[NodeProto, str, str], ...]
    scale: Scale | None
    legend: str


@dataclass(frozen=True, repr=False)
class View(Displayable):
    """What `pyopnb.show` returns: text at a prompt, HTML in a notebook, and files through ``save``.

    Attributes
    ----------
    thing : object
        What is shown.
    title : str
        One line that says what it is.
    text : str
    body : str
        HTML that survives in a saved and untrusted notebook.
    draw : callable, optional
        Makes the picture, where there is one.
    image : Cells, optional
        The heat map of an array or diff, without any words.
    canvas : Canvas, optional
        The graph in it, which `pyopnb.netron` shows in the same colours.
    svg : str
        The picture; empty if there is none.
    png : bytes
        The heat map as a PNG; empty if there is none.
    """

    thing: Any
    title: str
    text: str
    body: str
    draw: Callable[[], Drawing] | None = None
    image: Cells | None = None
    canvas: Canvas | None = None

    @cached_property
    def svg(self) -> str:
        return to_svg(self.draw()) if self.draw else ""

    @cached_property
    def png(self) -> bytes:
        return cells_png(self.image) if self.image else b""

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__
