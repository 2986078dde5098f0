"""Which node of one graph is which of another: by what nodes compute and what becomes of it, by name only in the end."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto

from pyopnb.diffs.models.attributes import Defaults
from pyopnb.diffs.models.hashing import Contents, Graph, Numbers, Prints, graph_of, prints

__all__ = ["Matching", "graph_of_model", "match_graphs", "match_models", "pair_names"]

_MANY = 64
"""Pairs of neighbours up to which each is held against each; above, they are taken in order."""


@dataclass(frozen=True)
class Matching:
    """Nodes and tensors of two main graphs that are the same ones.

    Attributes
    ----------
    pairs : tuple of (int, int)
        Places in ``a.graph.node`` and ``b.graph.node``, in the order of a. Two nodes of a pair are of one op, or stand between
        the same tensors.
    only_a, only_b : tuple of int
        Places of the nodes that have no other.
    values : dict
        Tensor names in a to those in b: inputs, initializers, outputs of paired nodes, and what paired nodes read at the same
        slot from nodes that have no other.
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
    """Find the nodes of two models' main graphs that are the same ones.

    Names decide only where nothing else does: a model whose nodes and tensors are all renamed, and whose nodes stand in another
    order, has all its nodes paired.
    """
    numbers = Numbers()
    return match_graphs(graph_of_model(a, Contents(numbers)), graph_of_model(b, Contents(numbers)))[0]


def graph_of_model(model: ModelProto, contents: Contents) -> Graph:
    """A model's main graph, read."""
    functions = {(f.domain, f.name): f for f in model.functions}
    return graph_of(model.graph, Defaults({o.domain: o.version for o in model.opset_import}, functions), contents)


def pair_names(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str]]:
    """Inputs or outputs that belong together: those of one name, and the others in order.

    Where none but those at their old positions have a name that the other side has, that is position by position.
    """
    left, right = set(a), set(b)
    if len(a) == len(b) and left != right:
        stayed = all(b[place] == name for place, name in enumerate(a) if name in right)
        if stayed and len(left) == len(a):
            return list(zip(a, b, strict=True))
    same = [name for name in dict.fromkeys(a) if name in right]
    both = left & right
    rest = zip((name for name in a if name not in both), (name for name in b if name not in both), strict=False)
    return [(name, name) for name in same] + list(rest)


def match_graphs(a: Graph, b: Graph, outer: Mapping[str, str] | None = None) -> tuple[Matching, Prints, Prints]:
    """Pair the nodes of two graphs that share their numbers.

    Parameters
    ----------
    a, b : Graph
    outer : mapping, optional
        For bodies: names of tensors outside a to those outside b. Their inputs and outputs, and those of functions, belong
        together by position.
    """
    numbers = a.contents.numbers
    if outer is None and isinstance(a.scope, GraphProto):
        inputs, outputs = pair_names(a.inputs, b.inputs), pair_names(a.outputs, b.outputs)
    else:
        inputs, outputs = (list(zip(x, y, strict=False)) for x, y in ((a.inputs, b.inputs), (a.outputs, b.outputs)))
    given_a = {name: numbers["only a", name] for name in a.inputs}
    given_b = {name: numbers["only b", name] for name in b.inputs}
    for place, (left, right) in enumerate(inputs):
        given_a[left] = given_b[right] = numbers["given", place]
    if outer:  # without it, names that nobody gives are all the same
        given_a |= {
            n: numbers["outer", outer[n]] if n in outer else numbers["outer a", n] for n in a.free if a.weight(n) is None
        }
        given_b |= {name: numbers["outer", name] for name in b.free if b.weight(name) is None}
    ends_a, ends_b = defaultdict(list), defaultdict(list)
    for place, (left, right) in enumerate(outputs):
        ends_a[left].append(place)
        ends_b[right].append(place)
    printed = [
        prints(graph, given, {name: numbers["end", tuple(places)] for name, places in ends.items()})
        for graph, given, ends in ((a, given_a, ends_a), (b, given_b, ends_b))
    ]
    pairing = _Pairing(a, b, printed[0], printed[1], outputs)
    pairing.run()
    values = dict(inputs) | pairing.values()
    forward = pairing.forward
    lone = [place for place in range(len(b.nodes)) if place not in pairing.back]
    found = Matching(
        tuple(sorted(forward.items())),
        tuple(place for place in range(len(a.nodes)) if place not in forward),
        tuple(lone),
        {left: right for left, right in values.items() if left and right},
        forward,
        pairing.back,
    )
    return found, printed[0], printed[1]


