"""Coordinates for the boxes and edges of a directed graph, drawn in layers from top to bottom.

The method is that of Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical System Structures", 1981), in
three phases, as a model that can run has no cycles:

1. Assign layers by longest paths (`layers_of`). An edge over several layers gets a dummy, a point without a size, in each of
   them; edges that leave the same port of a box share their dummies (`Layering`).
2. Order the layers so that few edges cross: sweeps by medians and barycentres of neighbours (`order_layers`).
3. Assign coordinates: x by the four alignments of Brandes and Köpf ("Fast and Simple Horizontal Coordinate Assignment", 2002;
   `horizontal`), y layer by layer (`vertical`).

Ties are broken by the indices of boxes, so the same graph always gets the same picture. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyopnb.display.svg.boxes import Line
from pyopnb.display.svg.coordinates import extent, horizontal, vertical
from pyopnb.display.svg.layer_order import order_layers
from pyopnb.display.svg.layers import Layering, Point, Size, break_wide_layers, layers_of

__all__ = ["Layout", "lay_out", "lines_to_cut"]

# A line may cross so many layers however many lines there are.
_SHORT = 3


@dataclass(frozen=True)
class Layout:
    """The coordinates of a graph.

    Attributes
    ----------
    centres : list of (x, y)
        The centres of the boxes.
    routes : list of list of (x, y)
        Points of each edge from the source's lower border to the target's upper one.
    width, height : float
        All coordinates are between 0 and these.
    """

    centres: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def lay_out(sizes: Sequence[Size], edges: Sequence[Line]) -> Layout:
    """Lay a graph out.

    Parameters
    ----------
    sizes : sequence of Size
        The boxes.
    edges : sequence of Line
        Without cycles.

    Returns
    -------
    Layout

    Examples
    --------
    >>> lay_out([Size(40, 20), Size(40, 20)], [Line(0, 1)]).centres
    [(20.0, 10.0), (20.0, 52.0)]
    """
    if not sizes:
        return Layout([], [], 0, 0)
    graph = Layering(sizes, edges)
    graph.layers = order_layers(graph)
    xs = horizontal(graph)
    ys = vertical(graph)
    routes = [graph.route(edge, xs, ys) for edge in edges]
    centres = []
    for box in range(len(sizes)):
        upper, lower = ys[graph.ranks[box]]
        centres.append((xs[box], (upper + lower) / 2))
    width = extent(graph, xs)[1]
    height = ys[-1][1]
    return Layout(centres, routes, width, height)


def lines_to_cut(sizes: Sequence[Size], edges: Sequence[Line], most: int) -> set[int]:
    """Find the lines that a picture is better off without: the longest, if all together cross too many layers.

    Parameters
    ----------
    sizes : sequence of Size
        The boxes.
    edges : sequence of Line
    most : int
        How many layers all lines together may cross; lines of one port share a way and count once.

    Returns
    -------
    set of int
        Indices of lines.
    """
    pairs = [(edge.source, edge.target) for edge in edges]
    ranks = break_wide_layers(layers_of(len(sizes), pairs), sizes)
    ways: dict[tuple[int, int], list[int]] = {}
    for number, edge in enumerate(edges):
        ways.setdefault((edge.source, edge.port), []).append(number)
    spans = [ranks[target] - ranks[source] for source, target in pairs]
    lengths = {port: max([spans[number] for number in way]) - 1 for port, way in ways.items()}
    total = sum(lengths.values())
    cut: set[int] = set()
    # What many lines share is worth its space.
    for port in sorted(ways, key=lambda port: lengths[port] / len(ways[port]), reverse=True):
        if total <= most:
            break
        total -= lengths[port]
        cut.update(number for number in ways[port] if spans[number] > _SHORT)
    return cut
