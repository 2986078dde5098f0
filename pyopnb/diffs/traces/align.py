"""Which tensor of one run corresponds to which of another.

The graphs are matched first without their values (`pyopnb.diffs.models.match`), and inputs and outputs of one name are paired.
One sweep over b in topological order then decides node by node, when the partners of all that a node reads are known. A partner
is, by the first rule that finds one,

1. a node of a that does the same: op, attributes and weights agree, and it reads the partners,
2. the only node of a that is left, has the same op and reads the partners; of several, the one that gave the same values,
3. the tensor of a that holds the same values up to rounding, as behind nodes that were fused or split,
4. the matched node, whatever it reads.

So structure finds nodes again under other names and in another order, values find tensors again where the structure changed,
and behind such a change the sweep is back on structure. What is left is paired by name, and outputs by position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.models.hashing import Contents, Graph, Numbers
from pyopnb.diffs.models.match import graph_of_model, match_graphs, pair_names
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.models.nodes import full_name
from pyopnb.ops.types import type_of
from pyopnb.traces.trace import Trace

__all__ = ["Alignment", "Pair", "align"]

_MAX_CANDIDATES = 64  # of one type whose values are compared with one tensor's

_MAX_ULPS = 1024
"""Units in the last place of the largest element by which two tensors may differ and still count as one: they were rounded in
another order. At most a hundredth of it, for dtypes of few digits."""


@dataclass(frozen=True)
class Pair:
    """Two tensors that correspond to each other.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        The evidence: ``"structure"``, ``"value"``, ``"name"`` or ``"output"``.
    """

    a: str
    b: str
    by: str = "structure"


@dataclass(frozen=True)
class Alignment:
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


def align(a: TraceGraph, b: TraceGraph, traces: tuple[Trace, Trace]) -> Alignment:
    """Pair the tensors of two graphs.

    Parameters
    ----------
    a, b : TraceGraph
    traces : tuple of Trace
        The runs of the two graphs. Without their arrays, structure and names decide.

    Returns
    -------
    Alignment
    """
    models = [trace.model for trace in traces]
    if models[0] is models[1] or models[0].graph == models[1].graph:
        return Alignment(tuple(Pair(name, name) for name in b.order), (), ())
    aligner = _Aligner(a, b, traces)
    aligner.pair_ends()
    aligner.sweep()
    aligner.pair_by_name()
    aligner.pair_outputs_by_position()
    partners, taken = aligner.partners, aligner.taken
    return Alignment(
        tuple(
            Pair(partners[name], name, aligner.evidence[name])
            for name in b.order
            if name in partners
        ),
        tuple(name for name in a.order if name not in taken),
        tuple(name for name in b.order if name not in partners),
    )


class _Aligner:
    """The pairs found so far.

    Attributes
    ----------
    partners : dict
        Tensors of b to their partners in a.
    evidence : dict
        What says so, by the name in b.
    taken : set of str
        The tensors of a that have a partner.
    matches_a, matches_b : dict
        The match of the graphs: tensors of a to those of b, and of b to those of a.
    """

    def __init__(self, a: TraceGraph, b: TraceGraph, traces: tuple[Trace, Trace]) -> None:
        self.a, self.b = a, b
        self.partners: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.taken: set[str] = set()
        self.weights = tuple(trace.initializers for trace in traces)
        numbers = Numbers()
        one, other = (graph_of_model(trace.model, Contents(numbers)) for trace in traces)
        self.matches_a = match_graphs(one, other)[0].values
        self.matches_b = {right: left for left, right in self.matches_a.items()}
        self.keys_a, self.keys_b = _NodeKeys(a, one), _NodeKeys(b, other)
        self.equal_nodes, self.similar_nodes = self.keys_a.tables()
        self.arrays_a, self.arrays_b = (_arrays(trace) for trace in traces)
        self.of_type: dict[str, list[str]] = defaultdict(list)
        for name in a.order:
            if name in self.arrays_a:
                self.of_type[self.arrays_a[name].type].append(name)

    def pair(self, a: str, b: str, by: str) -> None:
        if a and b and a not in self.taken and b not in self.partners:
            self.partners[b], self.evidence[b] = a, by
            self.taken.add(a)

    def pair_ends(self) -> None:
        """Inputs by name or position, and outputs of one name: what the two models are meant to have in common."""
        for one, other in pair_names(self.a.inputs, self.b.inputs):
            self.pair(one, other, "structure")
        for name in self.b.outputs:
            if name in self.a.outputs and name in self.a.producer and name in self.b.producer:
                self.pair(name, name, "structure")

    # ---- the sweep ---------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Find the partners of b's nodes by the rules of the module's docstring."""
        for place, node in enumerate(self.b.nodes):
            if place not in self.b.constants and not all(
                name in self.partners for name in node.output if name
            ):
                self._decide(place, node)

    def _decide(self, place: int, node: NodeProto) -> None:
        match = self._matched_node(node)
        equal = self._free(self.equal_nodes, self.keys_b.equal(place, self.partners), node)
        if len(equal) > 1:  # the keys do not tell large weights apart
            equal = [other for other in equal if self._same_weights(other, node)]
        if equal:
            self._pair_nodes(match if match in equal else equal[0], node)
            return
        key = self.keys_b.similar(place, self.partners)
        similar = self._free(self.similar_nodes, key, node)
        if len(similar) > 1:
            similar = [other for other in similar if self._same_values(other, node)] or similar
        if len(similar) > 1 or match not in similar:
            similar = [
                other for other in similar if other == match or not self._reads_partners(other, key)
            ]
        if len(similar) == 1:
            self._pair_nodes(similar[0], node)
            return
        for name in node.output:
            self._pair_by_value(name)
        if match is not None and self._is_free(match, node):
            self._pair_nodes(match, node)

    def _same_weights(self, a: NodeProto, b: NodeProto) -> bool:
        arrays = [
            [weights.get(name) for name in node.input]
            for weights, node in zip(self.weights, (a, b), strict=True)
        ]
        return all(
            one is None or other is None or np.array_equal(one, other)
            for one, other in zip(*arrays, strict=True)
        )

    def _same_values(self, a: NodeProto, b: NodeProto) -> bool:
        arrays = [
            (self.arrays_a.get(one), self.arrays_b.get(other))
            for one, other in zip(a.output, b.output, strict=False)
        ]
        return all(
            x is not None and y is not None and x.type == y.type and x.close_to(y)
            for x, y in arrays
        )

    def _pair_nodes(self, a: NodeProto, b: NodeProto) -> None:
        for one, other in zip(a.output, b.output, strict=False):
            self.pair(one, other, "structure")

    def _free(
        self, nodes: Mapping[Hashable, list[NodeProto]], key: Hashable, b: NodeProto
    ) -> list[NodeProto]:
        return [node for node in nodes.get(key, ()) if self._is_free(node, b)]

    def _is_free(self, a: NodeProto, b: NodeProto) -> bool:
        """Tell whether no output of a node of a has a partner, unless it is an output of a node of b."""
        own = {self.partners.get(name) for name in b.output}
        return all(name in own or name not in self.taken for name in a.output)

    def _matched_node(self, node: NodeProto) -> NodeProto | None:
        """Return the node of a that the match of the graphs gives a node of b."""
        names = (self.matches_b.get(name) for name in node.output)
        return next(
            (self.a.nodes[self.a.producer[name]] for name in names if name in self.a.producer), None
        )

    def _reads_partners(self, a: NodeProto, key: Hashable) -> bool:
        """Tell whether a node of a is matched with a node of b that has the key, and so is not for another one with it."""
        names = (self.matches_a.get(name) for name in a.output)
        place = next((self.b.producer[name] for name in names if name in self.b.producer), None)
        return place is not None and self.keys_b.similar(place, self.partners) == key

    def _pair_by_value(self, name: str) -> None:
        array = self.arrays_b.get(name)
        # Tensors of one repeated element, such as masks, look like each other without being the same.
        if array is None or name in self.partners or array.constant:
            return
        match = self.matches_b.get(name)
        candidates = [one for one in self.of_type[array.type] if one not in self.taken][
            :_MAX_CANDIDATES
        ]
        for one in sorted(candidates, key=lambda one: one != match):
            if array.close_to(self.arrays_a[one]):
                self.pair(one, name, "structure" if one == match else "value")
                return

    # ---- what is left ------------------------------------------------------------------------------------------------------

    def pair_by_name(self) -> None:
        known = set(self.a.order)
        for name in self.b.order:
            if name in known and self._same_type(name, name):
                self.pair(name, name, "name")

    def pair_outputs_by_position(self) -> None:
        """Pair the outputs that are left of models that have equally many."""
        if len(self.a.outputs) == len(self.b.outputs):
            for one, other in zip(self.a.outputs, self.b.outputs, strict=True):
                if (
                    one in self.a.producer
                    and other in self.b.producer
                    and self._same_type(one, other)
                ):
                    self.pair(one, other, "output")

    def _same_type(self, one: str, other: str) -> bool:
        a, b = self.arrays_a.get(one), self.arrays_b.get(other)
        return a is None or b is None or a.type == b.type


