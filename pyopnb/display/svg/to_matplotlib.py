"""A `Drawing` printed as a matplotlib ``Figure``. One pixel of the drawing is one point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pyopnb.display.svg.shapes import Cells, Circle, Drawing, Group, Path, Rectangle, Shape, Text

__all__ = ["to_figure"]

# In order of preference, with their scale: the last is wider than the room that `text_width` reserves.
_FONTS = {"Helvetica": 1.0, "Arial": 1.0, "Liberation Sans": 1.0, "DejaVu Sans": 0.88}
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


def to_figure(drawing: Drawing) -> Any:
    """Make a ``Figure`` of the drawing's size, without pyplot.

    Parameters
    ----------
    drawing : Drawing

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    # matplotlib counts in inches of 72 points.
    figure = Figure(figsize=(drawing.width / 72, drawing.height / 72), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.set_axis_off()
    _AxesPrinter(axes).print(drawing.shapes, 0, 0)
    return figure


class _AxesPrinter:
    """Adds one shape after the other to the axes, each above those before it."""

    def __init__(self, axes: Any) -> None:
        self._axes = axes
        self._level = 0
        self._fonts = _installed_fonts()

    def print(self, shapes: Iterable[Shape], x: float, y: float) -> None:
        """Add shapes whose origin is at x, y."""
        for shape in shapes:
            self._level += 1
            match shape:
                case Group():
                    self.print(shape.shapes, x + shape.x, y + shape.y)
                case Rectangle():
                    self._rectangle(shape, x, y)
                case Circle():
                    self._circle(shape, x, y)
                case Path():
                    self._path(shape, x, y)
                case Text():
                    self._text(shape, x, y)
                case Cells():
                    self._cells(shape, x, y)

    def _add(self, patch: Any) -> None:
        patch.set_clip_on(False)
        patch.set_zorder(self._level)
        # add_patch would look for new limits each time, and they are set.
        self._axes.add_artist(patch)

    def _rectangle(self, shape: Rectangle, x: float, y: float) -> None:
        from matplotlib.patches import FancyBboxPatch

        radius = min(shape.radius, shape.width / 2, shape.height / 2)
        style = "square,pad=0"
        if radius:
            style = f"round,pad=0,rounding_size={radius}"
        corner = (x + shape.x, y + shape.y)
        self._add(FancyBboxPatch(corner, shape.width, shape.height, style, **_paint(shape)))

    def _circle(self, shape: Circle, x: float, y: float) -> None:
        from matplotlib.patches import Circle as CirclePatch

        centre = (x + shape.x, y + shape.y)
        style = {"fill": False, "ec": shape.stroke, "lw": shape.stroke_width}
        self._add(CirclePatch(centre, shape.radius, **style))

    def _path(self, shape: Path, x: float, y: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Outline

        codes = {"M": Outline.MOVETO, "L": Outline.LINETO, "C": Outline.CURVE4}
        vertices: list[tuple[float, float]] = []
        outline = []
        for command, numbers in shape.steps:
            if command == "Z":
                # matplotlib needs a point for each code, and ignores this one.
                vertices.append(vertices[-1])
                outline.append(Outline.CLOSEPOLY)
                continue
            for at in range(0, len(numbers), 2):
                vertices.append((x + numbers[at], y + numbers[at + 1]))
                outline.append(codes[command])
        if vertices:
            self._add(PathPatch(Outline(vertices, outline), **_paint(shape)))

    def _text(self, shape: Text, x: float, y: float) -> None:
        self._axes.text(
            x + shape.x,
            y + shape.y,
            shape.text,
            color=shape.fill,
            size=shape.size * _FONTS[self._fonts[0]],
            weight="bold" if shape.bold else "normal",
            ha=_ALIGNMENTS[shape.anchor],
            va="baseline",
            family=self._fonts,
            parse_math=False,  # a name with two dollars is no formula
            zorder=self._level,
        )

    def _cells(self, shape: Cells, x: float, y: float) -> None:
        pixels = shape.pixels
        if shape.colours:
            pixels = np.asarray(shape.colours, np.uint8)[pixels]
        x, y = x + shape.x, y + shape.y
        self._axes.imshow(
            pixels,
            extent=(x, x + shape.width, y + shape.height, y),
            aspect="auto",
            interpolation="nearest",
            zorder=self._level,
        )


def _installed_fonts() -> list[str]:
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return [name for name in _FONTS if name in installed]


def _paint(shape: Rectangle | Path) -> dict[str, Any]:
    width = 0.0
    if shape.stroke != "none":
        width = shape.stroke_width
    dashes: str | tuple[int, tuple[float, ...]] = "solid"
    if shape.dashes and width:
        dashes = (0, shape.dashes)
    return {"fc": shape.fill, "ec": shape.stroke, "lw": width, "ls": dashes}
