"""Coordinates for the boxes and edges of a directed graph, drawn in layers from top to bottom.

The method is by Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical
System Structures", 1981), in three phases, as a model that can run has no cycles:

1. Assign layers by longest paths (`_ranks`). An edge over several layers gets a dummy, a
   point without a size, in each of them; edges that leave the same port of a box share their
   dummies (`_Layers`).
2. Order the layers so that few edges cross: sweeps by barycenters of neighbors (`_order`).
3. Assign coordinates: x by the four alignments of Brandes and Köpf ("Fast and Simple Horizontal
   Coordinate Assignment", 2002; `_horizontal`), y layer by layer (`_vertical`).

Ties are broken by the indices of boxes, so the same graph always gets the same
picture. Nothing recurses.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from pyopnb.display.svg.boxes import Line

__all__ = ["Layout", "Point", "Size", "far_edges", "in_columns", "lay_out"]

Point: TypeAlias = tuple[float, float]
_Links: TypeAlias = list[list[int]]

# The least distances between boxes, between lines, and between layers, in pixels.
_BOX_GAP, _LINE_GAP, _LAYER_GAP = 18, 12, 22
# Boxes move down in at most this many rounds.
_ROUNDS = 6
# Sweeps that order the layers, fewer of very large graphs.
_SWEEPS, _LINKS_SWEPT = 24, 75_000
# All lines together may cross this many layers; the lines of a picture on a page cross fewer.
_MOST_CROSSED = 60_000
# Times the widest layer that a picture may be wide before long straight lines are given up.
_SPREAD = 2.5
# This many vertices may share one x; the shorter lengths are for pictures that get too wide.
_BLOCK_LENGTHS = (1_000_000, 4, 1)


class Size(NamedTuple):
    """The width and height of a box."""

    width: float
    height: float


# Columns may fill this, and are this far apart.
_SCREEN = Size(860, 620)
_COLUMN_GAP = 36


class Layout(NamedTuple):
    """The coordinates of a graph.

    Attributes
    ----------
    centers : list of (x, y)
        The centers of the boxes.
    routes : list of list of (x, y)
        Points of each edge from the source's lower border to the target's upper one.
    width, height : float
        All coordinates are between 0 and these.
    layers : list of (upper, lower)
        The y of the borders of each layer.
    """

    centers: list[Point]
    routes: list[list[Point]]
    width: float
    height: float
    layers: list[Point]


def far_edges(count: int, edges: Sequence[Line]) -> set[Line]:
    """Find the edges of ``count`` boxes to leave out: the longest, if all cross too many layers."""
    ranks = _ranks(count, edges)
    far = set()
    # How far the edges of a port, which share a way, lead.
    reached: dict[tuple[int, int], int] = {}
    crossed = 0
    for edge in sorted(edges, key=lambda edge: ranks[edge.target] - ranks[edge.source]):
        way = (edge.source, edge.port)
        target = ranks[edge.target]
        crossed += target - reached.get(way, ranks[edge.source])
        reached[way] = target
        if crossed > _MOST_CROSSED:
            far.add(edge)
    return far


def lay_out(sizes: Sequence[Size], edges: Sequence[Line], far: Iterable[Line] = ()) -> Layout:
    """Lay a graph out.

    Parameters
    ----------
    sizes : sequence of Size
        The boxes.
    edges : sequence of Line
        Without cycles.
    far : iterable of Line, optional
        More edges: they lead down too, and get no routes.

    Examples
    --------
    >>> lay_out([Size(40, 20), Size(40, 20)], [Line(0, 1)]).centers
    [(20.0, 10.0), (20.0, 52.0)]
    """
    if not sizes:
        return Layout([], [], 0, 0, [])
    graph = _Layers(sizes, edges, far)
    _order(graph)
    xs = _horizontal(graph)
    ys = _vertical(graph)
    centers = []
    for box in range(len(sizes)):
        upper, lower = ys[graph.ranks[box]]
        centers.append((xs[box], (upper + lower) / 2))
    routes = [graph.route(edge, xs, ys) for edge in edges]
    width = _extent(graph, np.array(xs))[1]
    return Layout(centers, routes, width, ys[-1][1], ys)


# ---- columns


def in_columns(layout: Layout) -> Layout:
    """Continue a high and narrow layout in columns, if they fit into a screen."""
    count = math.ceil(layout.height / _SCREEN.height)
    step = layout.width + _COLUMN_GAP
    if count < 2 or count * step > _SCREEN.width:
        return layout
    # Columns end below a layer from which one line leads on.
    cuts = [float(-_LAYER_GAP)]
    for _, y in layout.layers[:-1]:
        lines = {route[0] for route in layout.routes if route[0][1] <= y < route[-1][1]}
        if len(lines) == 1 and y - cuts[-1] >= layout.height / count:
            cuts.append(y)
    ends = [*cuts[1:], layout.height]
    height = max(end - cut for cut, end in zip(cuts, ends, strict=True))
    if height > _SCREEN.height + _LAYER_GAP:
        return layout

    def moved(route: Sequence[Point]) -> list[Point]:
        points: list[Point] = []
        before = 0
        for x, y in route:
            column = bisect_left(ends, y)
            across = x + column * step
            if points and column > before:
                # From the lower end of a column to the upper end of the next.
                gap = column * step - _COLUMN_GAP / 2
                upper, lower = _LAYER_GAP / 3, height + _LAYER_GAP / 2
                points += [(points[-1][0], lower), (gap, lower), (gap, upper), (across, upper)]
            points.append((across, y - cuts[column]))
            before = column
        return points

    centers = [moved([center])[0] for center in layout.centers]
    routes = [moved(route) for route in layout.routes]
    width = len(cuts) * step - _COLUMN_GAP
    return Layout(centers, routes, width, height + _LAYER_GAP, layout.layers)


# ---- layers


def _neighbors(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[_Links, _Links]:
    """Return the successors and predecessors of each of ``count`` vertices, each once."""
    below: _Links = [[] for _ in range(count)]
    above: _Links = [[] for _ in range(count)]
    for a, b in dict.fromkeys(pairs):
        below[a].append(b)
        above[b].append(a)
    return below, above


def _ranks(count: int, edges: Sequence[Line]) -> list[int]:
    """Assign each box to a layer by longest paths.

    Boxes with more edges down than up are close to their successors.
    """
    pairs = [(edge.source, edge.target) for edge in edges]
    below, above = _neighbors(count, pairs)
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
        for box in reversed(order):
            # A box with as many lines above as below would save nothing by moving down.
            if below[box] and len(below[box]) >= len(above[box]) + bool(above[box]):
                ranks[box] = min([ranks[after] for after in below[box]]) - 1
    # A layer that all boxes have left is none.
    layers = {rank: layer for layer, rank in enumerate(sorted(set(ranks)))}
    return [layers[rank] for rank in ranks]


class _Layers:
    """Boxes and dummies in layers; the indices of dummies follow the indices of the boxes.

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
        The neighbors of each vertex in the next and in the previous layer.
    dummies : dict
        For each source and port, the dummies below it, one per layer.
    """

    def __init__(self, sizes: Sequence[Size], edges: Sequence[Line], far: Iterable[Line]) -> None:
        self.boxes = len(sizes)
        self.widths = [size.width for size in sizes]
        self.heights = [size.height for size in sizes]
        self.ranks = _ranks(len(sizes), [*edges, *far])
        self.layers: _Links = [[] for _ in range(max(self.ranks) + 1)]
        for box, rank in enumerate(self.ranks):
            self.layers[rank].append(box)
        self.dummies: dict[tuple[int, int], list[int]] = {}
        links: list[tuple[int, int]] = []
        for edge in edges:
            links += self._add_dummies(edge)
        self.below, self.above = _neighbors(len(self.widths), links)

    def _add_dummies(self, edge: Line) -> Iterator[tuple[int, int]]:
        """Link an edge's boxes over the dummies of its port, and add dummies that it lacks."""
        dummies = self.dummies.setdefault((edge.source, edge.port), [])
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
        """Return an edge's points: vertical within layers and across between, around boxes."""
        crossed = self.ranks[edge.target] - self.ranks[edge.source] - 1
        dummies = self.dummies[edge.source, edge.port][:crossed]
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
        """Return the least distance of the centers of two vertices that are next to each other."""
        gap = _LINE_GAP
        if a < self.boxes > b:
            gap = _BOX_GAP
        return (self.widths[a] + self.widths[b]) / 2 + gap


