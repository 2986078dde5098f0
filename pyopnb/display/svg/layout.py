"""Coordinates for the boxes and edges of a directed graph, drawn in layers from top to bottom.

The method is that of Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical System Structures", 1981), in
four phases:

1. Remove cycles: edges that lead back in a depth-first search are reversed (`_back_edges`).
2. Assign layers by longest paths (`_layers_of`). An edge over several layers gets a dummy, a point without a size, in each of
   them; edges that leave the same port of a box share their dummies (`_Layering`).
3. Order the layers so that few edges cross: sweeps by medians and barycentres of neighbours (`_order`).
4. Assign coordinates: x by the four alignments of Brandes and Köpf ("Fast and Simple Horizontal Coordinate Assignment", 2002;
   `_horizontal`), y layer by layer (`_vertical`).

Ties are broken by the indices of boxes, so the same graph always gets the same picture. Nothing recurses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Edge", "Layout", "Size", "edges_to_cut", "lay_out"]

_Point = tuple[float, float]
_Links = list[list[int]]

_BOX_GAP, _LINE_GAP, _LAYER_GAP = 18, 12, 22  # pixels
_WIDEST = 6000  # pixels of a layer; a wider one is broken into rows
_SWEEPS = 24
_SPREAD = 2.5  # times the widest layer that a picture may be wide before long straight lines are given up
_BLOCK_LENGTHS = (1_000_000, 16, 4, 2, 1)  # vertices that may share one x


@dataclass(frozen=True, slots=True)
class Size:
    """The width and height of a box."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one box to another, by their indices."""

    source: int
    target: int
    port: int = 0


@dataclass(frozen=True)
class Layout:
    """The coordinates of a graph.

    Attributes
    ----------
    centres : list of (x, y)
        The centres of the boxes.
    routes : list of list of (x, y)
        Points of each edge from the source's lower border to the target's upper one, or from the source's upper border to the
        target's lower one if the edge closes a cycle. An edge from a box to itself has no points. A route that shares dummies
        with an earlier edge begins where it leaves that edge's route.
    branches : list of bool
        Whether an edge's route begins on another route.
    width, height : float
        All coordinates are between 0 and these.
    """

    centres: list[_Point]
    routes: list[list[_Point]]
    branches: list[bool]
    width: float
    height: float


def lay_out(sizes: Sequence[Size], edges: Sequence[Edge]) -> Layout:
    """Lay a graph out.

    Parameters
    ----------
    sizes : sequence of Size
        The boxes.
    edges : sequence of Edge

    Returns
    -------
    Layout

    Examples
    --------
    >>> lay_out([Size(40, 20), Size(40, 20)], [Edge(0, 1)]).centres
    [(20.0, 10.0), (20.0, 52.0)]
    """
    if not sizes:
        return Layout([], [], [], 0, 0)
    reversed_edges = _back_edges(len(sizes), edges)
    downward = [Edge(e.target, e.source, -1 - n) if n in reversed_edges else e for n, e in enumerate(edges)]
    graph = _Layering(sizes, [edge for edge in downward if edge.source != edge.target])
    graph.layers = _order(graph)
    xs, ys = _horizontal(graph), _vertical(graph)
    routes, branches = [], []
    for number, edge in enumerate(downward):
        route = graph.route(edge, xs, ys)
        branches.append(bool(route) and route[0][1] > ys[graph.ranks[edge.source]][1] + 0.001)
        routes.append(route[::-1] if number in reversed_edges else route)
    centres = [(xs[box], sum(ys[rank]) / 2) for box, rank in enumerate(graph.ranks[: len(sizes)])]
    return Layout(centres, routes, branches, _extent(graph, xs)[1], ys[-1][1])


