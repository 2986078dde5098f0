"""Where the boxes of a layered graph stand, and which way its edges go.

Sugiyama's way in four steps: cut circles; give each box a layer below those that it follows; order the layers so that few edges
cross; give each box an x, by Brandes and Köpf's four alignments ("Fast and Simple Horizontal Coordinate Assignment", 2002).
Boxes have widths of their own, so the alignments are packed by longest paths over their blocks instead of the paper's shifts.
An edge over several layers has an unseen point in each; edges that leave one box for one reason, its ``port``, share them.

Everything is counted in numbers of boxes and sorted by them, so that the same graph is the same picture; nothing recurses.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

__all__ = ["Edge", "Layout", "Size", "far", "laid_out"]

_Point = tuple[float, float]
_Links = list[list[int]]

_BETWEEN_BOXES, _BETWEEN_LINES, _BETWEEN_LAYERS = 18, 12, 22
_WIDEST = 6000  # pixels of a layer, from which on it is broken into rows
_SWEEPS = 24
_SPREAD = 2.5  # times its widest layer that a picture may be wide before straight lines are given up
_SETTLED = 12  # sweeps


@dataclass(frozen=True, slots=True)
class Size:
    """Of a box."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Edge:
    """From one box to another, by their numbers."""

    source: int
    target: int
    port: int = 0


@dataclass(frozen=True)
class Layout:
    """A graph with its places.

    Attributes
    ----------
    centres : list of (x, y)
        Of the boxes.
    routes : list of list of (x, y)
        Of the edges: points from the source's lower border to the target's upper one, or from its upper one to the target's
        lower one where the edge closes a circle; of an edge from a box to itself, no points. A route over several layers begins
        where it leaves that of an edge before it which shares its way.
    branches : list of bool
        Whether an edge's route begins at another one.
    width, height : float
        Everything is between 0 and these.
    """

    centres: list[_Point]
    routes: list[list[_Point]]
    branches: list[bool]
    width: float
    height: float


def laid_out(sizes: Sequence[Size], edges: Sequence[Edge]) -> Layout:
    """Lay a graph out, from top to bottom.

    Examples
    --------
    >>> laid_out([Size(40, 20), Size(40, 20)], [Edge(0, 1)]).centres
    [(20.0, 10.0), (20.0, 52.0)]
    """
    if not sizes:
        return Layout([], [], [], 0, 0)
    turned = _turned(len(sizes), edges)
    down = [Edge(e.target, e.source, -1 - number) if number in turned else e for number, e in enumerate(edges)]
    grid = _Grid(sizes, [edge for edge in down if edge.source != edge.target])
    grid.layers = _ordered(grid)
    xs, ys = _across(grid), _downwards(grid)
    routes = [grid.route(edge, xs, ys) for edge in down]
    branches = [
        bool(route) and route[0][1] > ys[grid.ranks[edge.source]][1] + 0.001 for edge, route in zip(down, routes, strict=True)
    ]
    routes = [route[::-1] if number in turned else route for number, route in enumerate(routes)]
    centres = [(xs[box], (ys[rank][0] + ys[rank][1]) / 2) for box, rank in enumerate(grid.ranks[: len(sizes)])]
    return Layout(centres, routes, branches, max(x + w / 2 for x, w in zip(xs, grid.widths, strict=True)), ys[-1][1])


def far(sizes: Sequence[Size], edges: Sequence[Edge], most: int) -> set[int]:
    """The numbers of the edges that a picture is better off without: the longest, if all together pass over too many layers.

    Parameters
    ----------
    sizes : sequence of Size
        Of the boxes.
    edges : sequence of Edge
    most : int
        How many layers all edges may pass; those that share a port and a way are counted once.
    """
    turned = _turned(len(sizes), edges)
    pairs = [(e.target, e.source) if n in turned else (e.source, e.target) for n, e in enumerate(edges)]
    ranks = _in_rows(_ranks(len(sizes), [pair for pair in pairs if pair[0] != pair[1]]), sizes)
    lengths: dict[tuple[int, int], int] = {}
    users: Counter[tuple[int, int]] = Counter()
    for edge, (a, b) in zip(edges, pairs, strict=True):
        key = (edge.source, edge.port)
        lengths[key] = max(lengths.get(key, 0), ranks[b] - ranks[a] - 1)
        users[key] += 1
    total, cut = sum(lengths.values()), set()
    for key in sorted(lengths, key=lambda key: (-lengths[key] / users[key], key)):  # a way that many share is worth its room
        if total <= most:
            break
        total -= lengths[key]
        cut.add(key)
    # What begins at such a port and ends in the next few layers can stay.
    return {n for n, (a, b) in enumerate(pairs) if (edges[n].source, edges[n].port) in cut and ranks[b] - ranks[a] > 3}


