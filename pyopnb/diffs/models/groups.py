"""Groups of unpaired nodes that replace each other, recognized by the tensors around them."""

from __future__ import annotations

from pyopnb.common import DisjointSets
from pyopnb.diffs.models.hashing import HashedGraph
from pyopnb.diffs.models.match import Matching

__all__ = ["Group", "group_unpaired"]

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Nodes of a, and the nodes of b that do their work; either may be empty."""

# The members are pairs of a side, 0 or 1, and a node.
_Sets = DisjointSets[tuple[int, int]]


def group_unpaired(matching: Matching) -> list[Group]:
    """Group the nodes without a partner.

    Nodes of one side belong together if one reads the other's result, unless the other side
    also has that tensor. Nodes of two sides belong together if they produce the same tensor. A
    node that nothing replaces is a group by itself.
    """
    graphs = matching.a, matching.b
    sets: _Sets = DisjointSets()
    for side, paired in enumerate((matching.forward, matching.back)):
        for index in sorted(graphs[side].computing):
            if index not in paired:
                sets.root((side, index))
    shared = _shared_tensors(matching, sets)
    _join_chains(sets, 0, graphs[0], set(shared))
    _join_chains(sets, 1, graphs[1], set(shared.values()))
    for name_a, name_b in shared.items():
        sets.join((0, graphs[0].producers[name_a][0]), (1, graphs[1].producers[name_b][0]))
    groups: list[Group] = []
    for members in sets.members():
        of_a = tuple(index for side, index in members if side == 0)
        of_b = tuple(index for side, index in members if side == 1)
        # Nodes of both sides in one group: these replaced those. All others are added or
        # removed by themselves.
        if of_a and of_b:
            groups.append((of_a, of_b))
        else:
            groups += [((index,), ()) for index in of_a]
            groups += [((), (index,)) for index in of_b]
    return groups


def _shared_tensors(matching: Matching, sets: _Sets) -> dict[str, str]:
    """Map tensors of a to tensors of b, both produced by unpaired nodes."""
    a = matching.a
    b = matching.b
    pairs = list(matching.values.items())
    same_names = sum(name_a == name_b for name_a, name_b in pairs)
    # Where most names were kept, a name here also means the same tensor.
    if 2 * same_names > len(pairs):
        pairs += [(name, name) for name in a.producers]
    shared: dict[str, str] = {}
    partners: set[str] = set()
    for name_a, name_b in pairs:
        maker_a = a.producers.get(name_a, (-1, 0))
        maker_b = b.producers.get(name_b, (-1, 0))
        are_open = (0, maker_a[0]) in sets.parents and (1, maker_b[0]) in sets.parents
        if are_open and name_a not in shared and name_b not in partners:
            shared[name_a] = name_b
            partners.add(name_b)
    return shared


def _join_chains(sets: _Sets, side: int, graph: HashedGraph, shared: set[str]) -> None:
    """Join nodes of one side along the tensors that the other side lacks."""
    for node_side, index in list(sets.parents):
        for _, name in graph.reads(index) if node_side == side else ():
            producer = graph.producers.get(name, (-1, 0))[0]
            if (side, producer) in sets.parents and name not in shared:
                sets.join((side, producer), (side, index))
