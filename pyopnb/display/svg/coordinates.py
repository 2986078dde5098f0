"""Coordinates of the vertices in layers: phase 3 of `pyopnb.display.svg.layout`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyopnb.display.svg.layer_order import number_vertices
from pyopnb.display.svg.layers import LAYER_GAP, Layering, Links, Point

__all__ = ["extent", "horizontal", "vertical"]

# Times the widest layer that a picture may be wide before long straight lines are given up.
_SPREAD = 2.5
# So many vertices may share one x; the shorter lengths are for pictures that get too wide.
_BLOCK_LENGTHS = (1_000_000, 4, 1)


def horizontal(graph: Layering) -> list[float]:
    """Choose an x for every vertex, so that the leftmost border is 0.

    Long blocks side by side can push each other, and everything else, far apart. If the picture becomes too wide, the vertices
    are aligned again, in shorter blocks: lines then bend more often, and the picture becomes narrow.
    """
    widest = 400.0
    for layer in graph.layers:
        widest = max(widest, sum([graph.distance(a, b) for a, b in pairwise(layer)]))
    for longest in _BLOCK_LENGTHS:
        xs = _brandes_koepf(graph, longest)
        low, high = extent(graph, xs)
        if high - low <= _SPREAD * widest:
            break
    return [x - low for x in xs]


def _brandes_koepf(graph: Layering, longest: int) -> list[float]:
    """Align four times, each compacted towards one side, and take of each vertex the mean of the two middle coordinates.

    The paper lets links that cross long lines give way, which changed nothing in the networks that were tried. Vertices have
    different widths, so blocks are compacted by longest paths instead of the paper's class shifts.
    """
    candidates = []
    for links, layers in ((graph.above, graph.layers), (graph.below, graph.layers[::-1])):
        root, roots = _align(layers, links, longest)
        candidates.append(_compact(graph, layers, root, roots))
        # Towards the other side is the same in a mirror.
        mirrored = [layer[::-1] for layer in layers]
        root, roots = _align(mirrored, links, longest)
        candidates.append([-x for x in _compact(graph, mirrored, root, roots)])
    # All four get the borders of the narrowest, on the side to which they were compacted.
    extents = [extent(graph, xs) for xs in candidates]
    low, high = min(extents, key=_extent_width)
    shifted = []
    for number, xs in enumerate(candidates):
        left, right = extents[number]
        shift = high - right if number % 2 else low - left
        shifted.append([x + shift for x in xs])
    means = []
    for four in zip(*shifted, strict=True):
        _, second, third, _ = sorted(four)
        means.append((second + third) / 2)
    return means


def extent(graph: Layering, xs: Sequence[float]) -> Point:
    """Return the leftmost and the rightmost border of the vertices."""
    low = high = xs[0]
    for x, width in zip(xs, graph.widths, strict=True):
        low = min(low, x - width / 2)
        high = max(high, x + width / 2)
    return low, high


def _extent_width(extent: Point) -> float:
    return extent[1] - extent[0]


def _align(
    layers: Sequence[Sequence[int]], links: Links, longest: int
) -> tuple[list[int], list[int]]:
    """Join vertices that shall have one x into blocks; return the root of each, and all roots.

    Each vertex is aligned with a median neighbour.
    """
    positions = [0] * len(links)
    for layer in layers:
        number_vertices(layer, positions)
    root = list(range(len(links)))
    # The length of the block so far; 0 if another vertex is aligned with this one.
    length = [1] * len(links)
    for layer in layers[1:]:
        last = -1
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


def _medians(links: Links, vertex: int, positions: Sequence[int]) -> list[int]:
    """Return the one or two neighbours in the middle."""
    near = _candidates(links, vertex)
    if len(near) < 2:
        return near
    near = sorted(near, key=positions.__getitem__)
    return near[(len(near) - 1) // 2 : len(near) // 2 + 1]


def _candidates(links: Links, vertex: int) -> list[int]:
    """Return the neighbours to align a vertex with: of several, those that are not an end themselves."""
    near = links[vertex]
    if len(near) < 2:
        return near
    return [neighbour for neighbour in near if links[neighbour]] or near


def _compact(
    graph: Layering, layers: Sequence[Sequence[int]], root: list[int], roots: list[int]
) -> list[float]:
    """Put each block as far left as its neighbours allow, and the first of a layer as close to the next."""
    # The least distances to the blocks to the right.
    right: dict[int, dict[int, float]] = {block: {} for block in roots}
    missing = dict.fromkeys(roots, 0)
    for layer in layers:
        for a, b in pairwise(layer):
            neighbours = right[root[a]]
            block = root[b]
            if block not in neighbours:
                missing[block] += 1
            neighbours[block] = max(neighbours.get(block, 0.0), graph.distance(a, b))
    xs = dict.fromkeys(roots, 0.0)
    order = [block for block in roots if not missing[block]]
    # These have nothing to their left, and may move to the right.
    leftmost = len(order)
    # The list grows while it is read.
    for block in order:
        for neighbour, least in right[block].items():
            xs[neighbour] = max(xs[neighbour], xs[block] + least)
            missing[neighbour] -= 1
            if not missing[neighbour]:
                order.append(neighbour)
    for block in reversed(order[:leftmost]):
        if right[block]:
            xs[block] = min([xs[after] - least for after, least in right[block].items()])
    return [xs[block] for block in root]


def vertical(graph: Layering) -> list[Point]:
    """Choose the upper and lower border of each layer; the more lines run between two layers, the farther they are apart."""
    borders: list[Point] = []
    y = 0.0
    for layer in graph.layers:
        height = max([graph.heights[vertex] for vertex in layer])
        borders.append((y, y + height))
        lines = sum([len(graph.below[vertex]) for vertex in layer])
        y += height + LAYER_GAP + min(30, 2 * max(0, lines - 2))
    return borders