def _links(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[_Links, _Links]:
    """Below and above each box, each neighbour once."""
    below: _Links = [[] for _ in range(count)]
    above: _Links = [[] for _ in range(count)]
    for a, b in dict.fromkeys(pairs):
        below[a].append(b)
        above[b].append(a)
    return below, above


def _turned(count: int, edges: Sequence[Edge]) -> set[int]:
    """The numbers of the edges that close a circle: those that lead back, in a walk that goes deep first."""
    leaving: _Links = [[] for _ in range(count)]
    entered = [0] * count
    for number, edge in enumerate(edges):
        if edge.source != edge.target:
            leaving[edge.source].append(number)
            entered[edge.target] += 1
    found: set[int] = set()
    state = [0] * count  # 1: on the way that the walk is on, 2: done
    for start in sorted(range(count), key=lambda box: bool(entered[box])):
        if state[start]:
            continue
        state[start] = 1
        way = [(start, iter(leaving[start]))]
        while way:
            box, rest = way[-1]
            number = next(rest, -1)
            if number < 0:
                state[box] = 2
                way.pop()
                continue
            target = edges[number].target
            if state[target] == 1:
                found.add(number)
            elif not state[target]:
                state[target] = 1
                way.append((target, iter(leaving[target])))
    return found


def _ranks(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below all that it follows, and then near those with which it has more edges."""
    below, above = _links(count, pairs)
    waits = [len(before) for before in above]
    ready = [box for box in range(count) if not waits[box]]
    ranks = [0] * count
    for box in ready:  # grows on the way
        for after in below[box]:
            ranks[after] = max(ranks[after], ranks[box] + 1)
            waits[after] -= 1
            if not waits[after]:
                ready.append(after)
    for _ in range(6):
        moved = False
        for box in reversed(ready):
            if below[box] and len(below[box]) >= len(above[box]) + bool(above[box]):
                lowest = min(ranks[after] for after in below[box]) - 1
                moved = moved or lowest != ranks[box]
                ranks[box] = lowest
        if not moved:
            break
    first = min(ranks)
    return [rank - first for rank in ranks]


def _in_rows(ranks: Sequence[int], sizes: Sequence[Size]) -> list[int]:
    """The ranks with those layers that are too wide broken into rows; boxes of one layer do not follow each other."""
    layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for box, rank in enumerate(ranks):
        layers[rank].append(box)
    made, row = [0] * len(ranks), 0
    for layer in layers:
        width = 0.0
        for box in layer:
            width += sizes[box].width + _BETWEEN_BOXES
            if width > _WIDEST and width > sizes[box].width + _BETWEEN_BOXES:
                row, width = row + 1, sizes[box].width + _BETWEEN_BOXES
            made[box] = row
        row += 1
    return made


class _Grid:
    """Boxes and unseen points in layers. Points have the numbers after those of the boxes, no height and no width."""

    def __init__(self, sizes: Sequence[Size], edges: Sequence[Edge]) -> None:
        self.boxes = len(sizes)
        self.widths = [size.width for size in sizes]
        self.heights = [size.height for size in sizes]
        self.ranks = _in_rows(_ranks(self.boxes, [(e.source, e.target) for e in edges]), sizes)
        self.layers: list[list[int]] = [[] for _ in range(max(self.ranks) + 1)]
        for box, rank in enumerate(self.ranks):
            self.layers[rank].append(box)
        self._points: dict[tuple[int, int], list[int]] = {}  # of a source and port: those below it, one a layer
        self._drawn: dict[tuple[int, int], int] = {}  # how many of these points lie on routes already
        links = [link for edge in edges for link in self._grown(edge)]
        self.below, self.above = _links(len(self.widths), links)

    def _grown(self, edge: Edge) -> Iterator[tuple[int, int]]:
        """The links of an edge that no edge of its port has had, over new points where it goes further down than they do."""
        points = self._points.setdefault((edge.source, edge.port), [])
        start = self.ranks[edge.source] + 1
        passed = self.ranks[edge.target] - start
        while len(points) < passed:
            point = len(self.widths)
            self.widths.append(0)
            self.heights.append(0)
            self.ranks.append(start + len(points))
            self.layers[self.ranks[point]].append(point)
            yield (points[-1] if points else edge.source), point
            points.append(point)
        yield (points[passed - 1] if passed else edge.source), edge.target

    def route(self, edge: Edge, xs: Sequence[float], ys: Sequence[_Point]) -> list[_Point]:
        """Straight down inside each layer, and across between two: so it meets no box that it passes.

        It begins at the source, or where it leaves the route of an edge before it with which it shares the way.
        """
        if edge.source == edge.target:
            return []
        key = (edge.source, edge.port)
        passed = self.ranks[edge.target] - self.ranks[edge.source] - 1
        shared = min(self._drawn.get(key, 0), passed)
        self._drawn[key] = max(self._drawn.get(key, 0), passed)
        own = self._points[key][shared - 1 if shared else 0 : passed]
        way = [*own, edge.target] if shared else [edge.source, *own, edge.target]
        points = [(xs[place], y) for place in way for y in ys[self.ranks[place]]]
        (end, upper), (_, lower) = points[-2:]
        points[-1] = (end, (upper + lower) / 2 - self.heights[edge.target] / 2)
        (x, top), (_, bottom) = points[:2]
        if shared:
            return points[1:]
        points[0] = (x, (top + bottom) / 2 + self.heights[edge.source] / 2)
        return points


# ---- the order in the layers


def _ordered(grid: _Grid) -> list[list[int]]:
    """Layers in an order with few crossings: swept down and up by medians of neighbours, the best that came by."""
    layers = _by_depth(grid)
    best, fewest, stale = [layer[:] for layer in layers], _crossings(layers, grid.below), 0
    links = sum(map(len, grid.below)) + 1
    for sweep in range(max(4, min(_SWEEPS, 150_000 // links))):
        if not fewest or stale > 3:  # a round of all four kinds of sweeps without a gain
            break
        if sweep % 2 == 0:
            for place in range(1, len(layers)):
                layers[place] = _sorted_by(layers[place - 1], layers[place], grid.above, sweep % 4 < 2)
        else:
            for place in range(len(layers) - 2, -1, -1):
                layers[place] = _sorted_by(layers[place + 1], layers[place], grid.below, sweep % 4 < 2)
        crossings = _crossings(layers, grid.below)
        stale += 1
        if crossings < fewest:
            best, fewest, stale = [layer[:] for layer in layers], crossings, 0
    return best


def _by_depth(grid: _Grid) -> list[list[int]]:
    """The order in which a walk from above, deep first, comes by."""
    layers: list[list[int]] = [[] for _ in grid.layers]
    seen = [False] * len(grid.ranks)
    for start in (place for layer in grid.layers for place in layer if not grid.above[place]):
        waiting = [start]
        while waiting:
            place = waiting.pop()
            if not seen[place]:
                seen[place] = True
                layers[grid.ranks[place]].append(place)
                waiting += reversed(grid.below[place])
    return layers


def _sorted_by(beside: Sequence[int], layer: list[int], links: _Links, median: bool) -> list[int]:
    """A layer sorted by where the neighbours in the layer beside it stand; what has none keeps its place."""
    if len(layer) < 2:
        return layer
    where = {place: number for number, place in enumerate(beside)}
    keys = {place: _middle([where[other] for other in links[place]], median) for place in layer if links[place]}
    moved = iter(sorted(keys, key=keys.__getitem__))
    return [next(moved) if place in keys else place for place in layer]


def _middle(numbers: list[int], median: bool) -> float:
    numbers.sort()
    half = len(numbers) // 2
    if len(numbers) % 2:
        return numbers[half]
    return (numbers[half - 1] + numbers[half]) / 2 if median else sum(numbers) / len(numbers)


def _crossings(layers: Sequence[Sequence[int]], below: _Links) -> int:
    return sum(_crossings_between(upper, lower, below) for upper, lower in pairwise(layers))


def _crossings_between(upper: Sequence[int], lower: Sequence[int], below: _Links) -> int:
    """Pairs of links that cross, counted in a tree of sums (Barth, Jünger and Mutzel, 2002)."""
    if len(upper) < 2 or len(lower) < 2:
        return 0
    where = {place: number + 1 for number, place in enumerate(lower)}
    tree = [0] * (len(lower) + 1)
    counted = crossings = 0
    for place in upper:
        ends = [where[other] for other in below[place]]
        for end in ends:
            crossings += counted
            while end:
                crossings -= tree[end]
                end &= end - 1
        for end in ends:
            counted += 1
            while end < len(tree):
                tree[end] += 1
                end += end & -end
    return crossings


# ---- across


def _across(grid: _Grid) -> list[float]:
    """An x for every place, the least of them at 0 with its width."""
    xs = _aligned(grid)
    left, right = _extent(grid, xs)
    widest = max(sum(_apart(grid, a, b) for a, b in pairwise(layer)) for layer in grid.layers)
    if right - left > _SPREAD * max(widest, 400):
        # Many long straight lines side by side push each other away, and everything with them.
        xs = _settled(grid)
        left, _ = _extent(grid, xs)
    return [x - left for x in xs]


def _settled(grid: _Grid) -> list[float]:
    """Each layer as near to its neighbours' means as it can be, swept down and up: narrow, with lines less straight."""
    xs = [0.0] * len(grid.ranks)
    for sweep in range(_SETTLED):
        layers, links = (grid.layers, grid.above) if sweep % 2 == 0 else (grid.layers[::-1], grid.below)
        for layer in layers:
            wishes = [
                sum(xs[other] for other in links[place]) / len(links[place]) if links[place] else xs[place] for place in layer
            ]
            shifts = [0.0, *accumulate(_apart(grid, a, b) for a, b in pairwise(layer))]
            weights = [4 if place >= grid.boxes else 1 for place in layer]
            rising = _rising([wish - shift for wish, shift in zip(wishes, shifts, strict=True)], weights)
            for place, x, shift in zip(layer, rising, shifts, strict=True):
                xs[place] = x + shift
    return xs


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _rising(wishes: Sequence[float], weights: Sequence[int]) -> list[float]:
    """The numbers that never fall and are nearest to these, by squares: those that fall are pooled to their mean.

    Examples
    --------
    >>> _rising([1, 5, 3, 9], [1, 1, 1, 1])
    [1.0, 4.0, 4.0, 9.0]
    """
    pools: list[tuple[float, int, int]] = []  # sum, weight and count
    for wish, weight in zip(wishes, weights, strict=True):
        total, heavy, count = wish * weight, weight, 1
        while pools and pools[-1][0] / pools[-1][1] > total / heavy:
            before = pools.pop()
            total, heavy, count = total + before[0], heavy + before[1], count + before[2]
        pools.append((total, heavy, count))
    return [total / heavy for total, heavy, count in pools for _ in range(count)]


def _aligned(grid: _Grid) -> list[float]:
    """Of four alignments, each packed to one side, the mean of the two in the middle."""
    crossed = _crossed(grid)
    made = []
    for links, layers in ((grid.above, grid.layers), (grid.below, grid.layers[::-1])):
        for mirrored in (False, True):
            ordered = [layer[::-1] for layer in layers] if mirrored else layers
            xs = _packed(grid, ordered, *_blocks(ordered, links, crossed))
            made.append([-x for x in xs] if mirrored else xs)
    narrow = min(made, key=lambda xs: _extent(grid, xs)[1] - _extent(grid, xs)[0])
    left, right = _extent(grid, narrow)
    for number, xs in enumerate(made):
        own = _extent(grid, xs)
        shift = right - own[1] if number % 2 else left - own[0]
        made[number] = [x + shift for x in xs]
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*made, strict=True)]


