"""Which tensor of one run corresponds to which of another.

The graphs are matched first without their values (`pyopnb.diffs.models.match`), and inputs and outputs of one name are paired.
One sweep over b in topological order then decides node by node, when the partners of all that a node reads are known. A partner
is, by the first rule that finds one,

1. a node of a that does the same: op, attributes and weights agree, and it reads the partners,
2. the only node of a that is left, has the same op and reads the partners; of several, the one that gave the same values,
3. the tensor of a that holds the same values up to rounding, as behind nodes that were fused or split,
4. the matched node, whatever it reads.

So structure finds nodes again under other names and in another order, values find tensors again where the structure changed,
and behind such a change the sweep is back on structure. The others are paired by name, and outputs by position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.models.hashing import Contents, HashedGraph, Numbers
from pyopnb.diffs.models.match import graph_of_model, match_graphs, pair_names
from pyopnb.diffs.tolerances import EXPOSED, SAME_VALUES_ULPS
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.models.nodes import full_name
from pyopnb.ops.types import type_of
from pyopnb.traces.trace import Trace

__all__ = ["Alignment", "Pair", "align"]

# The values of one tensor are compared with at most so many candidates of its type.
_MAX_CANDIDATES = 64


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
    """
    model_a = traces[0].model
    model_b = traces[1].model
    # Two runs of one model need no search.
    if model_a is model_b or model_a.graph == model_b.graph:
        return Alignment(tuple(Pair(name, name) for name in b.order), (), ())
    aligner = _Aligner(a, b, traces)
    # From the inputs downwards, then what is left, by weaker and weaker evidence.
    aligner.pair_ends()
    aligner.sweep()
    aligner.pair_by_name()
    aligner.pair_outputs_by_position()
    pairs = aligner.pairs
    return Alignment(
        tuple(pairs[name] for name in b.order if name in pairs),
        tuple(name for name in a.order if name not in aligner.paired_a),
        tuple(name for name in b.order if name not in pairs),
    )