def edges_to_cut(sizes: Sequence[Size], edges: Sequence[Edge], most: int) -> set[int]:
    """The edges that a picture is better off without: the longest, if all edges together cross too many layers.

    Parameters
    ----------
    sizes : sequence of Size
        The boxes.
    edges : sequence of Edge
    most : int
        How many layers all edges together may cross; edges of one port count once.

    Returns
    -------
    set of int
        Indices of edges.
    """
    reversed_edges = _back_edges(len(sizes), edges)
    pairs = [(e.target, e.source) if n in reversed_edges else (e.source, e.target) for n, e in enumerate(edges)]
    ranks = _break_wide_layers(_layers_of(len(sizes), [pair for pair in pairs if pair[0] != pair[1]]), sizes)
    lengths: dict[tuple[int, int], int] = {}
    users: Counter[tuple[int, int]] = Counter()
    for edge, (a, b) in zip(edges, pairs, strict=True):
        key = (edge.source, edge.port)
        lengths[key] = max(lengths.get(key, 0), ranks[b] - ranks[a] - 1)
        users[key] += 1
    total, cut = sum(lengths.values()), set()
    for key in sorted(lengths, key=lambda key: (-lengths[key] / users[key], key)):  # what many edges share is worth its space
        if total <= most:
            break
        total -= lengths[key]
        cut.add(key)
    # Edges of such a port that end in one of the next few layers can stay.
    return {n for n, (a, b) in enumerate(pairs) if (edges[n].source, edges[n].port) in cut and ranks[b] - ranks[a] > 3}


# ---- phases 1 and 2: cycles and layers