# ---- the order within layers


def _order(graph: _Layers) -> None:
    """Order layers so that few links cross, by the best of several sweeps down and up."""
    layers = _depth_first(graph)
    fewest = _crossings(graph, layers)
    graph.layers = layers
    stale = 0
    # Of very large graphs fewer sweeps are made, as each takes long.
    link_count = sum(map(len, graph.below)) + 1
    for sweep in range(max(4, min(_SWEEPS, _LINKS_SWEPT // link_count))):
        # A sweep down and one up brought nothing.
        if not fewest or stale > 1:
            break
        layers = _sweep(graph, layers, sweep % 2 == 0)
        crossings = _crossings(graph, layers)
        stale += 1
        if crossings < fewest:
            graph.layers, fewest, stale = layers, crossings, 0


def _depth_first(graph: _Layers) -> _Links:
    """Order the layers by a depth-first search from above."""
    layers: _Links = [[] for _ in graph.layers]
    seen = [False] * len(graph.ranks)
    for start in (vertex for layer in graph.layers for vertex in layer if not graph.above[vertex]):
        waiting = [start]
        while waiting:
            vertex = waiting.pop()
            if not seen[vertex]:
                seen[vertex] = True
                layers[graph.ranks[vertex]].append(vertex)
                waiting += reversed(graph.below[vertex])
    return layers


def _positions(layers: Sequence[Sequence[int]], count: int) -> list[float]:
    """Return the position of each vertex in its layer."""
    positions = [0.0] * count
    for layer in layers:
        for position, vertex in enumerate(layer):
            positions[vertex] = position
    return positions


def _sweep(graph: _Layers, layers: _Links, is_downwards: bool) -> _Links:
    """Sort each layer by the barycenters of its neighbors in the one before it.

    Vertices without neighbors stay.
    """
    links = graph.below
    if is_downwards:
        links = graph.above
    positions = _positions(layers, len(graph.ranks))
    ordered = []
    for layer in layers if is_downwards else reversed(layers):
        keys = {}
        for vertex in layer:
            if links[vertex]:
                near = [positions[neighbor] for neighbor in links[vertex]]
                keys[vertex] = sum(near) / len(near)
        moved = iter(sorted(keys, key=keys.__getitem__))
        # Vertices with neighbors swap positions among themselves, so that one without
        # neighbors keeps its position.
        ordered.append([next(moved) if vertex in keys else vertex for vertex in layer])
        for position, vertex in enumerate(ordered[-1]):
            positions[vertex] = position
    if is_downwards:
        return ordered
    return ordered[::-1]


def _crossings(graph: _Layers, layers: _Links) -> int:
    """Count the pairs of links that cross."""
    positions = _positions(layers, len(graph.ranks))
    crossings = 0
    for layer in layers:
        # The ends of the links of the vertices so far, sorted: each that is
        # farther right is crossed.
        passed: list[float] = []
        for vertex in layer:
            targets = [positions[neighbor] for neighbor in graph.below[vertex]]
            if passed:
                crossings += sum([len(passed) - bisect_right(passed, end) for end in targets])
            for end in targets:
                insort(passed, end)
    return crossings


# ---- coordinates


def _horizontal(graph: _Layers) -> list[float]:
    """Choose an x for every vertex, so that the leftmost border is 0.

    Long blocks side by side can push each other, and everything else, far apart. If the picture
    becomes too wide, the vertices are aligned again, in shorter blocks: lines then bend more often,
    and the picture becomes narrow.
    """
    widest = 400.0
    for layer in graph.layers:
        widest = max(widest, sum([graph.distance(a, b) for a, b in pairwise(layer)]))
    for longest in _BLOCK_LENGTHS:
        xs = _brandes_koepf(graph, longest)
        low, high = _extent(graph, xs)
        if high - low <= _SPREAD * widest:
            break
    shifted: list[float] = (xs - low).tolist()
    return shifted


def _brandes_koepf(graph: _Layers, longest: int) -> np.ndarray:
    """Align four times, and take the mean of each vertex's two middle coordinates.

    Each alignment is compacted toward one side.

    The paper lets links that cross long lines give way, which changed nothing in the networks that
    were tried. Vertices have different widths, so blocks are compacted by longest paths instead of
    the paper's class shifts.
    """
    candidates = []
    for links, layers in ((graph.above, graph.layers), (graph.below, graph.layers[::-1])):
        root, roots = _align(layers, links, longest)
        candidates.append(np.array(_compact(graph, layers, root, roots)))
        # Compacting toward the other side is the same in a mirror.
        mirrored = [layer[::-1] for layer in layers]
        root, roots = _align(mirrored, links, longest)
        candidates.append(-np.array(_compact(graph, mirrored, root, roots)))
    # All four move to the narrowest one's border, on the side to which they were compacted.
    extents = [_extent(graph, xs) for xs in candidates]
    low, high = min(extents, key=lambda extent: extent[1] - extent[0])
    for number, (left, right) in enumerate(extents):
        candidates[number] += high - right if number % 2 else low - left
    means: np.ndarray = np.sort(candidates, axis=0)[1:3].mean(axis=0)
    return means


def _extent(graph: _Layers, xs: np.ndarray) -> Point:
    """Return the leftmost and the rightmost border of the vertices."""
    half = np.array(graph.widths) / 2
    return float((xs - half).min()), float((xs + half).max())


def _align(
    layers: Sequence[Sequence[int]], links: _Links, longest: int
) -> tuple[list[int], list[int]]:
    """Join vertices that should share one x into blocks; return the root of each, and all roots.

    Each vertex is aligned with a median neighbor.
    """
    positions = _positions(layers, len(links))
    root = list(range(len(links)))
    # The length of the block so far; 0 if another vertex is aligned with this one.
    length = [1] * len(links)
    for layer in layers[1:]:
        last = -1.0
        for vertex in layer:
            for median in _medians(links, vertex, positions):
                # Alignments never cross, and each vertex has at most one.
                if root[vertex] != vertex or not 0 < length[median] < longest:
                    continue
                if last < positions[median]:
                    root[vertex] = root[median]
                    length[vertex] = length[median] + 1
                    length[median] = 0
                    last = positions[median]
    roots = []
    for layer in layers:
        roots += [vertex for vertex in layer if root[vertex] == vertex]
    return root, roots


def _medians(links: _Links, vertex: int, positions: Sequence[float]) -> list[int]:
    """Return the one or two neighbors in the middle."""
    near = _candidates(links, vertex)
    if len(near) < 2:
        return near
    near = sorted(near, key=positions.__getitem__)
    return near[(len(near) - 1) // 2 : len(near) // 2 + 1]


def _candidates(links: _Links, vertex: int) -> list[int]:
    """Return the neighbors to align a vertex with; of several, the ones that are not ends."""
    near = links[vertex]
    if len(near) < 2:
        return near
    return [neighbor for neighbor in near if links[neighbor]] or near


def _compact(
    graph: _Layers, layers: Sequence[Sequence[int]], root: list[int], roots: list[int]
) -> list[float]:
    """Put each block as far left as it can be, and the first of a layer close to the next."""
    # The least distances to the blocks to the right.
    right: dict[int, dict[int, float]] = {block: {} for block in roots}
    missing = dict.fromkeys(roots, 0)
    for layer in layers:
        for a, b in pairwise(layer):
            neighbors = right[root[a]]
            block = root[b]
            if block not in neighbors:
                missing[block] += 1
            neighbors[block] = max(neighbors.get(block, 0.0), graph.distance(a, b))
    xs = dict.fromkeys(roots, 0.0)
    order = [block for block in roots if not missing[block]]
    # These have nothing to their left, and may move to the right.
    leftmost = len(order)
    # The list grows while it is read.
    for block in order:
        for neighbor, least in right[block].items():
            xs[neighbor] = max(xs[neighbor], xs[block] + least)
            missing[neighbor] -= 1
            if not missing[neighbor]:
                order.append(neighbor)
    for block in reversed(order[:leftmost]):
        if right[block]:
            xs[block] = min([xs[after] - least for after, least in right[block].items()])
    return [xs[block] for block in root]


def _vertical(graph: _Layers) -> list[Point]:
    """Choose the borders of each layer: the more lines between two layers, the farther apart."""
    borders: list[Point] = []
    y = 0.0
    for layer in graph.layers:
        height = max([graph.heights[vertex] for vertex in layer])
        borders.append((y, y + height))
        lines = sum([len(graph.below[vertex]) for vertex in layer])
        y += height + _LAYER_GAP + min(30, 2 * max(0, lines - 2))
    return borders