class _Aligner:
    """The pairs so far.

    Attributes
    ----------
    pairs : dict
        By the name in b.
    partners : dict
        Tensors of b to their partners in a.
    paired_a : set of str
        The tensors of a that have a partner.
    matches_a, matches_b : dict
        The match of the graphs: tensors of a to those of b, and of b to those of a.
    """

    def __init__(self, a: TraceGraph, b: TraceGraph, traces: tuple[Trace, Trace]) -> None:
        self.a, self.b = a, b
        self.pairs: dict[str, Pair] = {}
        self.partners: dict[str, str] = {}
        self.paired_a: set[str] = set()
        self.weights_a = traces[0].initializers
        self.weights_b = traces[1].initializers
        numbers = Numbers()
        graph_a = graph_of_model(traces[0].model, Contents(numbers))
        graph_b = graph_of_model(traces[1].model, Contents(numbers))
        self.matches_a = match_graphs(graph_a, graph_b).values
        self.matches_b = {name_b: name_a for name_a, name_b in self.matches_a.items()}
        self.keys_a = _NodeKeys(a, graph_a)
        self.keys_b = _NodeKeys(b, graph_b)
        self.equal_nodes, self.similar_nodes = self.keys_a.tables()
        self.arrays_a = _arrays(traces[0])
        self.arrays_b = _arrays(traces[1])
        self.of_type: dict[str, list[str]] = defaultdict(list)
        for name in a.order:
            if name in self.arrays_a:
                self.of_type[self.arrays_a[name].type].append(name)

    def pair(self, a: str, b: str, by: str) -> None:
        if a and b and a not in self.paired_a and b not in self.partners:
            self.pairs[b] = Pair(a, b, by)
            self.partners[b] = a
            self.paired_a.add(a)

    def pair_ends(self) -> None:
        """Pair inputs by name or position, and outputs of one name, which both models are meant to have."""
        for input_a, input_b in pair_names(self.a.inputs, self.b.inputs):
            self.pair(input_a, input_b, "structure")
        for name in self.b.outputs:
            if name in self.a.outputs and name in self.a.producer and name in self.b.producer:
                self.pair(name, name, "structure")

    # ---- the sweep

    def sweep(self) -> None:
        """Find the partners of b's nodes by the rules of the module's docstring."""
        for position, node in enumerate(self.b.nodes):
            is_paired = all(name in self.partners for name in node.output if name)
            if position not in self.b.constants and not is_paired:
                self._decide(position, node)

    def _decide(self, position: int, node: NodeProto) -> None:
        # The match of the graphs is a hint: it has not looked at any values.
        match = self._matched_node(node)
        equal = self._free(self.equal_nodes, self.keys_b.equal(position, self.partners), node)
        if len(equal) > 1:
            # The keys do not tell large weights apart.
            equal = [candidate for candidate in equal if self._same_weights(candidate, node)]
        if equal:
            self._pair_nodes(match if match in equal else equal[0], node)
            return
        key = self.keys_b.similar(position, self.partners)
        similar = self._free(self.similar_nodes, key, node)
        if len(similar) > 1:
            same = []
            for candidate in similar:
                if self._same_values(candidate, node):
                    same.append(candidate)
            similar = same or similar
        if len(similar) > 1 or match not in similar:
            # A candidate that the match gives to another node with this key is for that one.
            belongs = self._belongs_to_another
            similar = [node_a for node_a in similar if node_a == match or not belongs(node_a, key)]
        if len(similar) == 1:
            self._pair_nodes(similar[0], node)
            return
        for name in node.output:
            self._pair_by_value(name)
        if match is not None and self._is_free(match, node):
            self._pair_nodes(match, node)

    def _same_weights(self, a: NodeProto, b: NodeProto) -> bool:
        for name_a, name_b in zip(a.input, b.input, strict=True):
            weight_a = self.weights_a.get(name_a)
            weight_b = self.weights_b.get(name_b)
            if weight_a is None or weight_b is None:
                continue
            if not np.array_equal(weight_a, weight_b):
                return False
        return True

    def _same_values(self, a: NodeProto, b: NodeProto) -> bool:
        for name_a, name_b in zip(a.output, b.output, strict=False):
            x = self.arrays_a.get(name_a)
            y = self.arrays_b.get(name_b)
            if x is None or y is None or x.type != y.type or not x.close_to(y):
                return False
        return True

    def _pair_nodes(self, a: NodeProto, b: NodeProto) -> None:
        for name_a, name_b in zip(a.output, b.output, strict=False):
            self.pair(name_a, name_b, "structure")

    def _free(
        self, nodes: Mapping[Hashable, list[NodeProto]], key: Hashable, b: NodeProto
    ) -> list[NodeProto]:
        candidates = []
        for node in nodes.get(key, ()):
            if self._is_free(node, b):
                candidates.append(node)
        return candidates

    def _is_free(self, a: NodeProto, b: NodeProto) -> bool:
        """Tell whether no output of a node of a has a partner, unless it is an output of a node of b."""
        partners = {self.partners.get(name) for name in b.output}
        return all(name in partners or name not in self.paired_a for name in a.output)

    def _matched_node(self, node: NodeProto) -> NodeProto | None:
        """Return the node of a that the match of the graphs gives a node of b."""
        for name in node.output:
            match = self.matches_b.get(name)
            if match in self.a.producer:
                return self.a.nodes[self.a.producer[match]]
        return None

    def _belongs_to_another(self, a: NodeProto, key: Hashable) -> bool:
        """Tell whether a node of a is matched with a node of b that has the key."""
        for name in a.output:
            match = self.matches_a.get(name)
            if match in self.b.producer:
                return self.keys_b.similar(self.b.producer[match], self.partners) == key
        return False

    def _pair_by_value(self, name: str) -> None:
        array = self.arrays_b.get(name)
        # Tensors of one repeated element, such as masks, look like each other without being the same.
        if array is None or name in self.partners or array.constant:
            return
        match = self.matches_b.get(name)
        free = [
            candidate for candidate in self.of_type[array.type] if candidate not in self.paired_a
        ]
        for candidate in sorted(free[:_MAX_CANDIDATES], key=lambda candidate: candidate != match):
            if array.close_to(self.arrays_a[candidate]):
                self.pair(candidate, name, "structure" if candidate == match else "value")
                return

    # ---- what the sweep has not paired

    def pair_by_name(self) -> None:
        names_a = set(self.a.order)
        for name in self.b.order:
            if name in names_a and self._same_type(name, name):
                self.pair(name, name, "name")

    def pair_outputs_by_position(self) -> None:
        """Pair the outputs without a partner, of models that have equally many."""
        if len(self.a.outputs) != len(self.b.outputs):
            return
        for name_a, name_b in zip(self.a.outputs, self.b.outputs, strict=True):
            are_results = name_a in self.a.producer and name_b in self.b.producer
            if are_results and self._same_type(name_a, name_b):
                self.pair(name_a, name_b, "output")

    def _same_type(self, name_a: str, name_b: str) -> bool:
        a = self.arrays_a.get(name_a)
        b = self.arrays_b.get(name_b)
        return a is None or b is None or a.type == b.type


