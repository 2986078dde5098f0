"""Which node of one graph corresponds to which of another: by what nodes compute and what becomes of it, by name at last.

1. Nodes are numbered from both ends (`hashing.fingerprints`), as in Weisfeiler-Lehman refinement on a directed acyclic graph
   (Weisfeiler and Leman, 1968), but with exact keys instead of hashes: ``up`` stands for all that a node is computed from,
   ``down`` for all that becomes of it. Equal numbers on both sides are pairs.
2. Pairs spread to their neighbours, the most similar candidates first (a priority queue, as in similarity flooding: Melnik,
   Garcia-Molina and Rahm, 2002).
3. What is left is paired by its weights, by its surroundings, and by names, each followed by step 2.
4. Two nodes of different ops between the same tensors are a pair as well, and so are the Constant nodes of pairs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from onnx import GraphProto, ModelProto

from pyopnb.diffs.models.attributes import Defaults
from pyopnb.diffs.models.hashing import (
    Contents,
    Fingerprints,
    Graph,
    Numbers,
    fingerprints,
    graph_of,
)

__all__ = ["Matching", "graph_of_model", "match_graphs", "match_models", "pair_names"]

_MANY = 64
"""Up to so many pairs of neighbours each is compared with each; above, they are taken in order."""


@dataclass(frozen=True)
class Matching:
    """The nodes and tensors of two main graphs that correspond to each other.

    Attributes
    ----------
    pairs : tuple of (int, int)
        Indices into ``a.graph.node`` and ``b.graph.node``, in the order of a. The nodes of a pair have the same op, or stand
        between the same tensors.
    only_a, only_b : tuple of int
        The nodes without a partner.
    values : dict
        Tensor names of a to those of b: inputs, initializers, outputs of paired nodes, and what paired nodes read at the same
        slot from nodes without a partner.
    forward, back : dict
        The pairs, from a to b and from b to a.
    """

    pairs: tuple[tuple[int, int], ...]
    only_a: tuple[int, ...]
    only_b: tuple[int, ...]
    values: dict[str, str]
    forward: dict[int, int] = field(repr=False)
    back: dict[int, int] = field(repr=False)


def match_models(a: ModelProto, b: ModelProto) -> Matching:
    """Match the main graphs of two models.

    Names decide only where nothing else does: with all nodes and tensors renamed and the nodes in another order, every node
    still finds its partner.

    Returns
    -------
    Matching
    """
    numbers = Numbers()
    return match_graphs(graph_of_model(a, Contents(numbers)), graph_of_model(b, Contents(numbers)))[
        0
    ]


def graph_of_model(model: ModelProto, contents: Contents) -> Graph:
    """Read a model's main graph."""
    return graph_of(model.graph, Defaults.of_model(model), contents)


def pair_names(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str]]:
    """Pair inputs or outputs: those of one name, and the others in order.

    If the only names that both sides have are at the same positions, that is position by position.

    Returns
    -------
    list of (str, str)
    """
    left, right = set(a), set(b)
    if len(a) == len(b) and left != right:
        stayed = all(b[place] == name for place, name in enumerate(a) if name in right)
        if stayed and len(left) == len(a):
            return list(zip(a, b, strict=True))
    same = [name for name in dict.fromkeys(a) if name in right]
    both = left & right
    rest = zip(
        (name for name in a if name not in both),
        (name for name in b if name not in both),
        strict=False,
    )
    return [(name, name) for name in same] + list(rest)


