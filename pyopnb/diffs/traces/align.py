"""Which tensor of one run is which of another: by structure, then by value, then by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.models.match import matched
from pyopnb.diffs.traces.segments import Segments
from pyopnb.ops.types import type_of
from pyopnb.runtime.trace.trace import Trace

__all__ = ["Aligned", "Pair", "aligned"]

_TRIED = 64  # candidates of one type that are held against one tensor


@dataclass(frozen=True)
class Pair:
    """Two tensors that stand for the same.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        ``"structure"``, ``"value"``, ``"name"`` or ``"output"``: what says so.
    """

    a: str
    b: str
    by: str = "structure"


@dataclass(frozen=True)
class Aligned:
    """The tensors of two graphs, in pairs.

    Attributes
    ----------
    pairs : tuple of Pair
        In the order of b's graph, its inputs first.
    only_a, only_b : tuple of str
        The tensors that have no partner.
    """

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def aligned(a: Segments, b: Segments, traces: tuple[Trace, Trace]) -> Aligned:
    """Pair the tensors of two graphs.

    Parameters
    ----------
    a, b : Segments
    traces : tuple of Trace
        Whose models they are. Where they hold no arrays, structure and names decide.
    """
    search = _Search(a, b, traces)
    search.by_ends()
    search.by_structure((traces[0].model, traces[1].model))
    search.exchanged()
    search.led()
    search.by_value()
    search.led()
    search.by_name()
    search.by_output()
    search.by_value()  # what the outputs let go
    found = search.found
    taken = set(found)
    pairs = tuple(found[name] for name in b.order if name in taken)
    firsts = {pair.a for pair in pairs}
    return Aligned(
        pairs, tuple(name for name in a.order if name not in firsts), tuple(name for name in b.order if name not in taken)
    )


class _Search:
    """What was paired so far, by the name in b."""

    def __init__(self, a: Segments, b: Segments, traces: tuple[Trace, Trace]) -> None:
        self.a, self.b = a, b
        self.held_a, self.held_b = dict(traces[0].items()), dict(traces[1].items())
        self.held_weights = traces[0].initializers, traces[1].initializers
        self.found: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self.weights: dict[str, str] = {}  # of b to those of a
        self.same = False
        self._glances: dict[tuple[int, str], _Glance] = {}
        self.ends: tuple[set[str], set[str]] = set(), set()  # what nothing takes apart any more
        self._made_of: tuple[dict[str, int], dict[str, int]] | None = None

    def put(self, a: str, b: str, by: str) -> None:
        if a not in self.ends[0] and b not in self.ends[1]:
            self.found[b] = Pair(a, b, by)
            self.taken.add(a)
            self._made_of = None

    def left(self) -> tuple[list[str], list[str]]:
        return [name for name in self.a.order if name not in self.taken], [n for n in self.b.order if n not in self.found]

    def by_ends(self) -> None:
        """Inputs, and outputs, of one name are what the two models are meant to have in common."""
        for ends_a, ends_b in ((self.a.inputs, self.b.inputs), (self.a.outputs, self.b.outputs)):
            for name in ends_b:
                if name in ends_a and self._known(name, name):
                    self.put(name, name, "structure")
        self.ends = set(self.taken), set(self.found)

    def by_structure(self, models: tuple[ModelProto, ModelProto]) -> None:
        known_a, known_b = set(self.a.order), set(self.b.order)
        if models[0] is models[1] or models[0].graph == models[1].graph:
            values: Mapping[str, str] = {name: name for name in self.a.order}
            self.same = True
        else:
            values = matched(*models).values
        for one, other in values.items():
            if one in known_a and other in known_b and other not in self.found and one not in self.taken:
                self.put(one, other, "structure")
            elif one not in known_a and other not in known_b:
                self.weights[other] = one

    def led(self) -> None:
        """Follow the pairs down both graphs: a node is the one that does the same to the partners of what it reads.

        Where that is exactly one, it is taken from what it was paired with for a likeness further off. Where it is one but for
        its attributes, it is taken if neither is paired with a node that reads the partners of what it reads.
        """
        if self.same:
            return
        exact, alike = (_by_reads(self.a, whole) for whole in (True, False))
        for node, reads in zip(self.b.nodes, self.b.reads, strict=True):
            partners = self._partners(node)
            if not reads or partners is None:
                continue
            found = exact.get(_did(node, partners, whole=True), [])
            if len(found) != 1:
                found = [] if self._agrees(node, partners) else alike.get(_did(node, partners, whole=False), [])
                found = [other for other in found if not self._agreed(other)]
            if len(found) == 1 and self._weighs(found[0], node):
                for one, other in zip(found[0].output, node.output, strict=False):
                    if one and other and (other not in self.found or self.found[other].a != one):
                        self._let_go(one, other)
                        self.put(one, other, "structure")

    def _partners(self, node: NodeProto) -> list[str] | None:
        """What a node of b reads, as a's names; None where something of it has no partner."""
        names = []
        for name in node.input:
            pair = self.found.get(name)
            one = pair.a if pair else self.weights.get(name, None if name else "")
            if one is None:
                return None
            names.append(one)
        return names

    def _agrees(self, b: NodeProto, partners: Sequence[str]) -> bool:
        """Whether a node of b is paired with one that reads the partners of what it reads."""
        pair = next((self.found[name] for name in b.output if name in self.found), None)
        return pair is not None and list(self.a.nodes[self.a.maker[pair.a]].input) == list(partners)

    def _agreed(self, a: NodeProto) -> bool:
        if self.taken.isdisjoint(a.output):
            return False
        other = next(pair.b for pair in self.found.values() if pair.a in a.output)
        node = self.b.nodes[self.b.maker[other]]
        partners = self._partners(node)
        return partners is not None and self._agrees(node, partners)

    def _weighs(self, a: NodeProto, b: NodeProto) -> bool:
        """Whether two nodes that are not paired yet read the same weights: structure may not know which of several is which."""
        if all(self.found.get(other) == Pair(one, other) for one, other in zip(a.output, b.output, strict=False) if other):
            return True
        read = [(one, other) for one, other in zip(a.input, b.input, strict=True) if other in self.weights]
        held = [(self.held_weights[0].get(one), self.held_weights[1].get(other)) for one, other in read]
        return all(x is None or y is None or np.array_equal(x, y) for x, y in held)

    def exchanged(self) -> None:
        """Let go of pairs that structure took for each other: of two that differ, each is like the other's partner.

        Two branches that are built alike, and fused into one another further on, are told apart only by what they hold.
        """
        apart = [p for p in self.found.values() if self._arrays(p) and not self._alike(p.a, p.b)]
        free_a, free_b = self.left()
        ones = defaultdict(list)
        for name in [*(pair.a for pair in apart), *free_a]:
            if isinstance(self.held_a.get(name), np.ndarray):
                ones[_kind(self.held_a[name])].append(name)
        for other in [*(pair.b for pair in apart), *free_b]:
            array = self.held_b.get(other)
            if not isinstance(array, np.ndarray) or not array.size or _plain(array):
                continue
            alike = [name for name in ones.get(_kind(array), []) if self._alike(name, other)]
            if len(alike) == 1 and not (other in self.found and self.found[other].a == alike[0]):
                self._let_go(alike[0], other)
                self.put(alike[0], other, "value")

    def _let_go(self, a: str, b: str) -> None:
        for pair in [pair for pair in self.found.values() if (pair.a == a) != (pair.b == b) and pair.b not in self.ends[1]]:
            del self.found[pair.b]
            self.taken.discard(pair.a)

    def _alike(self, a: str, b: str) -> bool:
        """Whether two arrays hold the same, of one dtype and shape."""
        one, other = self.held_a[a], self.held_b[b]
        if one.dtype != other.dtype or one.shape != other.shape or not one.size:
            return False
        for side, name, array in ((0, a, one), (1, b, other)):
            if (side, name) not in self._glances:
                self._glances[side, name] = _glanced(array)
        return self._glances[0, a].alike(self._glances[1, b])

    def _arrays(self, pair: Pair) -> bool:
        return all(isinstance(a, np.ndarray) for a in (self.held_a.get(pair.a), self.held_b.get(pair.b)))

    # ---- where two tensors stand among those that are paired ---------------------------------------------------------------

    def fits(self, a: str, b: str) -> int:
        """2: both were made of the same pairs; 1: nothing speaks against it; 0: one is before what the other is after."""
        if self._made_of is None:
            pairs = list(self.found.values())
            self._made_of = self.a.ancestors(pair.a for pair in pairs), self.b.ancestors(pair.b for pair in pairs)
        above_a, above_b = self._made_of[0].get(a, 0), self._made_of[1].get(b, 0)
        if above_a == above_b:
            return 2
        return 0 if above_a & self._below(self.b, b) or above_b & self._below(self.a, a) else 1

    def _below(self, graph: Segments, name: str) -> int:
        """The pairs that were made of a tensor."""
        made = graph.ancestors([name])
        pairs = ((pair.a if graph is self.a else pair.b) for pair in self.found.values())
        return sum(1 << bit for bit, one in enumerate(pairs) if made.get(one, 0))

    # ---- by value ----------------------------------------------------------------------------------------------------------

    def by_value(self) -> None:
        """Where a node was fused or written in other words, what comes out of it is still the same."""
        ones, others = self.left()
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in ones:
            if isinstance(self.held_a.get(name), np.ndarray):
                kinds[_kind(self.held_a[name])].append(name)
        for other in others:
            array = self.held_b.get(other)
            # A mask of zeros is like any other.
            if not isinstance(array, np.ndarray) or not array.size or _plain(array):
                continue
            candidates = kinds.get(_kind(array), [])
            if best := max(self._fitting(candidates[:_TRIED], other), default=None):
                self.put(best[2], other, "value")
                candidates.remove(best[2])

    def _fitting(self, candidates: list[str], other: str) -> Iterator[tuple[int, int, str]]:
        """Those that hold what the other holds: how well it fits, and how early."""
        for place, name in enumerate(candidates):
            if self._alike(name, other) and (fits := self.fits(name, other)):
                yield fits, -place, name

    # ---- by name and place ---------------------------------------------------------------------------------------------------

    def by_name(self) -> None:
        ones, others = self.left()
        for name in sorted(set(ones) & set(others), key=others.index):
            if self._same_kind(name, name) and self.fits(name, name):
                self.put(name, name, "name")

    def by_output(self) -> None:
        """Inputs, and outputs, at the same place of two models that have as many."""
        for ends_a, ends_b in ((self.a.inputs, self.b.inputs), (self.a.outputs, self.b.outputs)):
            if len(ends_a) == len(ends_b):
                for one, other in zip(ends_a, ends_b, strict=True):
                    if self._swapped(one, other, ends_a):
                        self._let_go(one, other)
                    free = one not in self.taken and other not in self.found
                    if free and self._known(one, other) and self._same_kind(one, other):
                        self.put(one, other, "output" if ends_a is self.a.outputs else "input")

    def _swapped(self, one: str, other: str, ends: list[str]) -> bool:
        """Whether an output is paired with what is none, though the output at its place is made of the same by the same op."""
        if other not in self.found or self.found[other].a in ends or one not in self.a.maker or other not in self.b.maker:
            return False
        a, b = self.a.nodes[self.a.maker[one]], self.b.nodes[self.b.maker[other]]
        partners = self._partners(b)
        return partners is not None and _did(a, a.input, whole=False) == _did(b, partners, whole=False)

    def _known(self, one: str, other: str) -> bool:
        ends = ((self.a, one), (self.b, other))
        return all(name in graph.maker or name in graph.inputs for graph, name in ends)

    def _same_kind(self, one: str, other: str) -> bool:
        a, b = self.held_a.get(one), self.held_b.get(other)
        return not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or _kind(a) == _kind(b)