class _NodeKeys:
    """What the nodes of one graph do, as keys that agree between graphs where the nodes do the same."""

    def __init__(self, segments: TraceGraph, graph: HashedGraph) -> None:
        self.segments, self.graph = segments, graph

    def tables(self) -> tuple[dict[Hashable, list[NodeProto]], dict[Hashable, list[NodeProto]]]:
        """Tabulate the nodes by their keys `equal` and `similar`, in terms of the graph's own tensors."""
        names = {name: name for name in self.segments.order}
        equal = defaultdict(list)
        similar = defaultdict(list)
        for position, node in enumerate(self.segments.nodes):
            if position not in self.segments.constants:
                equal[self.equal(position, names)].append(node)
                similar[self.similar(position, names)].append(node)
        equal.pop(None, None)
        similar.pop(None, None)
        return equal, similar

    def equal(self, position: int, names: Mapping[str, str]) -> Hashable:
        """Make a key of op, attributes, small weights and reads; None where one has no name."""
        producers = self.graph.producers
        reads = self._reads(position, names, lambda name: self.graph.weights[name])
        for name in self.segments.nodes[position].output:
            if reads is not None and name in producers:
                return self.graph.local[producers[name][0]], reads
        return None

    def similar(self, position: int, names: Mapping[str, str]) -> Hashable:
        """Make a key of op, number of outputs, and reads without weights; None where one has no name."""
        node = self.segments.nodes[position]
        reads = self._reads(position, names, lambda name: 0)
        if reads is None:
            return None
        return (full_name(node), len(node.output), reads)

    def _reads(
        self, position: int, names: Mapping[str, str], weight: Callable[[str], int]
    ) -> Hashable | None:
        """Return the inputs in order, then what the bodies read."""
        # A body reads tensors from outside by name, so that these have no order.
        inputs = list(self.segments.nodes[position].input)
        captures = []
        for name in self.segments.reads[position]:
            if name not in inputs:
                captures.append(name)
        keys: list[Hashable] = []
        for name in (*inputs, *captures):
            if name in self.graph.weights:
                keys.append(("weight", weight(name)))
            elif name and name not in names:
                return None
            else:
                keys.append(names.get(name, ""))
        return tuple(keys[: len(inputs)]), frozenset(keys[len(inputs) :])


class _Array:
    """A tensor's array, with what tells most arrays apart at once: its largest element, and its first few."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        try:
            self.type = str(type_of(array))
        except ValueError:
            # A dtype that ONNX does not have, which an op for the reference evaluator may give.
            self.type = f"{array.dtype}{array.shape}"

    @cached_property
    def sample(self) -> tuple[float, ...]:
        """Return the largest element and the first few, of floats."""
        if self.array.dtype.kind != "f":
            return (0.0,)
        peak = np.abs(self.array).max(initial=0.0)
        return (float(peak), *map(float, self.array.flat[:4]))

    @cached_property
    def constant(self) -> bool:
        """Tell whether all elements are the same, or there are none."""
        return not self.array.size or bool((self.array == self.array.reshape(-1)[0]).all())

    def close_to(self, other: _Array) -> bool:
        """Tell whether two arrays of one type hold the same up to `SAME_VALUES_ULPS`."""
        dtype, relative = self.array.dtype, 0.0
        if dtype.kind == "f":
            # Dtypes of few digits would let everything pass.
            relative = min(SAME_VALUES_ULPS * float(np.finfo(dtype).eps), EXPOSED)
        most = relative * max(self.sample[0], other.sample[0])
        # A few numbers tell most arrays apart, without a look at millions of others.
        for x, y in zip(self.sample, other.sample, strict=True):
            if abs(x - y) > most:
                return False
        if compared(self.array, other.array).verdict in ("bit-identical", "value-identical"):
            return True
        if not most:
            return False
        with np.errstate(all="ignore"):
            return bool(np.abs(self.array.astype(np.float64) - other.array).max() <= most)


def _arrays(trace: Trace) -> dict[str, _Array]:
    arrays = {}
    for name, value in trace.items():
        if isinstance(value, np.ndarray):
            arrays[name] = _Array(value)
    return arrays
