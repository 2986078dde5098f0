"""Charts on a page: shapes with a size, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pyopnb.display.svg.colours import INK
from pyopnb.display.svg.legend import SMALL
from pyopnb.display.svg.shapes import Drawing, Group, Shape, Text, drawing
from pyopnb.display.svg.text_width import fit

__all__ = ["HEAD", "Chart", "chart_title", "page"]

HEAD = 22
"""Height of a chart's title."""

# Pixels between the charts of a page, and around all of them.
_GAP, _PADDING = 28, 8


@dataclass(frozen=True)
class Chart:
    """Shapes with their size in pixels."""

    width: float
    height: float
    shapes: Sequence[Shape]


def chart_title(text: str, width: float) -> Text:
    """Write the title of a chart into its head, cut to the chart's width."""
    return Text(0, 11, fit(text, 12, width, bold=True), 12, INK, bold=True)


def page(charts: Sequence[Chart], title: str, in_row: int = 3) -> Drawing:
    """Put charts side by side in rows.

    Parameters
    ----------
    charts : sequence of Chart
        At least one.
    title : str
        What they show, for who cannot see them.
    in_row : int
        Charts of a row.

    Returns
    -------
    Drawing
    """
    shapes: list[Shape] = []
    right = 0.0
    y = float(_PADDING)
    for first in range(0, len(charts), in_row):
        row = charts[first : first + in_row]
        x = float(_PADDING)
        for chart in row:
            shapes.append(Group(x, y, tuple(chart.shapes)))
            x += chart.width + _GAP
        right = max(right, x - _GAP)
        y += max(chart.height for chart in row) + _GAP
    width = math.ceil(right + _PADDING)
    height = math.ceil(y - _GAP + _PADDING)
    return drawing(width, height, shapes, fit(title, SMALL, 2_000))
