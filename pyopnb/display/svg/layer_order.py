"""The order within layers, so that few edges cross: phase 3 of `pyopnb.display.svg.layout`."""

from __future__ import annotations

from collections.abc import Sequence

from pyopnb.display.svg.layers import Layering, Links

__all__ = ["number_vertices", "order_layers"]

_SWEEPS = 24


def order_layers(graph: Layering) -> list[list[int]]:
    """Layers in an order with few crossings: of several sweeps down and up, the best."""
    layers = _depth_first(graph)
    positions = [0] * len(graph.ranks)
    for layer in layers:
        number_vertices(layer, positions)
    crossings = [_crossings(upper, graph.below, positions) for upper in layers]  # below each layer
    best, fewest, stale = [layer[:] for layer in layers], sum(crossings), 0
    links = sum(map(len, graph.below)) + 1
    for sweep in range(max(4, min(_SWEEPS, 150_000 // links))):
        if not fewest or stale > 3:  # a round of all four kinds of sweeps brought nothing
            break
        downwards, median = sweep % 2 == 0, sweep % 4 < 2
        changed: set[int] = set()
        for rank in range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1):
            layer = _sort_layer(
                layers[rank], graph.above if downwards else graph.below, positions, median
            )
            if layer != layers[rank]:
                layers[rank] = layer
                number_vertices(layer, positions)
                changed |= {rank - 1, rank} if rank else {0}
        for rank in changed:
            crossings[rank] = _crossings(layers[rank], graph.below, positions)
        stale += 1
        if sum(crossings) < fewest:
            best, fewest, stale = [layer[:] for layer in layers], sum(crossings), 0
    return best


def number_vertices(layer: Sequence[int], positions: list[int]) -> None:
    """Write the position of each vertex of a layer."""
    for position, vertex in enumerate(layer):
        positions[vertex] = position


def _depth_first(graph: Layering) -> list[list[int]]:
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


def _sort_layer(
    layer: list[int], links: Links, positions: Sequence[int], median: bool
) -> list[int]:
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
    return (
        (positions[half - 1] + positions[half]) / 2 if median else sum(positions) / len(positions)
    )


def _crossings(upper: Sequence[int], below: Links, positions: Sequence[int]) -> int:
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
