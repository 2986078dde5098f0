"""A `Drawing` printed as a matplotlib ``Figure``, one pixel as one point, and as a PNG.

matplotlib is imported when the first figure is asked for, and used without pyplot:
nothing global is touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyopnb.display.svg.shapes import Cells, Drawing, Group, Path, Rectangle, Shape, Text
from pyopnb.errors import PyopError

__all__ = ["figure_png", "to_figure"]

# In order of preference, with their scale: the last is wider than the room that
# `text_width` reserves.
_FONTS = {"Helvetica": 1.0, "Arial": 1.0, "Liberation Sans": 1.0, "DejaVu Sans": 0.88}
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


def to_figure(drawing: Drawing) -> Any:
    """Make a ``Figure`` of the drawing's size.

    Returns
    -------
    ShownFigure

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    try:
        from pyopnb.display.svg.figure import ShownFigure
    except ImportError as error:
        raise PyopError("plot needs matplotlib", next="pip install pyopnb[plot]") from error

    # matplotlib counts in inches of 72 points.
    figure = ShownFigure(figsize=(drawing.width / 72, drawing.height / 72), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.set_axis_off()
    _AxesPrinter(axes).print(drawing.shapes, 0, 0)
    return figure


def figure_png(drawing: Drawing) -> bytes:
    """Write a drawing as a PNG of twice its size, or smaller if that were too large.

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    return bytes(to_figure(drawing).png())


class _AxesPrinter:
    """Adds one shape after the other to the axes, each on top of the earlier ones."""

    def __init__(self, axes: Any) -> None:
        from matplotlib.font_manager import get_font_names

        self._axes = axes
        self._level = 0
        self._fonts = [name for name in _FONTS if name in get_font_names()]

    def print(self, shapes: Iterable[Shape], x: float, y: float) -> None:
        """Add shapes whose origin is at x, y."""
        from matplotlib.patches import FancyBboxPatch, PathPatch

        for shape in shapes:
            self._level += 1
            match shape:
                case Group():
                    self.print(shape.shapes, x + shape.x, y + shape.y)
                case Rectangle():
                    radius = min(shape.radius, shape.width / 2, shape.height / 2)
                    style = "square,pad=0"
                    if radius:
                        style = f"round,pad=0,rounding_size={radius}"
                    corner = (x + shape.x, y + shape.y)
                    size = (shape.width, shape.height)
                    self._add(FancyBboxPatch(corner, *size, style, **_paint(shape)))
                case Path() if shape.steps:
                    self._add(PathPatch(_outline(shape, x, y), **_paint(shape)))
                case Text():
                    self._text(shape, x + shape.x, y + shape.y)
                case Cells():
                    x_low, y_low = x + shape.x, y + shape.y
                    self._axes.imshow(
                        shape.pixels,
                        extent=(x_low, x_low + shape.width, y_low + shape.height, y_low),
                        aspect="auto",
                        interpolation="nearest",
                        zorder=self._level,
                    )

    def _add(self, patch: Any) -> None:
        patch.set_clip_on(False)
        patch.set_zorder(self._level)
        # add_patch would compute limits each time, although they are set already.
        self._axes.add_artist(patch)

    def _text(self, shape: Text, x: float, y: float) -> None:
        # Each font is looked up for each text, and the first has all of ASCII.
        fonts = self._fonts[:1] if shape.text.isascii() else self._fonts
        self._axes.text(
            x,
            y,
            shape.text,
            color=shape.fill,
            size=shape.size * _FONTS[self._fonts[0]],
            weight="bold" if shape.bold else "normal",
            ha=_ALIGNMENTS[shape.anchor],
            va="baseline",
            family=fonts,
            parse_math=False,  # a name with two dollars is no formula
            zorder=self._level,
        )


def _outline(shape: Path, x: float, y: float) -> Any:
    from matplotlib.path import Path as Outline

    codes = {"M": Outline.MOVETO, "L": Outline.LINETO, "C": Outline.CURVE4}
    vertices: list[tuple[float, float]] = []
    outline = []
    for command, numbers in shape.steps:
        if command == "Z":
            # matplotlib needs a point for each code, and ignores this one.
            vertices.append(vertices[-1])
            outline.append(Outline.CLOSEPOLY)
        for at in range(0, len(numbers), 2):
            vertices.append((x + numbers[at], y + numbers[at + 1]))
            outline.append(codes[command])
    return Outline(vertices, outline)


def _paint(shape: Rectangle | Path) -> dict[str, Any]:
    width = 0.0
    if shape.stroke != "none":
        width = shape.stroke_width
    dashes: str | tuple[int, tuple[float, ...]] = "solid"
    if shape.dashes and width:
        dashes = (0, shape.dashes)
    return {"fc": shape.fill, "ec": shape.stroke, "lw": width, "ls": dashes}
