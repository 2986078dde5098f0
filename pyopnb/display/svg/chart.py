"""Charts on a page: shapes with a size, a title and a caption, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyopnb.display.svg.axes import quantity
from pyopnb.display.svg.colors import INK, LINE, SPECIAL, ColorScale, hex_color
from pyopnb.display.svg.shapes import Cells, Drawing, Group, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["SMALL", "STRIP", "Chart", "frame", "page", "scale_strip", "small_text"]

SMALL = 10
"""Font size."""

STRIP = "strip"
"""The name of the cells of a scale."""

# Heights of a title and of a caption.
_TITLE, _CAPTION = 22, 16
# Pixels between the charts of a page, and around all of them.
_GAP, _PADDING = 28, 8
# A special color and its name take this many pixels.
_SWATCH = 46
# And so do the words beside a strip.
_KIND = 32


@dataclass(frozen=True)
class Chart:
    """Shapes with their size in pixels, and the words above and below them, which may be empty."""

    width: float
    height: float
    shapes: Sequence[Shape]
    title: str = ""
    caption: str = ""

    def plain(self) -> Chart:
        """Return it without title and caption, which a page may write as its own text."""
        return replace(self, title="", caption="")

    def whole(self) -> Chart:
        """Draw the title and the caption as shapes."""
        shapes = self.shapes
        height = self.height
        width = max(self.width, text_width(self.caption, SMALL))
        if self.title:
            title = fit(self.title, 12, width, bold=True)
            shapes = [Text(0, 11, title, 12, INK, bold=True), Group(0, _TITLE, tuple(shapes))]
            height += _TITLE
        if self.caption:
            shapes = [*shapes, small_text(0, height + 12, self.caption)]
            height += _CAPTION
        return Chart(width, height, shapes)


def page(charts: Sequence[Chart], title: str, in_row: int = 3) -> Drawing:
    """Put charts side by side in rows.

    Parameters
    ----------
    charts : sequence of Chart
        At least one.
    title : str
        A sentence on their contents, for people who cannot see them.
    in_row : int
        Charts of a row.
    """
    shapes: list[Shape] = []
    right = 0.0
    y = float(_PADDING)
    for first in range(0, len(charts), in_row):
        row = [chart.whole() for chart in charts[first : first + in_row]]
        x = float(_PADDING)
        for chart in row:
            shapes.append(Group(x, y, tuple(chart.shapes)))
            x += chart.width + _GAP
        right = max(right, x - _GAP)
        y += max(chart.height for chart in row) + _GAP
    width = math.ceil(right + _PADDING)
    height = math.ceil(y - _GAP + _PADDING)
    return Drawing(width, height, tuple(shapes), fit(title, SMALL, 2_000))


def small_text(x: float, y: float, text: str, anchor: str = "start") -> Text:
    """Write a text beside a chart."""
    return Text(x, y, fit(text, SMALL, 600), SMALL, INK, anchor)


def frame(x: float, y: float, width: float, height: float) -> Rectangle:
    """Draw the border of a picture."""
    return Rectangle(x, y, width, height, "none", LINE, 0.5)


def scale_strip(
    scale: ColorScale, x: float, y: float, width: float, special: Sequence[str] = ()
) -> Iterator[Shape]:
    """Draw the colors of a scale with its numbers, and beside it its kind and special colors.

    It is 20 pixels high.

    Parameters
    ----------
    special : sequence of str
        Keys of `SPECIAL`; another has no color.
    """
    right = x + width
    width -= _SWATCH * len(special) + _KIND
    values = np.array([[scale.value_at(at) for at in np.linspace(0, 1, 128).tolist()]])
    yield Cells(x, y, width, 8, scale.pixels(values), values, STRIP)
    yield frame(x, y, width, 8)
    low, middle, high = (quantity(scale.value_at(at), scale.unit) for at in (0.0, 0.5, 1.0))
    yield small_text(x, y + 19, low)
    if scale.low < scale.high:
        # A narrow strip has no room for three numbers.
        ends = max(text_width(low, SMALL), text_width(high, SMALL))
        if ends + text_width(middle, SMALL) / 2 + 4 < width / 2:
            yield small_text(x + width / 2, y + 19, middle, "middle")
        yield small_text(x + width, y + 19, high, "end")
        yield small_text(x + width + 5, y + 8, "log" if scale.log else "linear")
    swatch_x = right - _SWATCH * len(special) + 10
    for name in special:
        color = "none"
        if name in SPECIAL:
            color = hex_color(SPECIAL[name])
        yield Rectangle(swatch_x, y, 9, 8, color, LINE, 0.5)
        yield small_text(swatch_x + 13, y + 8, name)
        swatch_x += _SWATCH
