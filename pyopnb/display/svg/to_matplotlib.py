"""A picture of `pyopnb.display.svg.graph` as a matplotlib ``Figure``: for papers, and for pixels.

It reads the few words of SVG that such a picture is made of, and no others. One of its pixels is one point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

__all__ = ["SHARP", "figured"]

SHARP = 144
"""Dots per inch at which a pixel of the picture is two."""

_FONTS = {"Helvetica": 1.0, "Arial": 1.0, "Liberation Sans": 1.0, "DejaVu Sans": 0.88}  # the last is wider than a box's room
_WORD = re.compile(r"[A-Za-z]|-?\d+(?:\.\d+)?")
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def figured(svg: str) -> Any:
    """A ``Figure`` of the picture's size.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(svg)  # noqa: S314  # we wrote it
    wide, high = float(root.get("width", 1)), float(root.get("height", 1))
    made = Figure(figsize=(wide / 72, high / 72), facecolor="none")
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, wide), ylim=(high, 0))
    axes.set_axis_off()
    style = next((element.text or "" for element in root if _tag(element) == "style"), "")
    pen = _Pen(axes, (wide, high), {name: _declared(held) for name, held in re.findall(r"\.(\w+)\{([^}]*)\}", style)})
    pen.kept = {f"#{element.get('id')}": element for element in root.iter() if element.get("id")}
    for element in root:
        pen.draw(element, 0.0, 0.0, {})
    return made


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _declared(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split(";") if ":" in part)


class _Pen:
    """Puts one element after the other on the axes, each above those before it."""

    def __init__(self, axes: Any, size: tuple[float, float], classes: Mapping[str, Mapping[str, str]]) -> None:
        self.axes, self.size, self.classes = axes, size, classes
        self.kept: dict[str, Any] = {}
        self.level = 0
        self.fonts = list(_available())

    def draw(self, element: Any, x: float, y: float, outer: Mapping[str, str]) -> None:
        of_class, of_style = self.classes.get(element.get("class", ""), {}), _declared(element.get("style", ""))
        own = {**outer, **of_class, **element.attrib, **of_style}
        tag = _tag(element)
        if tag == "g":
            left, top = map(float, re.findall(r"-?[\d.]+", element.get("transform", "translate(0,0)")))
            held = {name: value for name, value in own.items() if name in ("fill", "font-size", "text-anchor")}
            for inner in element:
                self.draw(inner, x + left, y + top, held)
        elif tag == "use":
            for inner in self.kept[own["href"]]:
                self.draw(inner, x + float(own["x"]), y + float(own["y"]), outer)
        elif tag in ("rect", "text", "path"):
            self.level += 1
            getattr(self, f"_{tag}")(element, x, y, own)

    def _rect(self, element: Any, x: float, y: float, own: Mapping[str, str]) -> None:
        from matplotlib.patches import FancyBboxPatch

        wide, high = (float(text.replace("100%", str(whole))) for text, whole in zip(_size(own), self.size, strict=True))
        x, y = x + float(own.get("x", 0)), y + float(own.get("y", 0))
        if own["fill"].startswith("url("):
            stops = [stop.get("stop-color") for stop in self.kept[own["fill"][4:-1]]]
            for number, colour in enumerate(stops):
                corner, part = (x + wide * number / len(stops), y), wide / len(stops)
                box = FancyBboxPatch(corner, part, high, "square,pad=0", lw=0, fc=colour)
                self.axes.add_patch(box).set_zorder(self.level)
            return
        round_ = min(float(own.get("rx", 0)), wide / 2, high / 2)
        shape = f"round,pad=0,rounding_size={round_}" if round_ else "square,pad=0"
        self.axes.add_patch(FancyBboxPatch((x, y), wide, high, shape, zorder=self.level, **_drawn(own)))

    def _path(self, element: Any, x: float, y: float, own: Mapping[str, str]) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        steps = list(_steps(own["d"]))
        if steps:
            points = [(x + point[0], y + point[1]) for _, point in steps]
            codes = [{"M": Path.MOVETO, "l": Path.LINETO, "c": Path.CURVE4, "z": Path.CLOSEPOLY}[kind] for kind, _ in steps]
            self.axes.add_patch(PathPatch(Path(points, codes), zorder=self.level, **_drawn(own)))

    def _text(self, element: Any, x: float, y: float, own: Mapping[str, str]) -> None:
        self.axes.text(
            x + float(own["x"]),
            y + float(own["y"]),
            element.text or "",
            color=own.get("fill", "black"),
            size=float(own.get("font-size", "10").removesuffix("px")) * _FONTS[self.fonts[0]],
            weight="bold" if own.get("font-weight") == "600" else "normal",
            ha=_ANCHORS[own.get("text-anchor", "start")],
            va="baseline",
            family=self.fonts,
            parse_math=False,
            zorder=self.level,
        )


def _available() -> Iterator[str]:
    from matplotlib.font_manager import findfont

    for name in _FONTS:
        try:
            findfont(name, fallback_to_default=False)
        except ValueError:
            continue
        yield name


def _size(own: Mapping[str, str]) -> tuple[str, str]:
    return own["width"], own["height"]


def _drawn(own: Mapping[str, str]) -> dict[str, Any]:
    thick = float(own.get("stroke-width", 1)) if own.get("stroke", "none") != "none" else 0.0
    dashes = (0, [float(one) for one in own["stroke-dasharray"].split()]) if "stroke-dasharray" in own else "solid"
    return {"fc": own.get("fill", "black"), "ec": own.get("stroke", "none"), "lw": thick, "ls": dashes if thick else "solid"}


def _steps(way: str) -> Iterator[tuple[str, tuple[float, float]]]:
    """The points of a path: M, v, h, l, c and z, as pictures of graphs have them."""
    words = _WORD.findall(way)
    x = y = 0.0
    begin, at = (0.0, 0.0), 0
    while at < len(words):
        kind, count = words[at], {"M": 2, "l": 2, "c": 6, "v": 1, "h": 1, "z": 0}[words[at]]
        numbers = [float(word) for word in words[at + 1 : at + 1 + count]]
        at += 1 + count
        if kind == "c":
            yield from (("c", (x + numbers[k], y + numbers[k + 1])) for k in (0, 2, 4))
            x, y = x + numbers[4], y + numbers[5]
            continue
        if kind == "M":
            x, y = begin = numbers[0], numbers[1]
        elif kind == "z":
            x, y = begin
        else:
            x, y = x + (numbers[0] if kind in "lh" else 0), y + (numbers[-1] if kind in "lv" else 0)
        yield kind if kind in "Mz" else "l", (x, y)
