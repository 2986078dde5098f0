"""A `Drawing` printed as a matplotlib ``Figure``: for papers, and for pixels. One pixel of the drawing is one point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.display.svg.shapes import Cells, Circle, Drawing, Group, Path, Rectangle, Shape, Text

__all__ = ["to_figure"]

# In order of preference, with their scale: the last is wider than the room that `text_width` reserves.
_FONTS = {"Helvetica": 1.0, "Arial": 1.0, "Liberation Sans": 1.0, "DejaVu Sans": 0.88}
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}  # how much of a text is before its anchor


def to_figure(drawing: Drawing, *, outlines: bool = False) -> Any:
    """A ``Figure`` of the drawing's size, made without pyplot.

    Parameters
    ----------
    drawing : Drawing
    outlines : bool
        Whether texts are their letters' outlines, each text outlined once however often it stands there. As pixels that looks
        the same and is many times faster; as SVG or PDF it would be no text.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.width / 72, drawing.height / 72), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.set_axis_off()
    _Printer(axes, outlines).print(drawing.shapes, 0, 0)
    return figure


class _Printer:
    """Adds one shape after the other to the axes, each above those before it."""

    def __init__(self, axes: Any, outlines: bool) -> None:
        self._axes = axes
        self._outlined: dict[tuple[str, float, bool], _Outline] = {}
        self._level = 0
        self._fonts = list(_installed_fonts())
        self._kinds: dict[type, Callable[[Any, float, float], None]] = {
            Rectangle: self._rectangle,
            Circle: self._circle,
            Path: self._path,
            Text: self._outlines if outlines else self._text,
            Cells: self._cells,
        }

    def print(self, shapes: Iterable[Shape], x: float, y: float) -> None:
        """Add shapes whose origin is at x, y."""
        for shape in shapes:
            if isinstance(shape, Group):
                self.print(shape.shapes, x + shape.x, y + shape.y)
            else:
                self._level += 1
                self._kinds[type(shape)](shape, x, y)

    def _add(self, patch: Any) -> None:
        patch.set_clip_on(False)  # the axes are the whole figure
        self._axes.add_artist(patch)  # add_patch would find new limits each time, and they are set

    def _rectangle(self, shape: Rectangle, x: float, y: float) -> None:
        from matplotlib.patches import FancyBboxPatch

        radius = min(shape.radius, shape.width / 2, shape.height / 2)
        style = f"round,pad=0,rounding_size={radius}" if radius else "square,pad=0"
        corner = (x + shape.x, y + shape.y)
        self._add(
            FancyBboxPatch(
                corner, shape.width, shape.height, style, zorder=self._level, **_paint(shape)
            )
        )

    def _circle(self, shape: Circle, x: float, y: float) -> None:
        from matplotlib.patches import Circle as Patch

        centre = (x + shape.x, y + shape.y)
        self._add(
            Patch(
                centre,
                shape.radius,
                fill=False,
                ec=shape.stroke,
                lw=shape.stroke_width,
                zorder=self._level,
            )
        )

    def _path(self, shape: Path, x: float, y: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Outline

        codes = {"M": Outline.MOVETO, "L": Outline.LINETO, "C": Outline.CURVE4}
        vertices, kinds = [(0.0, 0.0)][:0], []
        for kind, numbers in shape.steps:
            if kind == "Z":
                vertices.append(vertices[-1])  # which matplotlib ignores
                kinds.append(Outline.CLOSEPOLY)
                continue
            for at in range(0, len(numbers), 2):
                vertices.append((x + numbers[at], y + numbers[at + 1]))
                kinds.append(codes[kind])
        if vertices:
            self._add(PathPatch(Outline(vertices, kinds), zorder=self._level, **_paint(shape)))

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
            rotation=90 if shape.upwards else 0,
            rotation_mode="anchor",
            family=self._fonts,
            parse_math=False,
            zorder=self._level,
        )

    def _outlines(self, shape: Text, x: float, y: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Outline

        key = shape.text, shape.size, shape.bold
        if key not in self._outlined:
            self._outlined[key] = _outline(*key, self._fonts)
        outline = self._outlined[key]
        if not len(outline.codes):  # nothing but spaces
            return
        across = outline.points[:, 0] - outline.width * _BEFORE[shape.anchor]
        up = outline.points[:, 1]
        right, down = (-up, -across) if shape.upwards else (across, -up)
        points = np.stack([right + (x + shape.x), down + (y + shape.y)], axis=1)
        self._add(
            PathPatch(Outline(points, outline.codes), zorder=self._level, fc=shape.fill, lw=0)
        )

    def _cells(self, shape: Cells, x: float, y: float) -> None:
        left, top = x + shape.x, y + shape.y
        self._axes.imshow(
            _colours_of(shape),
            extent=(left, left + shape.width, top + shape.height, top),
            aspect="auto",
            interpolation="nearest",
            zorder=self._level,
        )


@dataclass(frozen=True)
class _Outline:
    """The outline of a text that begins at the origin, with y upwards."""

    points: np.ndarray
    codes: np.ndarray
    width: float


def _outline(text: str, size: float, bold: bool, fonts: list[str]) -> _Outline:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    size *= _FONTS[fonts[0]]
    font = FontProperties(family=fonts, weight="bold" if bold else "normal", size=size)
    points, codes = text_to_path.get_text_path(font, text, ismath=False)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    scale = size / text_to_path.FONT_SCALE
    return _Outline(
        np.asarray(points, np.float64).reshape(-1, 2) * scale, np.asarray(codes, np.uint8), width
    )


def _colours_of(cells: Cells) -> np.ndarray:
    return np.asarray(cells.colours, np.uint8)[cells.pixels] if cells.colours else cells.pixels


def _installed_fonts() -> Iterator[str]:
    from matplotlib.font_manager import findfont

    for name in _FONTS:
        try:
            findfont(name, fallback_to_default=False)
        except ValueError:
            continue
        yield name


def _paint(shape: Rectangle | Path) -> dict[str, Any]:
    width = shape.stroke_width if shape.stroke != "none" else 0.0
    dashes = (0, shape.dashes) if shape.dashes and width else "solid"
    return {"fc": shape.fill, "ec": shape.stroke, "lw": width, "ls": dashes}
