"""Nodes that stand for other nodes: many to one, one to many, held together by the tensors that go in and out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from pyopnb.diffs.models.hashing import Graph
from pyopnb.diffs.models.match import Matching

__all__ = ["Group", "group_unpaired"]

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Places in a, and the places in b that do their work; either may be empty."""

_Mark = tuple[int, int]


def group_unpaired(a: Graph, b: Graph, found: Matching) -> list[Group]:
    """The nodes without a partner, in groups that give the same tensors.

    Nodes of one side belong together where one makes what the other reads, unless the other side has that tensor as well. Nodes
    of two sides belong together where they make the same tensor, or where only they read the same weight.
    """
    free_a = [place for place in found.only_a if place not in a.constants]
    free_b = [place for place in found.only_b if place not in b.constants]
    roots: dict[_Mark, _Mark] = {mark: mark for mark in ((0, p) for p in free_a)} | {(1, p): (1, p) for p in free_b}
    both = _on_both_sides(a, b, found, roots)
    there = set(both.values())
    for graph, side, shared in ((a, 0, set(both)), (b, 1, there)):
        for place in free_a if side == 0 else free_b:
            for _, maker, slot in graph.predecessors(place):
                if (side, maker) in roots and graph.nodes[maker].output[slot] not in shared:
                    _join(roots, (side, maker), (side, place))
    for left, right in both.items():
        _join(roots, (0, a.producers[left][0]), (1, b.producers[right][0]))
    settled = {_root(roots, (0, a.producers[left][0])) for left in both}
    weighed = [_weighed(a, free_a), _weighed(b, free_b)]
    for weight in weighed[0].keys() & weighed[1].keys():
        one, other = (0, weighed[0][weight]), (1, weighed[1][weight])
        # Not where it would tie two groups that have their counterparts already.
        if _root(roots, one) not in settled or _root(roots, other) not in settled:
            _join(roots, one, other)
    return list(_gathered(roots))


def _on_both_sides(a: Graph, b: Graph, found: Matching, roots: dict[_Mark, _Mark]) -> dict[str, str]:
    """Tensors in a to those in b, both made by nodes without a partner."""

    def lone(graph: Graph, side: int, name: str) -> bool:
        return name in graph.producers and (side, graph.producers[name][0]) in roots

    both = {x: y for x, y in found.values.items() if lone(a, 0, x) and lone(b, 1, y)}
    kept = sum(x == y for x, y in found.values.items())
    if 2 * kept > len(found.values):  # the names were kept where nothing changed: one name is one tensor here as well
        taken = set(both.values())
        for place in found.only_a:
            for name in a.nodes[place].output:
                if name not in both and name not in taken and lone(a, 0, name) and lone(b, 1, name):
                    both[name] = name
    return both


def _weighed(graph: Graph, places: list[int]) -> dict[int, int]:
    """Weights that exactly one of the nodes reads."""
    readers = [
        (graph.weights[name], place) for place in places for name in set(graph.nodes[place].input) & graph.weights.keys()
    ]
    counts = Counter(weight for weight, _ in readers)
    return {weight: place for weight, place in readers if counts[weight] == 1}


def _root(roots: dict[_Mark, _Mark], mark: _Mark) -> _Mark:
    while roots[mark] != mark:
        roots[mark] = mark = roots[roots[mark]]
    return mark


def _join(roots: dict[_Mark, _Mark], one: _Mark, other: _Mark) -> None:
    roots[_root(roots, one)] = _root(roots, other)


def _gathered(roots: dict[_Mark, _Mark]) -> Iterator[Group]:
    held: dict[_Mark, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for mark in roots:
        held[_root(roots, mark)][mark[0]].append(mark[1])
    for left, right in held.values():
        if left and right:
            yield tuple(left), tuple(right)
        else:  # nothing on the other side: each node for itself
            yield from (((place,), ()) for place in left)
            yield from (((), (place,)) for place in right)
