"""A `Drawing` printed as SVG.

The text stands alone: it loads nothing and runs nothing. Groups that look alike are written once and used, styles of text are
classes, and paths are relative, so that thousands of nodes stay small.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from pyopnb.display.svg.shapes import (
    Cells,
    Circle,
    Drawing,
    Group,
    Path,
    Rectangle,
    Shape,
    Step,
    Text,
)
from pyopnb.display.svg.text_width import FONT

__all__ = ["to_svg"]


def to_svg(drawing: Drawing, *, titles: bool = True) -> str:
    r"""The whole text of an SVG.

    Parameters
    ----------
    drawing : Drawing
    titles : bool
        Whether what groups are about becomes their titles, which a browser shows where the mouse is. In an ``<img>`` none does.

    Returns
    -------
    str

    Examples
    --------
    >>> to_svg(Drawing(8, 8, (Rectangle(0, 0, 8, 8, "#ffffff"),))).partition("<rect ")[2]
    'width="8" height="8" fill="#ffffff"/></svg>'
    """
    printer = _Printer()
    parts = [(shape, printer.body(shape)) for shape in drawing.shapes]
    abouts = [
        f"<title>{escape(shape.about)}</title>"
        if titles and isinstance(shape, Group) and shape.about
        else ""
        for shape, _ in parts
    ]
    uses = Counter(body for shape, body in parts if isinstance(shape, Group))
    ids = {
        body: f"b{number:x}"
        for number, body in enumerate(body for body, count in uses.items() if count > 1)
    }
    definitions = "".join(f'<g id="{name}">{body}</g>' for body, name in ids.items())
    width, height = drawing.width, drawing.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}">{f"<title>{escape(drawing.title)}</title>" if drawing.title else ""}'
        f"{printer.style_sheet()}{f'<defs>{definitions}</defs>' if ids else ''}"
        f"{''.join([_placed(shape, body, ids, about) for (shape, body), about in zip(parts, abouts, strict=True)])}</svg>"
    )


def _placed(shape: Shape, body: str, ids: dict[str, str], about: str = "") -> str:
    if not isinstance(shape, Group):
        return body
    x, y = _number(shape.x), _number(shape.y)
    if body in ids:
        use = f'<use href="#{ids[body]}" x="{x}" y="{y}"'
        return f"{use}>{about}</use>" if about else f"{use}/>"
    return f'<g transform="translate({x},{y})">{about}{body}</g>'


def _number(value: float) -> str:
    return str(value) if type(value) is int else f"{value:.1f}".removesuffix(".0")


class _Printer:
    """Prints shapes, and collects the styles of their texts as classes."""

    def __init__(self) -> None:
        self._classes: dict[tuple[float, str, str, bool], str] = {}
        self._kinds: dict[type, Callable[[Any], str]] = {
            Rectangle: _rectangle,
            Circle: _circle,
            Path: _path,
            Text: self._text,
            Cells: _cells,
            Group: self._group,
        }

    def body(self, shape: Shape) -> str:
        """The elements of a shape; of a group what is in it."""
        if isinstance(shape, Group):
            return "".join([self._kinds[type(inner)](inner) for inner in shape.shapes])
        return self._kinds[type(shape)](shape)

    def style_sheet(self) -> str:
        """The classes of all texts that were printed."""
        rules = (
            f".{name}{{font-size:{size:g}px;fill:{fill}{';text-anchor:' + anchor if anchor != 'start' else ''}"
            f"{';font-weight:600' if bold else ''}}}"
            for (size, fill, anchor, bold), name in self._classes.items()
        )
        return f"<style>{''.join(rules)}</style>" if self._classes else ""

    def _group(self, shape: Group) -> str:
        return _placed(shape, self.body(shape), {})

    def _text(self, shape: Text) -> str:
        x, y, text, size, fill, anchor, bold, upwards = shape
        name = self._classes.setdefault((size, fill, anchor, bold), f"t{len(self._classes)}")
        at = f'x="{_number(x)}" y="{_number(y)}"'
        turn = f' transform="rotate(-90 {_number(x)} {_number(y)})"' if upwards else ""
        return f'<text class="{name}" {at}{turn}>{escape(text)}</text>'


def _rectangle(shape: Rectangle) -> str:
    corner = "".join(
        [f'{name}="{_number(value)}" ' for name, value in (("x", shape.x), ("y", shape.y)) if value]
    )
    radius = f' rx="{_number(shape.radius)}"' if shape.radius else ""
    size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"{radius}'
    return f"<rect {corner}{size}{_paint(shape.fill, shape.stroke, shape.stroke_width, shape.dashes)}/>"


def _circle(shape: Circle) -> str:
    at = f'cx="{_number(shape.x)}" cy="{_number(shape.y)}" r="{_number(shape.radius)}"'
    return f"<circle {at}{_paint('none', shape.stroke, shape.stroke_width, ())}/>"


def _path(shape: Path) -> str:
    return f'<path d="{_steps(shape.steps)}"{_paint(shape.fill, shape.stroke, shape.stroke_width, shape.dashes)}/>'


def _paint(fill: str, stroke: str, stroke_width: float, dashes: tuple[float, ...]) -> str:
    if stroke == "none":
        return f' fill="{fill}"'
    width = f' stroke-width="{stroke_width:g}"' if stroke_width != 1 else ""
    dashed = f' stroke-dasharray="{" ".join(f"{length:g}" for length in dashes)}"' if dashes else ""
    return f' fill="{fill}" stroke="{stroke}"{width}{dashed}'


def _cells(shape: Cells) -> str:
    data = base64.b64encode(shape.png).decode()
    at = " ".join(
        f'{name}="{_number(getattr(shape, name))}"' for name in ("x", "y", "width", "height")
    )
    return f'<image {at} preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'


def _steps(steps: Iterable[Step]) -> str:
    """The data of a path, each step relative to where the one before ended, which takes fewer digits."""
    parts: list[str] = []
    x = y = start_x = start_y = 0.0
    for kind, numbers in steps:
        if kind == "Z":
            parts.append("z")
            x, y = start_x, start_y
            continue
        rounded = [round(number, 1) for number in numbers]
        end_x, end_y = rounded[-2:]
        if kind == "M":
            parts.append(f"M{_numbers(rounded)}")
            start_x, start_y = end_x, end_y
        elif kind == "C":
            x1, y1, x2, y2 = rounded[:4]
            parts.append(f"c{_numbers((x1 - x, y1 - y, x2 - x, y2 - y, end_x - x, end_y - y))}")
        elif end_x == x:
            parts.append(f"v{_number(end_y - y)}")
        elif end_y == y:
            parts.append(f"h{_number(end_x - x)}")
        else:
            parts.append(f"l{_numbers((end_x - x, end_y - y))}")
        x, y = end_x, end_y
    return "".join(parts)


def _numbers(values: Iterable[float]) -> str:
    return " ".join([_number(value) for value in values]).replace(" -", "-")
