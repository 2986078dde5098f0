"""The few shapes that every picture is made of.

A `Drawing` is a list of shapes from back to front, on a canvas whose origin is its upper left corner; one unit is a pixel of a
screen and a point on paper. `to_svg` and `to_matplotlib` print it, and know no more of it than what is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from pyopnb.display.svg.colours import RGB, RGBA
from pyopnb.display.svg.png import png

__all__ = [
    "Cells",
    "Circle",
    "Drawing",
    "Group",
    "Path",
    "PathStep",
    "Rectangle",
    "Shape",
    "Text",
    "drawing",
]

PathStep: TypeAlias = tuple[str, tuple[float, ...]]
"""A step of a path in absolute coordinates: M and L to a point, C by two control points to a point, Z back to the start."""


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


class Circle(NamedTuple):
    """A ring."""

    x: float
    y: float
    radius: float
    stroke: str
    stroke_width: float


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
    """A grid of coloured cells.

    Attributes
    ----------
    x, y, width, height : float
    pixels : ndarray
        uint8[rows, columns]: which of ``colours`` each cell has; or their RGB or RGBA, uint8[rows, columns, 3] or 4.
    colours : tuple
        At most 256, RGB or RGBA.
    png : bytes
        One pixel a cell.
    """

    x: float
    y: float
    width: float
    height: float
    pixels: np.ndarray
    colours: tuple[RGB | RGBA, ...] = ()

    @cached_property
    def png(self) -> bytes:
        return png(self.pixels, self.colours)


class Group(NamedTuple):
    """Shapes whose origin is moved to ``x, y``; ``about`` is for who points at them, and ``names`` are what they stand for."""

    x: float
    y: float
    shapes: tuple[Shape, ...]
    about: str = ""
    names: tuple[str, ...] = ()


Shape: TypeAlias = Rectangle | Circle | Path | Text | Cells | Group


@dataclass(frozen=True)
class Drawing:
    """Shapes from back to front on a canvas of a size.

    Attributes
    ----------
    width, height : int
    shapes : tuple of Shape
    title : str
        What it shows, for who cannot see it; may be empty.
    """

    width: int
    height: int
    shapes: tuple[Shape, ...]
    title: str = ""


def drawing(width: float, height: float, shapes: Iterable[Shape], title: str = "") -> Drawing:
    """Put shapes on a canvas of this size in whole pixels."""
    return Drawing(round(width), round(height), tuple(shapes), title)