def match_graphs(
    a: Graph, b: Graph, outer: Mapping[str, str] | None = None
) -> tuple[Matching, Fingerprints, Fingerprints]:
    """Pair the nodes of two graphs that share their `Numbers`.

    Parameters
    ----------
    a, b : Graph
    outer : mapping, optional
        For bodies: names of tensors outside a to those outside b. The inputs and outputs of bodies, and those of functions, are
        paired by position.

    Returns
    -------
    tuple of (Matching, Fingerprints, Fingerprints)
        The pairs, and the numbers of the nodes of a and of b.
    """
    numbers = a.contents.numbers
    by_name = outer is None and isinstance(a.scope, GraphProto)
    inputs, outputs = (
        pair_names(x, y) if by_name else list(zip(x, y, strict=False))
        for x, y in ((a.inputs, b.inputs), (a.outputs, b.outputs))
    )
    given_a = {name: numbers["only a", name] for name in a.inputs}
    given_b = {name: numbers["only b", name] for name in b.inputs}
    for slot, (left, right) in enumerate(inputs):
        given_a[left] = given_b[right] = numbers["given", slot]
    if outer:  # without it, all names that nothing produces count as the same
        for name in a.free:
            if a.weight(name) is None:
                given_a[name] = (
                    numbers["outer", outer[name]] if name in outer else numbers["outer a", name]
                )
        given_b |= {name: numbers["outer", name] for name in b.free if b.weight(name) is None}
    slots_a, slots_b = defaultdict(list), defaultdict(list)
    for slot, (left, right) in enumerate(outputs):
        slots_a[left].append(slot)
        slots_b[right].append(slot)
    printed_a, printed_b = (
        fingerprints(
            graph, given, {name: numbers["end", tuple(slots)] for name, slots in ends.items()}
        )
        for graph, given, ends in ((a, given_a, slots_a), (b, given_b, slots_b))
    )
    pairing = _Pairing(a, b, printed_a, printed_b, outputs)
    pairing.run()
    values = dict(inputs) | pairing.values()
    matching = Matching(
        tuple(sorted(pairing.forward.items())),
        tuple(index for index in range(len(a.nodes)) if index not in pairing.forward),
        tuple(index for index in range(len(b.nodes)) if index not in pairing.back),
        {left: right for left, right in values.items() if left and right},
        pairing.forward,
        pairing.back,
    )
    return matching, printed_a, printed_b


