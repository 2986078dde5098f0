"""The few shapes that every picture is made of.

A `Drawing` is a list of shapes from back to front, on a canvas whose origin is its upper left
corner; one unit is a pixel of a screen and a point on paper. `to_svg` and `to_matplotlib` print it,
and know nothing else about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from pyopnb.display.svg.png import png

__all__ = ["Cells", "Drawing", "Group", "Path", "PathStep", "Rectangle", "Shape", "Text", "ring"]

PathStep: TypeAlias = tuple[str, tuple[float, ...]]
"""A step of a path in absolute coordinates.

M and L lead to a point, C by two control points to a point, and Z back to the start.
"""


class Rectangle(NamedTuple):
    """``radius`` rounds the corners; ``dashes`` are lengths of strokes and gaps."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1
    dashes: tuple[float, ...] = ()
    radius: float = 0


def ring(x: float, y: float, radius: float, stroke: str) -> Rectangle:
    """Draw a ring around a point, whose stroke is as wide as its radius."""
    side = 2 * radius
    return Rectangle(x - radius, y - radius, side, side, "none", stroke, radius, radius=radius)


class Path(NamedTuple):
    """Lines and curves, as one stroke or one area."""

    steps: tuple[PathStep, ...]
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1
    dashes: tuple[float, ...] = ()


class Text(NamedTuple):
    """A line of text on the baseline ``y``; ``anchor`` is ``start``, ``middle`` or ``end``."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True)
class Cells:
    """A grid of colored cells: ``pixels`` are their RGB or RGBA, uint8[rows, columns, 3] or 4.

    ``values`` are their numbers, if they are of a heat map, and ``name`` is its index.
    """

    x: float
    y: float
    width: float
    height: float
    pixels: np.ndarray
    values: np.ndarray | None = None
    name: str = ""

    @cached_property
    def png(self) -> bytes:
        return png(self.pixels)


class Group(NamedTuple):
    """Shapes whose origin is moved to ``x, y``.

    ``about`` is shown to a reader who points at them, and ``names`` are the nodes or tensors.
    """

    x: float
    y: float
    shapes: tuple[Shape, ...]
    about: str = ""
    names: tuple[str, ...] = ()


Shape: TypeAlias = Rectangle | Path | Text | Cells | Group


class Drawing(NamedTuple):
    """Shapes on a canvas of whole pixels.

    ``title`` describes them for people who cannot see them, and may be empty.
    """

    width: int
    height: int
    shapes: tuple[Shape, ...]
    title: str = ""
