"""The order within layers, so that few edges cross: phase 2 of `pyopnb.display.svg.layout`."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from pyopnb.display.svg.layers import Layering, Links

__all__ = ["number_vertices", "order_layers"]

_SWEEPS = 24


def order_layers(graph: Layering) -> list[list[int]]:
    """Order layers so that few links cross: of several sweeps down and up, the best counts."""
    layers = _depth_first(graph)
    positions = [0] * len(graph.ranks)
    for layer in layers:
        number_vertices(layer, positions)
    best = [layer[:] for layer in layers]
    fewest = _crossings(graph, layers, positions)
    stale = 0
    # Of very large graphs fewer sweeps are made, as each takes long.
    link_count = sum(map(len, graph.below)) + 1
    for sweep in range(max(4, min(_SWEEPS, 75_000 // link_count))):
        # A round of all four kinds of sweeps brought nothing.
        if not fewest or stale > 3:
            break
        _sweep(graph, layers, positions, sweep % 2 == 0, sweep % 4 < 2)
        crossings = _crossings(graph, layers, positions)
        stale += 1
        if crossings < fewest:
            best = [layer[:] for layer in layers]
            fewest = crossings
            stale = 0
    return best


def _sweep(
    graph: Layering,
    layers: list[list[int]],
    positions: list[int],
    is_downwards: bool,
    is_median: bool,
) -> None:
    """Sort each layer by the one before it."""
    ranks = range(1, len(layers))
    links = graph.above
    if not is_downwards:
        ranks = range(len(layers) - 2, -1, -1)
        links = graph.below
    for rank in ranks:
        layers[rank] = _sort_layer(layers[rank], links, positions, is_median)
        number_vertices(layers[rank], positions)


def number_vertices(layer: Sequence[int], positions: list[int]) -> None:
    """Write down the position of each vertex of a layer."""
    for position, vertex in enumerate(layer):
        positions[vertex] = position


def _depth_first(graph: Layering) -> list[list[int]]:
    """Order the layers by a depth-first search from above."""
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


def _sort_layer(
    layer: list[int], links: Links, positions: Sequence[int], median: bool
) -> list[int]:
    """Sort a layer by the medians or barycentres of its neighbours; vertices without neighbours stay."""
    if len(layer) < 2:
        return layer
    keys: dict[int, float] = {}
    for vertex in layer:
        near = links[vertex]
        if len(near) == 1:
            keys[vertex] = positions[near[0]]
        elif near:
            keys[vertex] = _centre(sorted([positions[neighbour] for neighbour in near]), median)
    moved = iter(sorted(keys, key=keys.__getitem__))
    ordered = layer[:]
    for position, vertex in enumerate(layer):
        # The others go where one of them was, so that a vertex without neighbours keeps its position.
        if vertex in keys:
            ordered[position] = next(moved)
    return ordered


def _centre(positions: Sequence[int], median: bool) -> float:
    """Return the median of sorted positions, or, of an even number of them, their barycentre."""
    half = len(positions) // 2
    if len(positions) % 2:
        return positions[half]
    if median:
        return (positions[half - 1] + positions[half]) / 2
    return sum(positions) / len(positions)


def _crossings(graph: Layering, layers: Sequence[Sequence[int]], positions: Sequence[int]) -> int:
    """Count the pairs of links that cross."""
    crossings = 0
    for layer in layers:
        # The ends of the links of the vertices so far, sorted: each that is farther right is crossed.
        passed: list[int] = []
        for vertex in layer:
            targets = sorted([positions[neighbour] for neighbour in graph.below[vertex]])
            if passed:
                crossings += sum([len(passed) - bisect_right(passed, end) for end in targets])
            for end in targets:
                insort(passed, end)
    return crossings
