"""Pair the tensors of two runs.

Inputs and outputs of one name are paired first. The graphs are matched without their values
(`pyopnb.diffs.models.match`), which only orders the candidates: tensors are paired by their values
up to rounding. Then the matched tensors that differ become pairs too, and the others are paired by
name, and outputs by position.

So structure finds nodes again under other names and in another order, and values find tensors again
after nodes were folded, fused or split. Between tensors that agree, a pair that differs is dropped
unless the nodes there are the same: it is only two steps of two ways to one result.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TensorProto

from pyopnb.diffs.models.hashing import Contents, Numbers
from pyopnb.diffs.models.match import Matching, graph_of_model, pair_names
from pyopnb.diffs.tolerances import is_float
from pyopnb.diffs.traces.causes import format_ops
from pyopnb.diffs.traces.forms import find_form, holds_same, largest, rounding
from pyopnb.diffs.traces.segments import Side, TraceGraph, same_op, turned_otherwise
from pyopnb.engine import external_files, protos, type_of
from pyopnb.traces import Trace

__all__ = ["Alignment", "Pair", "align"]

# The values of a tensor are compared with at most this many that have its type and largest element.
_MAX_CANDIDATES = 64
# About how many elements of a large weight are compared.
_SAMPLED = 2**11


@dataclass(frozen=True)
class Pair:
    """Two tensors that correspond to each other.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        The evidence: ``"structure"``, ``"value"``, ``"form"``, ``"name"`` or ``"output"``.
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
    aligner.pair_by_value()
    aligner.uncross_outputs()
    aligner.pair_by_structure()
    aligner.pair_by_name()
    aligner.drop_detours()
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
        flat = self._initializers.mapped(tensor.name).reshape(-1)
        return flat[:: 1 + flat.size // _SAMPLED]


class _Aligner:
    """The pairs so far, by the name in b."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a = a.graph
        self.b = b.graph
        self.pairs: dict[str, Pair] = {}
        self.paired_a: set[str] = set()
        # The tensors of b that agree with their partners; the inputs count as if they did.
        self.right: set[str] = set(self.b.inputs)
        numbers = Numbers()
        graph_a, graph_b = (
            graph_of_model(side.trace.model, _TraceContents(numbers, side.trace)) for side in (a, b)
        )
        self.back = Matching(graph_a, graph_b).values
        self.matches = {y: x for x, y in self.back.items()}
        self.arrays_a = _arrays(a)
        self.arrays_b = _arrays(b)
        # By type, for equal tensors, and by size, for tensors in another form.
        self.by_peak: dict[str | int, list[tuple[float, int, str]]] = defaultdict(list)
        for number, name in enumerate(self.a.order):
            if name in self.arrays_a:
                array = self.arrays_a[name]
                self.by_peak[array.type].append((array.peak, number, name))
                self.by_peak[array.array.size].append((array.peak, number, name))
        for rows in self.by_peak.values():
            rows.sort()

    def pair(self, a: str, b: str, by: str = "structure") -> None:
        if a and b and a not in self.paired_a and b not in self.pairs:
            self.pairs[b] = Pair(a, b, by)
            self.paired_a.add(a)

    def pair_ends(self) -> None:
        """Pair inputs by name or position, and outputs that have the same name in both models."""
        for input_a, input_b in pair_names(self.a.inputs, self.b.inputs):
            self.pair(input_a, input_b)
        for name in self.b.outputs:
            if name in self.a.outputs and name in self.a.producer and name in self.b.producer:
                self.pair(name, name)

    # ---- by value

    def pair_by_value(self) -> None:
        """Pair tensors of the same values: matched ones, then ones that are used or made alike."""
        for name in self.b.order:
            match = self.matches.get(name, "")
            if same_op(self.a, match, self.b, name) and self._equal(match, name):
                self.pair(match, name)
                self.right.add(name)
        others: list[str] = []
        for name in self.b.order:
            array = self.arrays_b.get(name)
            # Tensors of one repeated element, such as masks, look like each other
            # without being the same.
            if array is not None and name not in self.pairs and not array.constant:
                others.append(name)
        # Equal tensors before ones in another form, and ones that are used alike before others.
        for by in ("value", "form"):
            for are_used_alike in (True, False):
                for name in others:
                    self._pair_equal(name, by, are_used_alike=are_used_alike)

    def _pair_equal(self, name: str, by: str, *, are_used_alike: bool) -> None:
        """Pair a tensor with one of the same values, in its own form or in another one."""
        if name in self.pairs or not (are_used_alike or self._has_no_twin(name)):
            return
        array = self.arrays_b[name]
        match = self.matches.get(name, "")
        uses = self.b.uses(name)
        for candidate in self._near(name, array.type if by == "value" else array.array.size):
            if are_used_alike and candidate != match and self.a.uses(candidate) != uses:
                continue
            if self._equal(candidate, name, by):
                self.pair(candidate, name, by)
                self.right.add(name)
                return

    def _has_no_twin(self, name: str) -> bool:
        """Tell that no node of the same op is used alike: it is the partner, even if it differs."""
        match = self.matches.get(name, "")
        is_same = same_op(self.a, match, self.b, name)
        return not is_same or self.a.uses(match) != self.b.uses(name)

    def _near(self, name: str, kind: str | int) -> list[str]:
        """List the tensors of a without a partner whose largest elements are as in one of b."""
        array = self.arrays_b[name]
        rows = self.by_peak[kind]
        start = bisect_left(rows, (array.peak - array.rounding,))
        end = bisect_left(rows, (array.peak + array.rounding, math.inf))
        free = [row[1:] for row in rows[start:end] if row[2] not in self.paired_a]
        return [candidate for _, candidate in sorted(free)[:_MAX_CANDIDATES]]

    def _equal(self, name_a: str, name_b: str, by: str = "") -> bool:
        a = self.arrays_a.get(name_a)
        b = self.arrays_b.get(name_b)
        if a is None or b is None:
            return False
        if a.type == b.type and by != "form":
            return b.close_to(a)
        if turned_otherwise(self.a, name_a, self.b, name_b):
            return False
        return find_form(a.array, b.array, max(a.rounding, b.rounding)) is not None

    def uncross_outputs(self) -> None:
        """Pair outputs of a node by their readers, if it gives those in another order."""
        for node in self.b.nodes:
            crossed: dict[str, str] = {}
            paired = [x for x in node.output if x in self.right and x in self.pairs]
            for name in paired if len(paired) > 1 else ():
                read = _read_alike(self.b, self.a, name, self.matches)
                if self.pairs[name].a != read and not self._is_read(name):
                    crossed[name] = read
            # If the readers were wrong, each of them would have to be.
            if set(crossed.values()) == {self.pairs[name].a for name in crossed}:
                for name, read in crossed.items():
                    self.pairs[name] = Pair(read, name)
                    self.right.remove(name)

    def _is_read(self, name: str) -> bool:
        """Tell whether a result of a node that reads a tensor is right."""
        results = (self.b.nodes[position].output for position in self.b.readers.get(name, ()))
        return any(result in self.right for outputs in results for result in outputs)

    # ---- by structure and name

    def pair_by_structure(self) -> None:
        """Pair matched tensors that differ, or whose values nobody recorded."""
        for name in self.b.order:
            match = self.matches.get(name, "")
            if match not in self.a.producer or name in self.pairs:
                continue
            are_used_alike = self.a.uses(match) == self.b.uses(name)
            if not same_op(self.a, match, self.b, name):
                if are_used_alike or self._read_same(match, name):
                    self._pair_alike(match, name)
                continue
            if not are_used_alike:
                # A node before or behind it was folded into it: the tensor that is used alike
                # corresponds to it.
                self._pair_alike(_read_alike(self.b, self.a, name, self.matches), name)
                self._pair_alike(match, _read_alike(self.a, self.b, match, self.back))
            self.pair(match, name)

    def _read_same(self, name_a: str, name_b: str) -> bool:
        """Tell whether the nodes of two tensors read one tensor, under both its names."""
        reads_a = self.a.reads[self.a.producer[name_a]]
        for read in self.b.reads[self.b.producer[name_b]] if name_b in self.b.producer else ():
            if read in self.pairs and self.pairs[read].a in reads_a:
                return True
        return False

    def _pair_alike(self, a: str, b: str, by: str = "structure") -> None:
        """Pair two tensors that have one type, as far as is known."""
        if self._same_type(a, b):
            self.pair(a, b, by)

    def pair_by_name(self) -> None:
        """Pair the remaining tensors by name, and outputs in order if there are as many."""
        names_a = set(self.a.order)
        for name in self.b.order:
            if name in names_a:
                self._pair_alike(name, name, "name")
        outputs_a = [name for name in self.a.outputs if name not in self.paired_a]
        outputs_b = [name for name in self.b.outputs if name not in self.pairs]
        if len(outputs_a) == len(outputs_b):
            for name_a, name_b in zip(outputs_a, outputs_b, strict=True):
                are_results = name_a in self.a.producer and name_b in self.b.producer
                if are_results:
                    self._pair_alike(name_a, name_b, "output")

    def _same_type(self, name_a: str, name_b: str) -> bool:
        a = self.arrays_a.get(name_a)
        b = self.arrays_b.get(name_b)
        return a is None or b is None or a.type == b.type or self._equal(name_a, name_b)

    # ---- two ways to one result

    def drop_detours(self) -> None:
        """Drop the pairs that differ between tensors that agree, if the nodes there differ too."""
        for name, pair in self.pairs.items():
            if name not in self.right and self._equal(pair.a, name):
                self.right.add(name)
        if self.right.issuperset(self.pairs):
            return
        right_a = {pair.a for name, pair in self.pairs.items() if name in self.right}
        # What leads to an output that differs is no detour, even if a saturated node hides it on
        # another path.
        outputs = [x for x in self.b.outputs if x in self.pairs and x in self.b.producer]
        leading = self.b.between(set(outputs) - self.right, self.right).nodes
        kept = self.right.union(self.b.outputs, *(self.b.nodes[p].output for p in leading))
        for name in self.b.order:
            array = self.arrays_b.get(name)
            # A shape agrees whatever the numbers before it are.
            is_result = name in self.right and name in self.pairs and name in self.b.producer
            if not is_result or (array is not None and not is_float(array.array)):
                continue
            way = self.b.between(name, self.right)
            inside = {x for position in way.nodes[:-1] for x in self.b.nodes[position].output}
            detour = {x for x in inside.intersection(self.pairs) - kept if self._are_recorded(x)}
            if not detour:
                continue
            way_a = self.a.between(self.pairs[name].a, right_a)
            if format_ops(self.a, way_a) != format_ops(self.b, way):
                for x in detour:
                    self.paired_a.remove(self.pairs.pop(x).a)

    def _are_recorded(self, name: str) -> bool:
        return name in self.arrays_b and self.pairs[name].a in self.arrays_a


def _read_alike(graph: TraceGraph, other: TraceGraph, name: str, matches: dict[str, str]) -> str:
    """Return what the partner of a tensor's reader reads in its place; empty if that is unclear."""
    for position in graph.readers.get(name, ()):
        reader = graph.nodes[position]
        twin = other.producer.get(matches.get(protos.first_output(reader), ""))
        if twin is not None and name in reader.input:
            inputs = other.nodes[twin].input
            slot = list(reader.input).index(name)
            if slot < len(inputs) and inputs[slot] in other.producer:
                return str(inputs[slot])
    return ""


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
    def peak(self) -> float:
        return largest(self.array)

    @cached_property
    def rounding(self) -> float:
        return rounding(self.array)

    @cached_property
    def sample(self) -> list[float]:
        """Return the first few elements of a float array."""
        if not is_float(self.array):
            return []
        return [float(x) for x in self.array.flat[:4]]

    @cached_property
    def constant(self) -> bool:
        """Tell whether all elements are equal; True for empty arrays."""
        return not self.array.size or bool((self.array == self.array.reshape(-1)[0]).all())

    def close_to(self, other: _Array) -> bool:
        """Tell whether two arrays of one type hold the same up to rounding."""
        most = max(self.rounding, other.rounding)
        # A few numbers tell most arrays apart, without a look at millions of others.
        for x, y in zip([self.peak, *self.sample], [other.peak, *other.sample], strict=True):
            if abs(x - y) > most:
                return False
        return holds_same(self.array, other.array, most)


def _arrays(side: Side) -> dict[str, _Array]:
    return {name: _Array(x) for name, x in side.arrays.items() if isinstance(x, np.ndarray)}