class _NodeKeys:
    """What the nodes of one graph do, as keys that agree between graphs where the nodes do the same."""

    def __init__(self, segments: TraceGraph, graph: Graph) -> None:
        self.segments, self.graph = segments, graph

    def tables(self) -> tuple[dict[Hashable, list[NodeProto]], dict[Hashable, list[NodeProto]]]:
        """Tabulate the nodes by their keys `equal` and `similar`, in terms of the graph's own tensors."""
        own = {name: name for name in self.segments.order}
        equal, similar = defaultdict(list), defaultdict(list)
        for place, node in enumerate(self.segments.nodes):
            if place not in self.segments.constants:
                equal[self.equal(place, own)].append(node)
                similar[self.similar(place, own)].append(node)
        for table in (equal, similar):
            table.pop(None, None)
        return equal, similar

    def equal(self, place: int, names: Mapping[str, str]) -> Hashable:
        """Op, attributes, contents of small weights, and what else it reads under other names; None where one has no name."""
        node = self.segments.nodes[place]
        producers = self.graph.producers
        index = next((producers[name][0] for name in node.output if name in producers), None)
        reads = self._reads(place, names, lambda name: self.graph.weights[name])
        return None if reads is None or index is None else (self.graph.local[index], reads)

    def similar(self, place: int, names: Mapping[str, str]) -> Hashable:
        """Op, number of outputs, and what it reads that are no weights, under other names; None where one has no name."""
        node = self.segments.nodes[place]
        reads = self._reads(place, names, lambda name: 0)
        return None if reads is None else (full_name(node), len(node.output), reads)

    def _reads(
        self, place: int, names: Mapping[str, str], weight: Callable[[str], int]
    ) -> Hashable | None:
        """Return the inputs in order, then what the bodies read."""
        node, weights = self.segments.nodes[place], self.graph.weights
        inner = [name for name in self.segments.reads[place] if name not in node.input]
        if any(
            name and name not in weights and name not in names for name in (*node.input, *inner)
        ):
            return None
        keys = [
            ("weight", weight(name)) if name in weights else names.get(name, "")
            for name in (*node.input, *inner)
        ]
        return tuple(keys[: len(node.input)]), frozenset(keys[len(node.input) :])