def _by_reads(graph: Segments, whole: bool) -> dict[Hashable, list[NodeProto]]:
    found: dict[Hashable, list[NodeProto]] = defaultdict(list)
    for place, node in enumerate(graph.nodes):
        if place not in graph.constant:
            found[_did(node, node.input, whole)].append(node)
    return found


def _did(node: NodeProto, reads: Sequence[str], whole: bool) -> Hashable:
    """What a node does to what it reads; not whole: without its attributes."""
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute) if whole else ()
    return node.domain, node.op_type, tuple(attributes), tuple(reads), len(node.output)


def _kind(array: np.ndarray) -> str:
    try:
        return str(type_of(array))
    except ValueError:  # a dtype that ONNX does not have, which an op for the reference evaluator may give
        return f"{array.dtype}{array.shape}"


_NEAR = 1024
"""Units in the last place of the largest element that two tensors may be apart and still be the same one: they were rounded in
another order. At most a hundredth, for dtypes of few digits."""


@dataclass(frozen=True)
class _Glance:
    """What tells most arrays apart at once: the largest element, and a few."""

    array: np.ndarray
    peak: float
    few: tuple[float, ...]

    def alike(self, other: _Glance) -> bool:
        """Whether two arrays of one type hold the same."""
        near = _near(self.array.dtype) * max(self.peak, other.peak)
        if abs(self.peak - other.peak) > near or any(abs(x - y) > near for x, y in zip(self.few, other.few, strict=True)):
            return False
        if compared(self.array, other.array).verdict in ("bit-identical", "value-identical"):
            return True
        if not near:
            return False
        with np.errstate(all="ignore"):
            return bool(np.abs(self.array.astype(np.float64) - other.array).max() <= near)


def _near(kind: np.dtype) -> float:
    return min(_NEAR * float(np.finfo(kind).eps), 0.01) if kind.kind == "f" else 0.0


def _glanced(array: np.ndarray) -> _Glance:
    if array.dtype.kind != "f":
        return _Glance(array, 0.0, ())
    return _Glance(array, float(np.abs(array).max()), tuple(map(float, array.flat[:4])))


def _plain(array: np.ndarray) -> bool:
    """Whether all elements are the same, as of a mask."""
    return bool((array == array.reshape(-1)[0]).all())