class _Pairing:
    def __init__(self, a: Graph, b: Graph, left: Prints, right: Prints, outputs: Sequence[tuple[str, str]]) -> None:
        self.a, self.b, self.left, self.right, self.outputs = a, b, left, right, outputs
        self._ends = dict(outputs)
        self.forward: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._waiting: list[tuple[int, int, int]] = []
        self._free_a = [p for p in a.order if p not in a.constants]
        self._free_b = [p for p in b.order if p not in b.constants]

    def run(self) -> None:
        up, down = (self.left.up, self.right.up), (self.left.down, self.right.down)
        self._by(lambda side, place: (up[side][place], down[side][place]))
        self._by(lambda side, place: up[side][place], equally=True)
        self._by(lambda side, place: down[side][place], equally=True)
        self._by(lambda side, place: up[side][place])
        self._by(lambda side, place: down[side][place])
        for i, j in self._at_the_border():
            self._look_around(i, j)
        for name, other in self.outputs:
            if name in self.a.producers and other in self.b.producers:
                i, j = self.a.producers[name][0], self.b.producers[other][0]
                if i not in self.forward and j not in self.back:
                    self._suggest([i], [j])
        self._spread()
        for key in (self._weighed, self._surrounded, self._named, self._made_names):
            if len(self.forward) == min(len(self._free_a), len(self._free_b)):
                break
            for pair in self._by(key, equally=True):
                self._look_around(*pair)
            self._spread()
        self._exchanged()
        self._constants()

    def _at_the_border(self) -> list[tuple[int, int]]:
        """Pairs beside which a node of a is not paired."""
        a, near = self.a, set()
        for place in self._free_a:
            if place not in self.forward:
                near |= {maker for _, maker, _ in a.predecessors(place)}
                near |= {reader for name in a.nodes[place].output if name for reader, _ in a.consumers.get(name, ())}
        return [(i, self.forward[i]) for i in sorted(near & self.forward.keys())]

    def _by(self, key: Callable[[int, int], object], equally: bool = False) -> list[tuple[int, int]]:
        """Pair free nodes of equal keys in order; ``equally``: only where both sides have as many of them."""
        held: dict[object, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, places, taken in ((0, self._free_a, self.forward), (1, self._free_b, self.back)):
            for place in places:
                if place not in taken:
                    of = key(side, place)
                    if of is not None:
                        held[of][side].append(place)
        found = []
        for lefts, rights in held.values():
            if not equally or len(lefts) == len(rights):
                found += list(zip(lefts, rights, strict=False))
        for i, j in found:
            self._pair(i, j)
        return found

    def _pair(self, i: int, j: int) -> None:
        self.forward[i], self.back[j] = j, i

    # ---- from paired nodes to their neighbours

    def _spread(self) -> None:
        while self._waiting:
            _, i, j = heapq.heappop(self._waiting)
            if i not in self.forward and j not in self.back:
                self._pair(i, j)
                self._look_around(i, j)

    def _look_around(self, i: int, j: int) -> None:
        for lefts, rights in self._neighbours(i, j):
            lefts = [p for p in lefts if p not in self.forward]
            rights = [p for p in rights if p not in self.back]
            if lefts and rights:
                self._suggest(lefts, rights)

    def _suggest(self, lefts: list[int], rights: list[int]) -> None:
        every = len(lefts) * len(rights) <= _MANY
        for i, j in ((i, j) for i in lefts for j in rights) if every else zip(lefts, rights, strict=False):
            a, b = self.a.nodes[i], self.b.nodes[j]
            if a.op_type == b.op_type and a.domain == b.domain:
                heapq.heappush(self._waiting, (-self._likeness(i, j), i, j))

    def _neighbours(self, i: int, j: int) -> Iterator[tuple[list[int], list[int]]]:
        a, b = self.a, self.b
        for name, other in zip(a.nodes[i].output, b.nodes[j].output, strict=False):
            lefts, rights = _readers(a, name), _readers(b, other)
            for key in lefts.keys() & rights.keys():
                yield lefts[key], rights[key]
        left, right = list(a.predecessors(i)), list(b.predecessors(j))
        if len(left) * len(right) <= _MANY:
            yield [p for _, p, _ in left], [p for _, p, _ in right]
        else:
            made = {slot: place for slot, place, _ in right}
            for slot, place, _ in left:
                if slot in made:
                    yield [place], [made[slot]]

    def _likeness(self, i: int, j: int) -> int:
        a, b = self.a, self.b
        score = 4 * (a.local[i] == b.local[j])
        for (slot, name), (other_slot, other) in islice(zip(a.reads(i), b.reads(j), strict=False), _MANY):
            if slot != other_slot:
                break
            score += 3 * self._agree(name, other)
            if name in a.weights and other in b.weights:
                score += 1 if _size(a.tensors[name]) == _size(b.tensors[other]) else -4
        for name, other in zip(a.nodes[i].output, b.nodes[j].output, strict=False):
            score += 4 * (bool(name) and self._ends.get(name) == other)
            readers = {self.forward[p] for p, _ in a.consumers.get(name, ())[:_MANY] if p in self.forward}
            score += 3 * any(p in readers for p, _ in b.consumers.get(other, ())[:_MANY])
            score += name == other
        return score + (a.nodes[i].name == b.nodes[j].name != "")

    def _agree(self, name: str, other: str) -> bool:
        """Whether two tensors are the same, as far as is known by now."""
        if self.left.values.get(name, -1) == self.right.values.get(other, -2):
            return True
        made, other_made = self.a.producers.get(name), self.b.producers.get(other)
        if made is None or other_made is None:
            return False
        return self.forward.get(made[0], -1) == other_made[0] and made[1] == other_made[1]

    # ---- what is left when nothing spreads any more

    def _weighed(self, side: int, place: int) -> object:
        graph = (self.a, self.b)[side]
        weights = tuple(graph.weights.get(name, -1) for name in graph.nodes[place].input)
        return (graph.local[place], weights) if any(w >= 0 for w in weights) else None

    def _surrounded(self, side: int, place: int) -> object:
        graph = (self.a, self.b)[side]
        before = tuple((slot, graph.local[p], s) for slot, p, s in graph.predecessors(place))
        names = [name for name in graph.nodes[place].output if name]
        after = sorted((graph.local[p], s) for name in names for p, s in graph.consumers.get(name, ())[:_MANY])
        return graph.local[place], before, tuple(after)

    def _named(self, side: int, place: int) -> object:
        node = (self.a, self.b)[side].nodes[place]
        return (node.domain, node.op_type, node.name) if node.name else None

    def _made_names(self, side: int, place: int) -> object:
        node = (self.a, self.b)[side].nodes[place]
        return (node.domain, node.op_type, tuple(node.output)) if any(node.output) else None

    def _exchanged(self) -> None:
        """Pair nodes of two ops that stand alone between the same tensors."""
        for i in self._free_a:
            if i in self.forward:
                continue
            node = self.a.nodes[i]
            for name in node.output:
                for reader, slot in self.a.consumers.get(name, ())[:1]:
                    if slot < 0 or reader not in self.forward:
                        continue
                    inputs = self.b.nodes[self.forward[reader]].input
                    j, _ = self.b.producers.get(inputs[slot], (-1, 0)) if slot < len(inputs) else (-1, 0)
                    if j >= 0 and j not in self.back and i not in self.forward and self._same_place(i, j):
                        self._pair(i, j)

    def _same_place(self, i: int, j: int) -> bool:
        a, b = self.a, self.b
        if j in b.constants or len(a.nodes[i].output) != len(b.nodes[j].output):
            return False
        left = [name for _, name in a.reads(i) if name not in a.weights]
        right = [name for _, name in b.reads(j) if name not in b.weights]
        return bool(left) and len(left) == len(right) and all(map(self._agree, left, right))

    def _constants(self) -> None:
        """Pair Constant nodes that paired nodes read at the same slot."""
        for i, j in list(self.forward.items()):
            for name, other in zip(self.a.nodes[i].input, self.b.nodes[j].input, strict=False):
                left, right = self.a.producers.get(name), self.b.producers.get(other)
                if left is None or right is None or left[0] not in self.a.constants or right[0] not in self.b.constants:
                    continue
                if left[0] not in self.forward and right[0] not in self.back:
                    self._pair(left[0], right[0])

    def values(self) -> dict[str, str]:
        a, b = self.a, self.b
        found: dict[str, str] = {}
        for i, j in self.forward.items():
            found.update(zip(a.nodes[i].output, b.nodes[j].output, strict=False))
        taken = set(found.values())
        read = [pair for i, j in sorted(self.forward.items()) for pair in zip(a.nodes[i].input, b.nodes[j].input, strict=False)]
        for name, other in (*read, *self.outputs):
            if not name or not other or name in found:
                continue
            if name in a.weights or other in b.weights:
                if name in a.weights and other in b.weights:
                    found[name] = other
            elif other not in taken and self._unpaired(name, other):
                found[name] = other
                taken.add(other)
        known: dict[int, str] = {}
        for other, number in self.right.values.items():
            known.setdefault(number, other)
        for name, number in self.left.values.items():
            if name not in found and number in known:
                found[name] = known[number]
        return found

    def _unpaired(self, name: str, other: str) -> bool:
        left, right = self.a.producers.get(name), self.b.producers.get(other)
        return left is not None and right is not None and left[0] not in self.forward and right[0] not in self.back


def _size(tensor: TensorProto | SparseTensorProto) -> tuple[int, ...]:
    return tuple(tensor.dims)


def _readers(graph: Graph, name: str) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    if name:
        for place, slot in graph.consumers.get(name, ()):
            found[graph.nodes[place].op_type, slot].append(place)
    return found