class _Pairing:
    """The pairs of nodes found so far, and the candidates that wait."""

    def __init__(
        self,
        a: Graph,
        b: Graph,
        left: Fingerprints,
        right: Fingerprints,
        outputs: Sequence[tuple[str, str]],
    ) -> None:
        self.a, self.b, self.left, self.right, self.outputs = a, b, left, right, outputs
        self._output_pairs = dict(outputs)
        self.forward: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._candidates: list[
            tuple[int, int, int]
        ] = []  # a heap of (-likeness, node of a, node of b)
        self._nodes_a = [index for index in a.order if index not in a.constants]
        self._nodes_b = [index for index in b.order if index not in b.constants]

    def run(self) -> None:
        up, down = (self.left.up, self.right.up), (self.left.down, self.right.down)
        self._pair_by(lambda side, index: (up[side][index], down[side][index]))
        for equal_counts in (True, False):
            self._pair_by(lambda side, index: up[side][index], equal_counts)
            self._pair_by(lambda side, index: down[side][index], equal_counts)
        for i, j in self._frontier():
            self._suggest_neighbours(i, j)
        for name, other in self.outputs:
            if name in self.a.producers and other in self.b.producers:
                self._suggest([self.a.producers[name][0]], [self.b.producers[other][0]])
        self._spread()
        for key in (self._weights_key, self._surroundings_key, self._name_key, self._outputs_key):
            if len(self.forward) == min(len(self._nodes_a), len(self._nodes_b)):
                break
            for pair in self._pair_by(key, equal_counts=True):
                self._suggest_neighbours(*pair)
            self._spread()
        self._pair_exchanged()
        self._pair_constants()

    def _frontier(self) -> list[tuple[int, int]]:
        """Pairs next to an unpaired node of a."""
        a, near = self.a, set()
        for index in self._nodes_a:
            if index not in self.forward:
                near |= {producer for _, producer, _ in a.predecessors(index)}
                near |= {
                    reader
                    for name in a.nodes[index].output
                    if name
                    for reader, _ in a.consumers.get(name, ())
                }
        return [(i, self.forward[i]) for i in sorted(near & self.forward.keys())]

    def _pair_by(
        self, key: Callable[[int, int], Hashable], equal_counts: bool = False
    ) -> list[tuple[int, int]]:
        """Pair unpaired nodes of equal keys in order.

        Parameters
        ----------
        key : callable
            Of the side, 0 or 1, and the node; None for a node that is left out.
        equal_counts : bool
            Only where both sides have equally many nodes of a key.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, nodes, paired in (
            (0, self._nodes_a, self.forward),
            (1, self._nodes_b, self.back),
        ):
            for index in nodes:
                if index not in paired and (value := key(side, index)) is not None:
                    groups[value][side].append(index)
        pairs = []
        for lefts, rights in groups.values():
            if not equal_counts or len(lefts) == len(rights):
                pairs += list(zip(lefts, rights, strict=False))
        for i, j in pairs:
            self._pair(i, j)
        return pairs

    def _pair(self, i: int, j: int) -> None:
        self.forward[i], self.back[j] = j, i

    # ---- from pairs to their neighbours

    def _spread(self) -> None:
        while self._candidates:
            _, i, j = heapq.heappop(self._candidates)
            if i not in self.forward and j not in self.back:
                self._pair(i, j)
                self._suggest_neighbours(i, j)

    def _suggest_neighbours(self, i: int, j: int) -> None:
        for lefts, rights in self._neighbours(i, j):
            self._suggest(lefts, rights)

    def _suggest(self, lefts: list[int], rights: list[int]) -> None:
        """Make unpaired nodes of one op candidates."""
        lefts = [index for index in lefts if index not in self.forward]
        rights = [index for index in rights if index not in self.back]
        all_pairs = len(lefts) * len(rights) <= _MANY
        for i, j in (
            ((i, j) for i in lefts for j in rights)
            if all_pairs
            else zip(lefts, rights, strict=False)
        ):
            a, b = self.a.nodes[i], self.b.nodes[j]
            if a.op_type == b.op_type and a.domain == b.domain:
                heapq.heappush(self._candidates, (-self._likeness(i, j), i, j))

    def _neighbours(self, i: int, j: int) -> Iterator[tuple[list[int], list[int]]]:
        """Nodes of both sides that stand in the same relation to a pair."""
        a, b = self.a, self.b
        for name, other in zip(a.nodes[i].output, b.nodes[j].output, strict=False):
            lefts, rights = _readers(a, name), _readers(b, other)
            for key in lefts.keys() & rights.keys():
                yield lefts[key], rights[key]
        left, right = list(a.predecessors(i)), list(b.predecessors(j))
        if len(left) * len(right) <= _MANY:
            yield [p for _, p, _ in left], [p for _, p, _ in right]
        else:
            producers = {slot: index for slot, index, _ in right}
            for slot, index, _ in left:
                if slot in producers:
                    yield [index], [producers[slot]]

    def _likeness(self, i: int, j: int) -> int:
        """Score two nodes: op and attributes, what they read, what reads them, and a little for names."""
        a, b = self.a, self.b
        score = 4 * (a.local[i] == b.local[j])
        for (slot, name), (other_slot, other) in islice(
            zip(a.reads(i), b.reads(j), strict=False), _MANY
        ):
            if slot != other_slot:
                break
            score += 3 * self._agree(name, other)
            if name in a.weights and other in b.weights:
                score += 1 if a.tensors[name].dims == b.tensors[other].dims else -4
        for name, other in zip(a.nodes[i].output, b.nodes[j].output, strict=False):
            score += 4 * (bool(name) and self._output_pairs.get(name) == other)
            readers = {
                self.forward[p] for p, _ in a.consumers.get(name, ())[:_MANY] if p in self.forward
            }
            score += 3 * any(p in readers for p, _ in b.consumers.get(other, ())[:_MANY])
            score += name == other
        return score + (a.nodes[i].name == b.nodes[j].name != "")

    def _agree(self, name: str, other: str) -> bool:
        """Tell whether two tensors are known to correspond."""
        if self.left.values.get(name, -1) == self.right.values.get(other, -2):
            return True
        one, two = self.a.producers.get(name), self.b.producers.get(other)
        return (
            one is not None
            and two is not None
            and self.forward.get(one[0], -1) == two[0]
            and one[1] == two[1]
        )

    # ---- keys for what is left when nothing spreads any more

    def _weights_key(self, side: int, index: int) -> Hashable:
        graph = (self.a, self.b)[side]
        weights = tuple(graph.weights.get(name, -1) for name in graph.nodes[index].input)
        return (graph.local[index], weights) if any(w >= 0 for w in weights) else None

    def _surroundings_key(self, side: int, index: int) -> Hashable:
        graph = (self.a, self.b)[side]
        before = tuple((slot, graph.local[p], s) for slot, p, s in graph.predecessors(index))
        names = [name for name in graph.nodes[index].output if name]
        after = sorted(
            (graph.local[p], s) for name in names for p, s in graph.consumers.get(name, ())[:_MANY]
        )
        return graph.local[index], before, tuple(after)

    def _name_key(self, side: int, index: int) -> Hashable:
        node = (self.a, self.b)[side].nodes[index]
        return (node.domain, node.op_type, node.name) if node.name else None

    def _outputs_key(self, side: int, index: int) -> Hashable:
        node = (self.a, self.b)[side].nodes[index]
        return (node.domain, node.op_type, tuple(node.output)) if any(node.output) else None

    # ---- nodes of other ops, and constants

    def _pair_exchanged(self) -> None:
        """Pair nodes of different ops that stand alone between the same tensors."""
        for i in self._nodes_a:
            if i in self.forward:
                continue
            node = self.a.nodes[i]
            for name in node.output:
                for reader, slot in self.a.consumers.get(name, ())[:1]:
                    if slot < 0 or reader not in self.forward:
                        continue
                    inputs = self.b.nodes[self.forward[reader]].input
                    j, _ = (
                        self.b.producers.get(inputs[slot], (-1, 0))
                        if slot < len(inputs)
                        else (-1, 0)
                    )
                    if (
                        j >= 0
                        and j not in self.back
                        and i not in self.forward
                        and self._reads_same(i, j)
                    ):
                        self._pair(i, j)

    def _reads_same(self, i: int, j: int) -> bool:
        a, b = self.a, self.b
        if j in b.constants or len(a.nodes[i].output) != len(b.nodes[j].output):
            return False
        left = [name for _, name in a.reads(i) if name not in a.weights]
        right = [name for _, name in b.reads(j) if name not in b.weights]
        return bool(left) and len(left) == len(right) and all(map(self._agree, left, right))

    def _pair_constants(self) -> None:
        """Pair Constant nodes that pairs read at the same slot."""
        for i, j in list(self.forward.items()):
            for name, other in zip(self.a.nodes[i].input, self.b.nodes[j].input, strict=False):
                left, right = self.a.producers.get(name), self.b.producers.get(other)
                if (
                    left is None
                    or right is None
                    or left[0] not in self.a.constants
                    or right[0] not in self.b.constants
                ):
                    continue
                if left[0] not in self.forward and right[0] not in self.back:
                    self._pair(left[0], right[0])

    def values(self) -> dict[str, str]:
        """Return the tensors of a and of b that correspond: see `Matching`."""
        a, b = self.a, self.b
        values: dict[str, str] = {}
        for i, j in self.forward.items():
            values.update(zip(a.nodes[i].output, b.nodes[j].output, strict=False))
        taken = set(values.values())
        read = [
            pair
            for i, j in sorted(self.forward.items())
            for pair in zip(a.nodes[i].input, b.nodes[j].input, strict=False)
        ]
        for name, other in (*read, *self.outputs):
            if not name or not other or name in values:
                continue
            if name in a.weights or other in b.weights:
                if name in a.weights and other in b.weights:
                    values[name] = other
            elif other not in taken and self._unpaired(name, other):
                values[name] = other
                taken.add(other)
        known: dict[int, str] = {}
        for other, number in self.right.values.items():
            known.setdefault(number, other)
        for name, number in self.left.values.items():
            if name not in values and number in known:
                values[name] = known[number]
        return values

    def _unpaired(self, name: str, other: str) -> bool:
        left, right = self.a.producers.get(name), self.b.producers.get(other)
        return (
            left is not None
            and right is not None
            and left[0] not in self.forward
            and right[0] not in self.back
        )


def _readers(graph: Graph, name: str) -> dict[tuple[str, int], list[int]]:
    """Return the nodes that read a tensor, by op and input slot."""
    readers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, slot in graph.consumers.get(name, ()) if name else ():
        readers[graph.nodes[index].op_type, slot].append(index)
    return readers
