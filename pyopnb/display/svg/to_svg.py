"""A `Drawing` printed as SVG.

The text is self-contained: it loads nothing and runs nothing. Styles of text are classes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

from pyopnb.display.svg.colors import INK, THEMES
from pyopnb.display.svg.shapes import Cells, Drawing, Group, Path, PathStep, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import FONT

__all__ = ["to_svg"]


def _themes() -> str:
    """Style the words on the page for light and dark pages.

    In an element of a page the root is the page's, and its words have the color of its text.
    """
    roots = []
    for word, halo in THEMES.values():
        roots.append(f":root{{--pyopnb-ink:{word};--pyopnb-page:{halo}}}")
    light, dark = roots
    halo = (
        "stroke:var(--pyopnb-page,none);stroke-width:2.5px;stroke-linejoin:round;paint-order:stroke"
    )
    return (
        f":root{{color-scheme:light dark}}{light}@media(prefers-color-scheme:dark){{{dark}}}"
        f"text{{{halo}}}"
    )


def to_svg(drawing: Drawing, *, titles: bool = True) -> str:
    r"""Write the text of an SVG.

    Parameters
    ----------
    titles : bool
        Whether the texts of groups become their titles, which a browser shows under the mouse,
        but not in an ``<img>``.

    Examples
    --------
    >>> to_svg(Drawing(8, 8, (Rectangle(0, 0, 8, 8, "#ffffff"),))).partition("<rect ")[2]
    'width="8" height="8" fill="#ffffff"/></svg>'
    """
    printer = _SvgPrinter()
    body = "".join([printer.element(shape, titles) for shape in drawing.shapes])
    size = _attributes(width=drawing.width, height=drawing.height)
    view = f'viewBox="0 0 {drawing.width} {drawing.height}" font-family="{FONT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg"{size} {view}>']
    if drawing.title:
        parts.append(f"<title>{escape(drawing.title)}</title>")
    parts.append(printer.style_sheet())
    return "".join([*parts, body, "</svg>"])


class _SvgPrinter:
    """Prints shapes, and collects the styles of their texts as classes."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def element(self, shape: Shape, titles: bool = False) -> str:
        """Write the element of a shape, of a group with its text if ``titles``."""
        match shape:
            case Text():
                at = _attributes(x=shape.x, y=shape.y)
                return f'<text class="{self._class(shape)}"{at}>{escape(shape.text)}</text>'
            case Rectangle():
                corner = _attributes(x=shape.x, y=shape.y)
                size = _attributes(width=shape.width, height=shape.height, rx=shape.radius)
                return f"<rect{corner}{size}{_paint(shape)}/>"
            case Path():
                return f'<path d="{_steps(shape.steps)}"{_paint(shape)}/>'
            case Cells():
                data = base64.b64encode(shape.png).decode()
                box = _attributes(x=shape.x, y=shape.y, width=shape.width, height=shape.height)
                style = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
                return f'<image{box} {style} href="data:image/png;base64,{data}"/>'
            case Group():
                body = "".join(map(self.element, shape.shapes))
                if titles and shape.about:
                    body = f"<title>{escape(shape.about)}</title>{body}"
                at = f"{_number(shape.x)},{_number(shape.y)}"
                return f'<g transform="translate({at})">{body}</g>'

    def _class(self, text: Text) -> str:
        """Return the class of a text's style."""
        style = f"font-size:{text.size:g}px;fill:{text.fill}"
        if text.fill == INK:
            style += ";fill:var(--pyopnb-ink,currentColor)"
        else:
            style += ";stroke:none"
        if text.anchor != "start":
            style += f";text-anchor:{text.anchor}"
        if text.bold:
            style += ";font-weight:600"
        return self._classes.setdefault(style, f"t{len(self._classes)}")

    def style_sheet(self) -> str:
        """Write the classes of all texts that were printed."""
        rules = [f".{name}{{{style}}}" for style, name in self._classes.items()]
        if rules:
            return f"<style>{_themes()}{''.join(rules)}</style>"
        return ""


def _paint(shape: Rectangle | Path) -> str:
    paint = f' fill="{shape.fill}"'
    if shape.stroke == "none":
        return paint
    paint += f' stroke="{shape.stroke}"'
    if shape.stroke_width != 1:
        paint += f' stroke-width="{shape.stroke_width:g}"'
    if shape.dashes:
        paint += f' stroke-dasharray="{" ".join(map(_number, shape.dashes))}"'
    return paint


def _steps(steps: Iterable[PathStep]) -> str:
    """Write the data of a path."""
    return "".join([command + " ".join(map(_number, numbers)) for command, numbers in steps])


def _attributes(**numbers: float) -> str:
    """Write the attributes of an element, without zeros, which are their default."""
    return "".join([f' {name}="{_number(at)}"' for name, at in numbers.items() if at])


def _number(value: float) -> str:
    # A tenth of a pixel is not seen.
    if type(value) is int:
        return str(value)
    return f"{value:.1f}".removesuffix(".0")