def _extent(grid: _Grid, xs: Sequence[float]) -> _Point:
    pairs = list(zip(xs, grid.widths, strict=True))
    return min(x - w / 2 for x, w in pairs), max(x + w / 2 for x, w in pairs)


def _crossed(grid: _Grid) -> set[tuple[int, int]]:
    """_Links that cross a link between two unseen points: they give way, so that long edges are straight."""
    found: set[tuple[int, int]] = set()
    for upper, lower in pairwise(grid.layers):
        where = {place: number for number, place in enumerate(upper)}
        begin = left = 0
        for number, place in enumerate(lower):
            inner = next((where[u] for u in grid.above[place] if place >= grid.boxes <= u), None)
            if inner is None and number < len(lower) - 1:
                continue
            right = len(upper) - 1 if inner is None else inner
            for passed in lower[begin : number + 1]:
                for other in grid.above[passed]:
                    if not left <= where[other] <= right and not (passed >= grid.boxes <= other):
                        found.add((other, passed))
            begin, left = number + 1, right
    return found


def _blocks(layers: Sequence[Sequence[int]], links: _Links, crossed: set[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Chains of places that shall have one x: the first of each place's chain, and all such firsts."""
    where = {place: number for layer in layers for number, place in enumerate(layer)}
    root = list(range(len(links)))
    follows = [False] * len(links)  # whether somebody is aligned below it
    for layer in layers[1:]:
        last = -1
        for place in layer:
            near = sorted(_leading(links, place), key=where.__getitem__)
            for other in near[(len(near) - 1) // 2 : len(near) // 2 + 1]:
                free = (other, place) not in crossed and (place, other) not in crossed
                if free and root[place] == place and not follows[other] and last < where[other]:
                    root[place], follows[other], last = root[other], True, where[other]
    return root, [place for layer in layers for place in layer if root[place] == place]


def _leading(links: _Links, place: int) -> list[int]:
    """The neighbours that a place may be aligned with: not those that only stand beside the way, with nothing behind them."""
    near = links[place]
    return ([other for other in near if links[other]] or near) if len(near) > 1 else near


def _packed(grid: _Grid, layers: Sequence[Sequence[int]], root: list[int], roots: list[int]) -> list[float]:
    """An x for every block: as far to the left as those beside it let it, and the first of a row near the next."""
    right: dict[int, dict[int, float]] = {block: {} for block in roots}
    waits = dict.fromkeys(roots, 0)
    for layer in layers:
        for a, b in pairwise(layer):
            beside, block = right[root[a]], root[b]
            waits[block] += block not in beside
            beside[block] = max(beside.get(block, 0), _apart(grid, a, b))
    xs = dict.fromkeys(roots, 0.0)
    ready = deque(block for block in roots if not waits[block])
    inner = {block for block in roots if waits[block]}
    done = []
    while ready:
        block = ready.popleft()
        done.append(block)
        for other, least in right[block].items():
            xs[other] = max(xs[other], xs[block] + least)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    for block in reversed(done):
        if right[block] and block not in inner:
            xs[block] = min(xs[other] - least for other, least in right[block].items())
    return [xs[block] for block in root]


def _apart(grid: _Grid, a: int, b: int) -> float:
    gap = _BETWEEN_BOXES if a < grid.boxes > b else _BETWEEN_LINES
    return (grid.widths[a] + grid.widths[b]) / 2 + gap


def _downwards(grid: _Grid) -> list[_Point]:
    """The upper and lower border of each layer; more room where many lines go far across."""
    made: list[_Point] = []
    y = 0.0
    for layer in grid.layers:
        height = max(grid.heights[place] for place in layer)
        made.append((y, y + height))
        y += height + _BETWEEN_LAYERS + min(30, 2 * max(0, sum(len(grid.below[place]) for place in layer) - 2))
    return made
