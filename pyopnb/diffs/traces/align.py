"""Pair the tensors of two runs.

Inputs and outputs of one name are paired first. The graphs are matched without their values
(`pyopnb.diffs.models.match`). Then one sweep over b in topological order decides tensor by tensor.
The partner is the matched tensor, if its node has the same op. Otherwise, it is a tensor of a with
the same values up to rounding, as after nodes that were fused or split. If there is none, it is the
matched tensor after all.

So structure finds nodes again under other names and in another order, and values find tensors again
after a change. The others are paired by name, and outputs by position.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TensorProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.models.hashing import Contents, Numbers
from pyopnb.diffs.models.match import Matching, graph_of_model, pair_names
from pyopnb.diffs.tolerances import EXPOSED, SAME_VALUES_ULPS, Tolerances
from pyopnb.diffs.traces.segments import Side, TraceGraph
from pyopnb.engine import external_files, protos, type_of
from pyopnb.traces import Trace

__all__ = ["Alignment", "Pair", "align"]

# The values of a tensor are compared with at most this many candidates of its type.
_MAX_CANDIDATES = 64
# About how many elements of a large weight are compared.
_SAMPLED = 2**14


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


def align(a: Side, b: Side) -> Alignment:
    """Pair the tensors of two runs; without their arrays, structure and names decide."""
    model_a = a.trace.model
    model_b = b.trace.model
    # Two runs of one model need no search.
    if model_a is model_b or model_a.graph == model_b.graph:
        return Alignment(tuple(Pair(name, name) for name in b.graph.order), (), ())
    aligner = _Aligner(a, b)
    aligner.pair_ends()
    aligner.sweep()
    aligner.pair_by_name()
    pairs = aligner.pairs
    return Alignment(
        tuple(pairs[name] for name in b.graph.order if name in pairs),
        tuple(name for name in a.graph.order if name not in aligner.paired_a),
        tuple(name for name in b.graph.order if name not in pairs),
    )


class _TraceContents(Contents):
    """The contents of a trace's weights: its model is without the larger ones."""

    def __init__(self, numbers: Numbers, trace: Trace) -> None:
        super().__init__(numbers)
        self._initializers = trace.initializers

    def array(self, tensor: TensorProto) -> Any:
        if not external_files.is_external(tensor):
            return super().array(tensor)
        # A sample is enough to distinguish weights, and reading all elements of large ones takes
        # seconds.
        flat = np.asarray(self._initializers[tensor.name]).reshape(-1)
        return flat[:: 1 + flat.size // _SAMPLED]


class _Aligner:
    """The pairs so far, by the name in b."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a = a.graph
        self.b = b.graph
        self.pairs: dict[str, Pair] = {}
        self.paired_a: set[str] = set()
        numbers = Numbers()
        graph_a, graph_b = (
            graph_of_model(side.trace.model, _TraceContents(numbers, side.trace)) for side in (a, b)
        )
        self.matches = {y: x for x, y in Matching(graph_a, graph_b).values.items()}
        self.arrays_a = _arrays(a)
        self.arrays_b = _arrays(b)
        self.of_type: dict[str, list[str]] = defaultdict(list)
        for name in self.a.order:
            if name in self.arrays_a:
                self.of_type[self.arrays_a[name].type].append(name)

    def pair(self, a: str, b: str, by: str) -> None:
        if a and b and a not in self.paired_a and b not in self.pairs:
            self.pairs[b] = Pair(a, b, by)
            self.paired_a.add(a)

    def pair_ends(self) -> None:
        """Pair inputs by name or position, and outputs that have the same name in both models."""
        for input_a, input_b in pair_names(self.a.inputs, self.b.inputs):
            self.pair(input_a, input_b, "structure")
        for name in self.b.outputs:
            if name in self.a.outputs and name in self.a.producer and name in self.b.producer:
                self.pair(name, name, "structure")

    def sweep(self) -> None:
        """Pair the results of b's nodes by structure, or by value."""
        for name in self.b.order:
            match = self.matches.get(name, "")
            if match in self.a.producer and self._op(self.a, match) == self._op(self.b, name):
                self.pair(match, name, "structure")
            self._pair_by_value(name)
            # Two nodes of different ops between the same tensors.
            if match in self.a.producer and self._same_type(match, name):
                self.pair(match, name, "structure")

    def _op(self, graph: TraceGraph, name: str) -> str:
        if name in graph.producer:
            return protos.full_name(graph.nodes[graph.producer[name]])
        return ""

    def _pair_by_value(self, name: str) -> None:
        array = self.arrays_b.get(name)
        # Tensors of one repeated element, such as masks, look like each other
        # without being the same.
        if array is None or name in self.pairs or array.constant:
            return
        free = []
        for x in self.of_type[array.type]:
            if x not in self.paired_a:
                free.append(x)
        for candidate in free[:_MAX_CANDIDATES]:
            if array.close_to(self.arrays_a[candidate]):
                self.pair(candidate, name, "value")
                return

    def pair_by_name(self) -> None:
        """Pair the remaining tensors by name, and outputs by position if there are as many."""
        names_a = set(self.a.order)
        for name in self.b.order:
            if name in names_a and self._same_type(name, name):
                self.pair(name, name, "name")
        if len(self.a.outputs) == len(self.b.outputs):
            for name_a, name_b in zip(self.a.outputs, self.b.outputs, strict=True):
                are_results = name_a in self.a.producer and name_b in self.b.producer
                if are_results and self._same_type(name_a, name_b):
                    self.pair(name_a, name_b, "output")

    def _same_type(self, name_a: str, name_b: str) -> bool:
        a = self.arrays_a.get(name_a)
        b = self.arrays_b.get(name_b)
        return a is None or b is None or a.type == b.type


class _Array:
    """A tensor's array, with its largest and first elements, which tell most arrays apart."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        try:
            self.type = str(type_of(array))
        except ValueError:
            # A dtype that ONNX does not have, which an op for the reference evaluator may give.
            self.type = f"{array.dtype}{array.shape}"

    @cached_property
    def sample(self) -> tuple[float, ...]:
        """Return the largest element and the first few of a float array."""
        if self.array.dtype.kind != "f":
            return (0.0,)
        peak = np.abs(self.array).max(initial=0.0)
        return (float(peak), *map(float, self.array.flat[:4]))

    @cached_property
    def constant(self) -> bool:
        """Tell whether all elements are equal; True for empty arrays."""
        return not self.array.size or bool((self.array == self.array.reshape(-1)[0]).all())

    def close_to(self, other: _Array) -> bool:
        """Tell whether two arrays of one type hold the same up to `SAME_VALUES_ULPS`."""
        dtype = self.array.dtype
        relative = 0.0
        if dtype.kind == "f":
            # Dtypes of few digits would let everything pass.
            relative = min(SAME_VALUES_ULPS * float(np.finfo(dtype).eps), EXPOSED)
        most = relative * max(self.sample[0], other.sample[0])
        # A few numbers tell most arrays apart, without a look at millions of others.
        for x, y in zip(self.sample, other.sample, strict=True):
            if abs(x - y) > most:
                return False
        return compared(self.array, other.array, Tolerances(0.0, most)).ok


def _arrays(side: Side) -> dict[str, _Array]:
    return {name: _Array(x) for name, x in side.arrays.items() if isinstance(x, np.ndarray)}
