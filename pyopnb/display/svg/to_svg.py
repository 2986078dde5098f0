"""A `Drawing` printed as SVG.

The text is self-contained: it loads nothing and runs nothing. Groups that look alike are written
once and used, styles of text are classes, and paths are relative, so that thousands of nodes stay
small.
"""

from __future__ import annotations

import base64
from collections import Counter
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
        roots.append(f":root{{--ink:{word};--page:{halo}}}")
    light, dark = roots
    halo = "stroke:var(--page,none);stroke-width:2.5px;stroke-linejoin:round;paint-order:stroke"
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
    bodies = [printer.body(shape) for shape in drawing.shapes]

    # Groups that look alike are written once, as a definition, and used in each place.
    groups = [isinstance(shape, Group) for shape in drawing.shapes]
    uses = Counter(body for body, is_group in zip(bodies, groups, strict=True) if is_group)
    repeated = [body for body, count in uses.items() if count > 1]
    ids = {body: f"b{number:x}" for number, body in enumerate(repeated)}
    definitions = "".join([f'<g id="{ids[body]}">{body}</g>' for body in repeated])

    size = _attributes(width=drawing.width, height=drawing.height)
    view = f'viewBox="0 0 {drawing.width} {drawing.height}" font-family="{FONT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg"{size} {view}>']
    if drawing.title:
        parts.append(f"<title>{escape(drawing.title)}</title>")
    parts.append(printer.style_sheet())
    if definitions:
        parts.append(f"<defs>{definitions}</defs>")
    for shape, body in zip(drawing.shapes, bodies, strict=True):
        if not isinstance(shape, Group):
            parts.append(body)
            continue
        about = ""
        if titles and shape.about:
            about = f"<title>{escape(shape.about)}</title>"
        if body in ids:
            use = f'<use href="#{ids[body]}"{_attributes(x=shape.x, y=shape.y)}'
            parts.append(f"{use}>{about}</use>" if about else f"{use}/>")
        else:
            parts.append(_group(shape, about + body))
    return "".join([*parts, "</svg>"])


class _SvgPrinter:
    """Prints shapes, and collects the styles of their texts as classes."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def body(self, shape: Shape) -> str:
        """Write the elements of a shape, or of all shapes in a group."""
        if isinstance(shape, Group):
            return "".join([self._element(inner) for inner in shape.shapes])
        return self._element(shape)

    def _element(self, shape: Shape) -> str:
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
                return _group(shape, self.body(shape))

    def _class(self, text: Text) -> str:
        """Return the class of a text's style."""
        style = f"font-size:{text.size:g}px;fill:{text.fill}"
        if text.fill == INK:
            style += ";fill:var(--ink,currentColor)"
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


def _group(shape: Group, body: str) -> str:
    return f'<g transform="translate({_number(shape.x)},{_number(shape.y)})">{body}</g>'


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
    """Write the data of a path, relative to the end of the step before, in fewer digits."""
    parts: list[str] = []
    x = y = 0.0
    for command, numbers in steps:
        if command == "Z":
            parts.append("z")
            continue
        # Rounded first, so that errors do not add up.
        at = [round(number, 1) for number in numbers]
        end = at[-2:]
        if command != "M":
            command = command.lower()
            at = [number - origin for number, origin in zip(at, (x, y) * 3, strict=False)]
        # A minus separates numbers as well as a space does.
        parts.append(command + " ".join(map(_number, at)).replace(" -", "-"))
        x, y = end
    return "".join(parts)


def _attributes(**numbers: float) -> str:
    """Write the attributes of an element, without zeros, which are their default."""
    return "".join([f' {name}="{_number(at)}"' for name, at in numbers.items() if at])


def _number(value: float) -> str:
    # A tenth of a pixel is not seen.
    if type(value) is int:
        return str(value)
    return f"{value:.1f}".removesuffix(".0")
