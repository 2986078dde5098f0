"""Layers of a directed graph without cycles: phase 1 of `pyopnb.display.svg.layout`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyopnb.display.svg.boxes import Line

__all__ = [
    "LAYER_GAP",
    "Layering",
    "Links",
    "Point",
    "Size",
    "break_wide_layers",
    "layers_of",
]

Point = tuple[float, float]
Links = list[list[int]]

# The least distances between boxes, between lines, and between layers, in pixels.
_BOX_GAP, _LINE_GAP, LAYER_GAP = 18, 12, 22
# A layer that is wider than this many pixels is broken into rows.
_WIDEST = 6000
# Boxes move down in at most this many rounds.
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Size:
    """The width and height of a box."""

    width: float
    height: float


def _neighbours(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[Links, Links]:
    """Return the successors and predecessors of each of ``count`` vertices, each once."""
    below: Links = [[] for _ in range(count)]
    above: Links = [[] for _ in range(count)]
    for a, b in dict.fromkeys(pairs):
        below[a].append(b)
        above[b].append(a)
    return below, above


def layers_of(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Assign each box to a layer by longest paths, and those with more edges down than up close to their successors."""
    below, above = _neighbours(count, pairs)
    missing = [len(before) for before in above]
    # A topological order (Kahn, 1962).
    order = [box for box in range(count) if not missing[box]]
    ranks = [0] * count
    # The list grows while it is read.
    for box in order:
        for after in below[box]:
            ranks[after] = max(ranks[after], ranks[box] + 1)
            missing[after] -= 1
            if not missing[after]:
                order.append(after)
    for _ in range(_ROUNDS):
        moved = False
        for box in reversed(order):
            # What reads a box only once would get a longer line above than it saves below.
            if below[box] and len(below[box]) >= len(above[box]) + bool(above[box]):
                lowest = min([ranks[after] for after in below[box]]) - 1
                moved = moved or lowest != ranks[box]
                ranks[box] = lowest
        if not moved:
            break
    first = min(ranks)
    return [rank - first for rank in ranks]


def break_wide_layers(ranks: Sequence[int], sizes: Sequence[Size]) -> list[int]:
    """Break layers that are too wide into rows, which is possible as boxes of a layer are not connected."""
    layers: Links = [[] for _ in range(max(ranks) + 1)]
    for box, rank in enumerate(ranks):
        layers[rank].append(box)
    broken = [0] * len(ranks)
    row = 0
    for layer in layers:
        width = 0.0
        for box in layer:
            box_width = sizes[box].width + _BOX_GAP
            if width and width + box_width > _WIDEST:
                row, width = row + 1, 0.0
            width += box_width
            broken[box] = row
        row += 1
    return broken


class Layering:
    """Boxes and dummies in layers; the indices of dummies follow those of the boxes.

    Attributes
    ----------
    boxes : int
        How many of the vertices are boxes.
    widths, heights : list of float
    ranks : list of int
        The layer of each vertex.
    layers : list of list of int
        The vertices of each layer from left to right.
    below, above : list of list of int
        The neighbours of each vertex in the next and in the previous layer.
    """

    def __init__(self, sizes: Sequence[Size], edges: Sequence[Line]) -> None:
        self.boxes = len(sizes)
        self.widths = [size.width for size in sizes]
        self.heights = [size.height for size in sizes]
        pairs = [(edge.source, edge.target) for edge in edges]
        self.ranks = break_wide_layers(layers_of(self.boxes, pairs), sizes)
        self.layers: Links = [[] for _ in range(max(self.ranks) + 1)]
        for box, rank in enumerate(self.ranks):
            self.layers[rank].append(box)
        # Of each source and port, the dummies below it, one a layer.
        self._dummies: dict[tuple[int, int], list[int]] = {}
        links: list[tuple[int, int]] = []
        for edge in edges:
            links += self._add_dummies(edge)
        self.below, self.above = _neighbours(len(self.widths), links)

    def _add_dummies(self, edge: Line) -> Iterator[tuple[int, int]]:
        """Link an edge's boxes over the dummies of its port, with new ones where it is longer than earlier edges."""
        dummies = self._dummies.setdefault((edge.source, edge.port), [])
        first = self.ranks[edge.source] + 1
        crossed = self.ranks[edge.target] - first
        while len(dummies) < crossed:
            dummy = len(self.widths)
            rank = first + len(dummies)
            self.widths.append(0)
            self.heights.append(0)
            self.ranks.append(rank)
            self.layers[rank].append(dummy)
            yield (dummies[-1] if dummies else edge.source), dummy
            dummies.append(dummy)
        yield (dummies[crossed - 1] if crossed else edge.source), edge.target

    def route(self, edge: Line, xs: Sequence[float], ys: Sequence[Point]) -> list[Point]:
        """Return the points of an edge: vertical within layers and across between them, so that it meets no box."""
        crossed = self.ranks[edge.target] - self.ranks[edge.source] - 1
        dummies = self._dummies[edge.source, edge.port][:crossed]
        points = []
        for vertex in (edge.source, *dummies, edge.target):
            upper, lower = ys[self.ranks[vertex]]
            points += [(xs[vertex], upper), (xs[vertex], lower)]
        # Boxes are in the middle of their layer, which can be higher than they are.
        middle = sum(ys[self.ranks[edge.source]]) / 2
        points[0] = (xs[edge.source], middle + self.heights[edge.source] / 2)
        middle = sum(ys[self.ranks[edge.target]]) / 2
        points[-1] = (xs[edge.target], middle - self.heights[edge.target] / 2)
        return points

    def distance(self, a: int, b: int) -> float:
        """Return the least distance of the centres of two vertices that are next to each other."""
        gap = _BOX_GAP if a < self.boxes > b else _LINE_GAP
        return (self.widths[a] + self.widths[b]) / 2 + gap
