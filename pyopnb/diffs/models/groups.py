"""Groups of unpaired nodes that do the work of other nodes: many to one, one to many, told by the tensors around them."""

from __future__ import annotations

from collections import Counter

from pyopnb.diffs.models.hashing import Graph
from pyopnb.diffs.models.match import Matching
from pyopnb.models.disjoint_sets import DisjointSets

__all__ = ["Group", "group_unpaired"]

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Nodes of a, and the nodes of b that do their work; either may be empty."""

_Member = tuple[int, int]  # side, 0 or 1, and node


def group_unpaired(a: Graph, b: Graph, matching: Matching) -> list[Group]:
    """Group the nodes without a partner.

    Nodes of one side belong together if one produces what the other reads, unless the other side has that tensor as well. Nodes
    of two sides belong together if they produce the same tensor, or if they are the only ones that read a weight.

    Returns
    -------
    list of Group
        A node that nothing on the other side replaces is a group of its own.
    """
    unpaired = [[index for index in matching.only_a if index not in a.constants]]
    unpaired += [[index for index in matching.only_b if index not in b.constants]]
    sets = DisjointSets((side, index) for side in (0, 1) for index in unpaired[side])
    shared = _shared_tensors(a, b, matching, sets)
    for side, graph, names in ((0, a, set(shared)), (1, b, set(shared.values()))):
        for index in unpaired[side]:
            for _, producer, slot in graph.predecessors(index):
                if (side, producer) in sets.parents and graph.nodes[producer].output[
                    slot
                ] not in names:
                    sets.join((side, producer), (side, index))
    for name, other in shared.items():
        sets.join((0, a.producers[name][0]), (1, b.producers[other][0]))
    complete = {sets.root((0, a.producers[name][0])) for name in shared}
    readers = _sole_readers(a, unpaired[0]), _sole_readers(b, unpaired[1])
    for weight in readers[0].keys() & readers[1].keys():
        one, other_one = (0, readers[0][weight]), (1, readers[1][weight])
        # Not where it would tie two groups that have counterparts already.
        if sets.root(one) not in complete or sets.root(other_one) not in complete:
            sets.join(one, other_one)
    groups: list[Group] = []
    for members in sets.members():
        left, right = ([index for side, index in members if side == wanted] for wanted in (0, 1))
        if left and right:
            groups.append((tuple(left), tuple(right)))
        else:
            groups += [((index,), ()) for index in left] + [((), (index,)) for index in right]
    return groups


def _shared_tensors(
    a: Graph, b: Graph, matching: Matching, sets: DisjointSets[_Member]
) -> dict[str, str]:
    """Tensors of a to those of b, both produced by unpaired nodes."""

    def is_open(side: int, name: str) -> bool:
        producer = (a, b)[side].producers.get(name)
        return producer is not None and (side, producer[0]) in sets.parents

    shared = {x: y for x, y in matching.values.items() if is_open(0, x) and is_open(1, y)}
    same_names = sum(x == y for x, y in matching.values.items())
    if 2 * same_names > len(
        matching.values
    ):  # most names were kept: here, too, one name is one tensor
        taken = set(shared.values())
        names = (name for index in matching.only_a for name in a.nodes[index].output)
        shared |= {
            n: n
            for n in names
            if n not in shared and n not in taken and is_open(0, n) and is_open(1, n)
        }
    return shared


def _sole_readers(graph: Graph, nodes: list[int]) -> dict[int, int]:
    """Weights that exactly one of some nodes reads, and that node."""
    readers = [
        (graph.weights[name], index)
        for index in nodes
        for name in {*graph.nodes[index].input} & graph.weights.keys()
    ]
    counts = Counter(weight for weight, _ in readers)
    return {weight: index for weight, index in readers if counts[weight] == 1}
