"""A layered graph as a drawing, and as an SVG of at most so many bytes."""

from __future__ import annotations

from dataclasses import dataclass

from pyopnb.display.svg.artist import Artist
from pyopnb.display.svg.boxes import BoxGraph
from pyopnb.display.svg.colours import ColourScale
from pyopnb.display.svg.legend import SMALL, scale_strip, small_text
from pyopnb.display.svg.placement import place
from pyopnb.display.svg.shapes import Drawing, Rectangle, drawing
from pyopnb.display.svg.text_width import fit
from pyopnb.display.svg.to_svg import to_svg

__all__ = ["GraphPicture", "draw", "draw_within"]

_MARGIN = 16
_LEGEND_HEIGHT, _LEGEND_WIDTH = 44, 180
# Boxes from which on rows and labels are left out: they take space, and nobody reads them.
_PLAIN_FROM = 800
# A box of a network takes at least about so many bytes, and one with rows and labels so many times what a plain one does.
_LEAST_BOX, _PLAIN_SHARE = 58, 2


@dataclass(frozen=True)
class GraphPicture:
    """The SVG of a graph, or of a part of it.

    Attributes
    ----------
    svg : str
    drawing : Drawing
        What the SVG shows.
    count : int
        Boxes of the graph that are in it.
    """

    svg: str
    drawing: Drawing
    count: int


def draw(
    graph: BoxGraph,
    *,
    scale: ColourScale | None = None,
    legend_title: str = "",
    plain: bool | None = None,
) -> Drawing:
    """Draw a graph.

    Parameters
    ----------
    graph : BoxGraph
    scale : ColourScale, optional
        Turns the boxes' values into colours; its legend becomes part of the picture.
    legend_title : str
        What the values are.
    plain : bool, optional
        Without rows and labels. By default so for more than 800 boxes.

    Returns
    -------
    Drawing
    """
    if plain is None:
        plain = len(graph.boxes) > _PLAIN_FROM
    placed = place(graph, plain)
    top = _MARGIN + (_LEGEND_HEIGHT if scale else 0)
    shapes = list(Artist(scale, plain).draw(placed, _MARGIN, top))
    width = placed.layout.width + 2 * _MARGIN
    if scale:
        shapes.append(small_text(_MARGIN, 19, fit(legend_title, SMALL, _LEGEND_WIDTH)))
        # Boxes have opaque colours, so their scale needs white below it.
        shapes.append(Rectangle(_MARGIN, 23, _LEGEND_WIDTH, 8, "#ffffff"))
        shapes += scale_strip(scale, _MARGIN, 23, _LEGEND_WIDTH)
        width = max(width, _LEGEND_WIDTH + 2 * _MARGIN)
    return drawing(width, placed.layout.height + top + _MARGIN, shapes)


def draw_within(
    graph: BoxGraph,
    most: int,
    *,
    scale: ColourScale | None = None,
    legend_title: str = "",
    around: int = 0,
) -> GraphPicture:
    """Draw a graph as an SVG of at most so many bytes.

    Rows and labels are dropped first, then the boxes far from that of index ``around``.

    Parameters
    ----------
    graph : BoxGraph
    most : int
        Bytes.
    scale, legend_title
        As of `draw`.
    around : int

    Returns
    -------
    GraphPicture
    """
    # A layout takes long, so that what cannot fit is not tried.
    count = min(len(graph.boxes), max(1, most // _LEAST_BOX))
    plain = count > _PLAIN_FROM
    while True:
        part = graph.part(count, around)
        drawn = draw(part, scale=scale, legend_title=legend_title, plain=plain)
        svg = to_svg(drawn, titles=False)
        length = len(svg.encode())
        if length <= most or (count == 1 and plain):
            return GraphPicture(svg, drawn, count)
        if plain or length > _PLAIN_SHARE * most:
            count = max(1, int(count * 0.95 * most / length * (1 if plain else _PLAIN_SHARE)))
        plain = True