class _Array:
    """A tensor's array, with what tells most arrays apart at once: its largest element, and its first few."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        try:
            self.type = str(type_of(array))
        except (
            ValueError
        ):  # a dtype that ONNX does not have, which an op for the reference evaluator may give
            self.type = f"{array.dtype}{array.shape}"

    @cached_property
    def peak(self) -> float:
        return float(np.abs(self.array).max(initial=0.0)) if self.array.dtype.kind == "f" else 0.0

    @cached_property
    def first(self) -> tuple[float, ...]:
        return tuple(map(float, self.array.flat[:4])) if self.array.dtype.kind == "f" else ()

    @cached_property
    def constant(self) -> bool:
        """Tell whether all elements are the same, or there are none."""
        return not self.array.size or bool((self.array == self.array.reshape(-1)[0]).all())

    def close_to(self, other: _Array) -> bool:
        """Tell whether two arrays of one type hold the same up to `_MAX_ULPS`."""
        kind = self.array.dtype
        relative = min(_MAX_ULPS * float(np.finfo(kind).eps), 0.01) if kind.kind == "f" else 0.0
        most = relative * max(self.peak, other.peak)
        if any(
            abs(x - y) > most
            for x, y in zip((self.peak, *self.first), (other.peak, *other.first), strict=True)
        ):
            return False
        if compared(self.array, other.array).verdict in ("bit-identical", "value-identical"):
            return True
        if not most:
            return False
        with np.errstate(all="ignore"):
            return bool(np.abs(self.array.astype(np.float64) - other.array).max() <= most)


def _arrays(trace: Trace) -> dict[str, _Array]:
    return {name: _Array(value) for name, value in trace.items() if isinstance(value, np.ndarray)}