def _neighbours(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[_Links, _Links]:
    """The successors and predecessors of each of ``count`` vertices, each once."""
    below: _Links = [[] for _ in range(count)]
    above: _Links = [[] for _ in range(count)]
    for a, b in dict.fromkeys(pairs):
        below[a].append(b)
        above[b].append(a)
    return below, above


def _back_edges(count: int, edges: Sequence[Edge]) -> set[int]:
    """The indices of the edges that close a cycle in a depth-first search, which starts at the sources of the graph."""
    if all(edge.source <= edge.target for edge in edges):  # as in most models: the order of the boxes is topological
        return set()
    leaving: _Links = [[] for _ in range(count)]
    has_input = [False] * count
    for number, edge in enumerate(edges):
        if edge.source != edge.target:
            leaving[edge.source].append(number)
            has_input[edge.target] = True
    back: set[int] = set()
    unseen, active, finished = range(3)
    state = [unseen] * count
    for start in sorted(range(count), key=has_input.__getitem__):
        if state[start] != unseen:
            continue
        state[start] = active
        path = [(start, iter(leaving[start]))]
        while path:
            box, rest = path[-1]
            number = next(rest, -1)
            if number < 0:
                state[box] = finished
                path.pop()
                continue
            target = edges[number].target
            if state[target] == active:
                back.add(number)
            elif state[target] == unseen:
                state[target] = active
                path.append((target, iter(leaving[target])))
    return back


def _layers_of(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box by longest paths; then boxes with more edges down than up move down, close to their successors."""
    below, above = _neighbours(count, pairs)
    missing = [len(before) for before in above]
    order = [box for box in range(count) if not missing[box]]  # topological (Kahn, 1962)
    ranks = [0] * count
    for box in order:  # grows while it is read
        for after in below[box]:
            ranks[after] = max(ranks[after], ranks[box] + 1)
            missing[after] -= 1
            if not missing[after]:
                order.append(after)
    for _ in range(6):
        moved = False
        for box in reversed(order):
            if below[box] and len(below[box]) >= len(above[box]) + bool(above[box]):
                lowest = min([ranks[after] for after in below[box]]) - 1
                moved = moved or lowest != ranks[box]
                ranks[box] = lowest
        if not moved:
            break
    first = min(ranks)
    return [rank - first for rank in ranks]


def _break_wide_layers(ranks: Sequence[int], sizes: Sequence[Size]) -> list[int]:
    """The ranks with layers that are too wide broken into rows, which is possible as boxes of a layer are not connected."""
    layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for box, rank in enumerate(ranks):
        layers[rank].append(box)
    broken, row = [0] * len(ranks), 0
    for layer in layers:
        width = 0.0
        for box in layer:
            own = sizes[box].width + _BOX_GAP
            width += own
            if _WIDEST < width != own:
                row, width = row + 1, own
            broken[box] = row
        row += 1
    return broken


class _Layering:
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

    def __init__(self, sizes: Sequence[Size], edges: Sequence[Edge]) -> None:
        self.boxes = len(sizes)
        self.widths = [size.width for size in sizes]
        self.heights = [size.height for size in sizes]
        self.ranks = _break_wide_layers(_layers_of(self.boxes, [(e.source, e.target) for e in edges]), sizes)
        self.layers: list[list[int]] = [[] for _ in range(max(self.ranks) + 1)]
        for box, rank in enumerate(self.ranks):
            self.layers[rank].append(box)
        self._dummies: dict[tuple[int, int], list[int]] = {}  # of a source and port, one a layer below it
        self._routed: dict[tuple[int, int], int] = {}  # how many of these are on routes already
        links = [link for edge in edges for link in self._add_dummies(edge)]
        self.below, self.above = _neighbours(len(self.widths), links)

    def _add_dummies(self, edge: Edge) -> Iterator[tuple[int, int]]:
        """The links of an edge that no earlier edge of its port has, over new dummies where it is longer than those."""
        dummies = self._dummies.setdefault((edge.source, edge.port), [])
        first = self.ranks[edge.source] + 1
        crossed = self.ranks[edge.target] - first
        while len(dummies) < crossed:
            dummy = len(self.widths)
            self.widths.append(0)
            self.heights.append(0)
            self.ranks.append(first + len(dummies))
            self.layers[self.ranks[dummy]].append(dummy)
            yield (dummies[-1] if dummies else edge.source), dummy
            dummies.append(dummy)
        yield (dummies[crossed - 1] if crossed else edge.source), edge.target

    def route(self, edge: Edge, xs: Sequence[float], ys: Sequence[_Point]) -> list[_Point]:
        """Points of an edge: vertical within layers and across between them, so that it meets no box.

        It begins at the source, or where it leaves the route of an earlier edge of its port.
        """
        if edge.source == edge.target:
            return []
        key = (edge.source, edge.port)
        crossed = self.ranks[edge.target] - self.ranks[edge.source] - 1
        shared = min(self._routed.get(key, 0), crossed)
        self._routed[key] = max(self._routed.get(key, 0), crossed)
        own = self._dummies[key][shared - 1 if shared else 0 : crossed]
        vertices = [*own, edge.target] if shared else [edge.source, *own, edge.target]
        points = [(xs[vertex], y) for vertex in vertices for y in ys[self.ranks[vertex]]]
        (end, upper), (_, lower) = points[-2:]
        points[-1] = (end, (upper + lower) / 2 - self.heights[edge.target] / 2)
        (x, top), (_, bottom) = points[:2]
        if shared:
            return points[1:]
        points[0] = (x, (top + bottom) / 2 + self.heights[edge.source] / 2)
        return points

    def distance(self, a: int, b: int) -> float:
        """The least distance of the centres of two vertices that are next to each other."""
        gap = _BOX_GAP if a < self.boxes > b else _LINE_GAP
        return (self.widths[a] + self.widths[b]) / 2 + gap


# ---- phase 3: the order within layers


def _order(graph: _Layering) -> list[list[int]]:
    """Layers in an order with few crossings: of several sweeps down and up, the best."""
    layers = _depth_first(graph)
    positions = [0] * len(graph.ranks)
    for layer in layers:
        _number(layer, positions)
    crossings = [_crossings(upper, graph.below, positions) for upper in layers]  # below each layer
    best, fewest, stale = [layer[:] for layer in layers], sum(crossings), 0
    links = sum(map(len, graph.below)) + 1
    for sweep in range(max(4, min(_SWEEPS, 150_000 // links))):
        if not fewest or stale > 3:  # a round of all four kinds of sweeps brought nothing
            break
        downwards, median = sweep % 2 == 0, sweep % 4 < 2
        changed: set[int] = set()
        for rank in range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1):
            layer = _sort_layer(layers[rank], graph.above if downwards else graph.below, positions, median)
            if layer != layers[rank]:
                layers[rank] = layer
                _number(layer, positions)
                changed |= {rank - 1, rank} if rank else {0}
        for rank in changed:
            crossings[rank] = _crossings(layers[rank], graph.below, positions)
        stale += 1
        if sum(crossings) < fewest:
            best, fewest, stale = [layer[:] for layer in layers], sum(crossings), 0
    return best


def _number(layer: Sequence[int], positions: list[int]) -> None:
    for position, vertex in enumerate(layer):
        positions[vertex] = position


def _depth_first(graph: _Layering) -> list[list[int]]:
    """The layers in the order of a depth-first search from above."""
    layers: list[list[int]] = [[] for _ in graph.layers]
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


def _sort_layer(layer: list[int], links: _Links, positions: Sequence[int], median: bool) -> list[int]:
    """A layer sorted by the medians or barycentres of its neighbours; vertices without neighbours stay."""
    if len(layer) < 2:
        return layer
    keys: dict[int, float] = {}
    for vertex in layer:
        near = links[vertex]
        if len(near) == 1:
            keys[vertex] = positions[near[0]]
        elif near:
            keys[vertex] = _centre(sorted([positions[other] for other in near]), median)
    moved = iter(sorted(keys, key=keys.__getitem__))
    return [next(moved) if vertex in keys else vertex for vertex in layer]


def _centre(positions: Sequence[int], median: bool) -> float:
    """The median of sorted positions, or, of an even number of them, their barycentre."""
    half = len(positions) // 2
    if len(positions) % 2:
        return positions[half]
    return (positions[half - 1] + positions[half]) / 2 if median else sum(positions) / len(positions)


def _crossings(upper: Sequence[int], below: _Links, positions: Sequence[int]) -> int:
    """Pairs of links below a layer that cross, counted in a tree of sums (Barth, Jünger and Mutzel, 2002)."""
    if len(upper) < 2:
        return 0
    ends = [[positions[other] + 1 for other in below[vertex]] for vertex in upper]
    tree = [0] * (max(map(max, filter(None, ends)), default=0) + 1)
    counted = crossings = 0
    for group in ends:
        for end in group:
            crossings += counted
            while end:
                crossings -= tree[end]
                end &= end - 1
        for end in group:
            counted += 1
            while end < len(tree):
                tree[end] += 1
                end += end & -end
    return crossings


# ---- phase 4: coordinates


def _horizontal(graph: _Layering) -> list[float]:
    """An x for every vertex, so that the leftmost border is 0.

    Long blocks side by side can push each other, and everything else, far apart. If the picture becomes too wide, the vertices
    are aligned again, in shorter blocks: lines then bend more often, and the picture becomes narrow.
    """
    widest = max(sum([graph.distance(a, b) for a, b in pairwise(layer)]) for layer in graph.layers)
    conflicts = _conflicts(graph)
    for longest in _BLOCK_LENGTHS:
        xs = _brandes_koepf(graph, conflicts, longest)
        left, right = _extent(graph, xs)
        if right - left <= _SPREAD * max(widest, 400):
            break
    return [x - left for x in xs]


def _brandes_koepf(graph: _Layering, conflicts: set[tuple[int, int]], longest: int) -> list[float]:
    """Four alignments, each compacted towards one side; of each vertex the mean of the two middle coordinates.

    Vertices have different widths, so blocks are compacted by longest paths instead of the paper's class shifts.
    """
    candidates = []
    for links, layers in ((graph.above, graph.layers), (graph.below, graph.layers[::-1])):
        for mirrored in (False, True):
            ordered = [layer[::-1] for layer in layers] if mirrored else layers
            xs = _compact(graph, ordered, *_align(ordered, links, conflicts, longest))
            candidates.append([-x for x in xs] if mirrored else xs)
    extents = [_extent(graph, xs) for xs in candidates]
    left, right = min(extents, key=lambda extent: extent[1] - extent[0])
    shifts = [right - own[1] if number % 2 else left - own[0] for number, own in enumerate(extents)]
    a, b, c, d = ([x + shift for x in xs] for xs, shift in zip(candidates, shifts, strict=True))
    return [sum(sorted(four)[1:3]) / 2 for four in zip(a, b, c, d, strict=True)]


def _extent(graph: _Layering, xs: Sequence[float]) -> _Point:
    pairs = list(zip(xs, graph.widths, strict=True))
    return min([x - w / 2 for x, w in pairs]), max([x + w / 2 for x, w in pairs])


def _conflicts(graph: _Layering) -> set[tuple[int, int]]:
    """Type 1 conflicts: links that cross a link between two dummies, and are not aligned so that long edges are straight."""
    conflicts: set[tuple[int, int]] = set()
    for upper, lower in pairwise(graph.layers):
        if not any(vertex >= graph.boxes for vertex in upper):
            continue
        positions = {vertex: position for position, vertex in enumerate(upper)}
        begin = left = 0
        for position, vertex in enumerate(lower):
            inner = next((positions[u] for u in graph.above[vertex] if vertex >= graph.boxes <= u), None)
            if inner is None and position < len(lower) - 1:
                continue
            right = len(upper) - 1 if inner is None else inner
            for passed in lower[begin : position + 1]:
                for other in graph.above[passed]:
                    if not left <= positions[other] <= right and not (passed >= graph.boxes <= other):
                        conflicts.add((other, passed))
            begin, left = position + 1, right
    return conflicts


def _align(
    layers: Sequence[Sequence[int]], links: _Links, conflicts: set[tuple[int, int]], longest: int
) -> tuple[list[int], list[int]]:
    """Blocks of vertices that shall have one x, each aligned with a median neighbour: the root of each, and all roots."""
    positions = [0] * len(links)
    for layer in layers:
        _number(layer, positions)
    root = list(range(len(links)))
    length = [1] * len(links)  # of the block so far; 0 if another vertex is aligned with this one
    for layer in layers[1:]:
        last = -1
        for vertex in layer:
            near = _candidates(links, vertex)
            if len(near) > 1:
                near = sorted(near, key=positions.__getitem__)[(len(near) - 1) // 2 : len(near) // 2 + 1]
            for other in near:
                if (
                    root[vertex] == vertex
                    and 0 < length[other] < longest
                    and last < positions[other]
                    and (other, vertex) not in conflicts
                    and (vertex, other) not in conflicts
                ):
                    root[vertex], length[vertex], length[other] = root[other], length[other] + 1, 0
                    last = positions[other]
    return root, [vertex for layer in layers for vertex in layer if root[vertex] == vertex]


def _candidates(links: _Links, vertex: int) -> list[int]:
    """The neighbours to align a vertex with: of several, those that are not an end themselves."""
    near = links[vertex]
    return ([other for other in near if links[other]] or near) if len(near) > 1 else near


def _compact(graph: _Layering, layers: Sequence[Sequence[int]], root: list[int], roots: list[int]) -> list[float]:
    """An x for every vertex: each block as far left as its neighbours allow, the first of a layer as close to the next."""
    right: dict[int, dict[int, float]] = {block: {} for block in roots}  # least distances to the blocks to the right
    missing = dict.fromkeys(roots, 0)
    for layer in layers:
        for a, b in pairwise(layer):
            neighbours, block = right[root[a]], root[b]
            known = neighbours.get(block)
            missing[block] += known is None
            neighbours[block] = max(known or 0.0, graph.distance(a, b))
    xs = dict.fromkeys(roots, 0.0)
    order = [block for block in roots if not missing[block]]
    leftmost = len(order)
    for block in order:  # grows while it is read
        for other, least in right[block].items():
            xs[other] = max(xs[other], xs[block] + least)
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    for block in reversed(order[:leftmost]):
        if right[block]:
            xs[block] = min([xs[other] - least for other, least in right[block].items()])
    return [xs[block] for block in root]


def _vertical(graph: _Layering) -> list[_Point]:
    """The upper and lower border of each layer; the more lines run between two layers, the farther they are apart."""
    borders: list[_Point] = []
    y = 0.0
    for layer in graph.layers:
        height = max([graph.heights[vertex] for vertex in layer])
        borders.append((y, y + height))
        y += height + _LAYER_GAP + min(30, 2 * max(0, sum([len(graph.below[vertex]) for vertex in layer]) - 2))
    return borders
