"""The comparison of two runs, tensor by tensor and node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pyopnb.common import messages, progress, sanitize
from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.tolerances import SCALED, Tolerances
from pyopnb.diffs.traces.align import Alignment, Pair, align
from pyopnb.diffs.traces.causes import find_causes, format_ops, op_versions
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.forms import TensorForm, find_form, rounding
from pyopnb.diffs.traces.half import (
    SUMS,
    as_fed,
    half_causes,
    in_one_precision,
    narrower,
    sum_causes,
)
from pyopnb.diffs.traces.isolate import Isolated, Isolation, as_made
from pyopnb.diffs.traces.precision import precisions
from pyopnb.diffs.traces.quantized_pairs import QuantizedTensors, is_quantized
from pyopnb.diffs.traces.segments import Segment, Side, called, turned_otherwise
from pyopnb.diffs.traces.steps import ComparedStep, ComparedTensor, for_runtimes
from pyopnb.engine import dtype, protos
from pyopnb.errors import InputError
from pyopnb.traces import Trace

__all__ = ["TraceComparison", "diff_sides", "diff_traces", "diff_with_arrays"]

_NO_ALIGNMENT = Alignment((), (), ())


def diff_traces(
    a: Trace,
    b: Trace,
    tolerances: Tolerances,
) -> TraceDiff:
    """Find where two runs diverge; see `pyopnb.diff`.

    Raises
    ------
    InputError
        The runs have no tensor in common, b was not run by its model and a was, or a tolerance is
        negative.
    """
    # The nodes of b run in isolation, which a program in torch cannot.
    if a.by_model and not b.by_model:
        got = f"a by {a.runtime or 'a model'}, b by {b.runtime}"
        expected = "the run of the program that was exported first"
        raise InputError("diff", expected=expected, got=got, next="diff(b, a)")
    if is_quantized(a.model) and not is_quantized(b.model):
        expected = "the float model's run first"
        raise InputError("diff", expected=expected, got="a quantized model's", next="diff(b, a)")
    return diff_sides((Side.of(a), Side.of(b)), tolerances)


def diff_sides(
    sides: tuple[Side, Side],
    tolerances: Tolerances,
    known: Collection[str] = (),
    *,
    sparing: bool = False,
) -> TraceDiff:
    """Find where two runs diverge; for ``known`` and ``sparing`` see `TraceComparison`."""
    a, b = (side.trace for side in sides)
    alignment = align(*sides)
    if is_quantized(b.model) and not is_quantized(a.model):
        return _diff_quantized(QuantizedTensors(sides, alignment), tolerances)
    pairs = _recorded(alignment.pairs, sides)
    b_graph = sides[1].graph
    if not any(pair.b in b_graph.producer or pair.b in b_graph.outputs for pair in pairs):
        raise InputError(
            "diff",
            expected="two runs with tensors in common",
            got=f"{len(a.values)} and {len(b.values)} tensors, of which none correspond",
            next="traces with their tensors: session.trace(…) without level= or only=",
        )
    tolerances = for_runtimes(tolerances, (a.runtime, b.runtime))
    comparison = TraceComparison(sides, pairs, tolerances, known=known, sparing=sparing)
    return comparison.diff(alignment)


def _diff_quantized(quantized: QuantizedTensors, tolerances: Tolerances) -> TraceDiff:
    """Compare a float model with a quantized one, tensor by tensor after dequantization."""
    dequantized = quantized.dequantized()
    a, b = quantized.sides
    sides = a, b._replace(arrays={**b.arrays, **dequantized})
    pairs = _recorded(quantized.pairs(), sides)
    paired_b = {pair.b for pair in pairs}
    # Quantizers add tensors of their own, which need no partner; only outputs do.
    alignment = Alignment(
        tuple(pairs),
        quantized.only_a({pair.a for pair in pairs}),
        tuple(name for name in b.graph.outputs if name not in paired_b),
    )
    comparison = TraceComparison(sides, pairs, tolerances, integers=dequantized.keys())
    diff = comparison.diff(alignment)
    rows = tuple(quantized.rows(pairs))
    only_a = tuple(name for name in diff.only_a if name in alignment.only_a)
    return replace(diff, only_a=only_a, only_b=(), quantization=rows)


def _recorded(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> list[Pair]:
    """Select the pairs that both runs recorded: only these can be compared."""
    a, b = sides
    return [pair for pair in pairs if pair.a in a.arrays and pair.b in b.arrays]


def diff_with_arrays(
    trace: Trace,
    arrays: Mapping[str, Any],
    tolerances: Tolerances,
    *,
    first: bool,
) -> TraceDiff:
    """Find where a run diverges from arrays, given by the names of the run's tensors.

    ``first`` tells whether the trace is a.

    Raises
    ------
    InputError
        There are no arrays, or one has the name of no tensor of the run.
    """
    run = Side.of(trace)
    expected = "arrays by names of tensors in the trace"
    if not arrays:
        raise InputError("diff, arrays", expected=expected, got="none", next='{"y": y}')
    for name in arrays:
        if name not in run.arrays:
            advice = f"write {sanitize(messages.suggest(str(name), run.arrays), 200)}"
            got = sanitize(repr(name), 80)
            raise InputError("diff, arrays", expected=expected, got=got, next=advice)
    pairs = [Pair(name, name, "given") for name in run.arrays if name in arrays]
    sides = run, run._replace(arrays=arrays)
    if not first:
        sides = sides[1], run
    return TraceComparison(sides, pairs, tolerances, arrays_side=int(first)).diff()


@dataclass
class TraceComparison:
    """Two runs and the pairs of their tensors.

    Attributes
    ----------
    pairs : sequence of Pair
        The tensors that both have.
    arrays_side : int, optional
        0 if a is arrays instead of a run, 1 if b is: it then has the ``trace`` and ``graph``
        of the other side.
    integers : collection of str, optional
        Tensors of b that were dequantized only for the comparison: no node can
        run on these numbers.
    coarse : dict, optional
        The coarser dtypes on the way to tensors, by the names in b.
    half : str
        The dtype if b is a model that `in_half` made of a.
    known : collection of str, optional
        Tensors of b that agree, whatever the nodes before them do.
    sparing : bool
        Whether only nodes whose results differ run in isolation.
    lossy : set of int
        The nodes of a that make or read a tensor of an origin, if possible one that lost numbers.
    segments : dict
        For each compared tensor of b the nodes that make it from other compared ones.
    """

    sides: tuple[Side, Side]
    pairs: Sequence[Pair]
    tolerances: Tolerances
    arrays_side: int | None = None
    integers: Collection[str] = ()
    coarse: dict[str, str] | None = None
    half: str = ""
    known: Collection[str] = ()
    sparing: bool = False
    lossy: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.a, self.b = self.sides
        b = self.b.graph
        self.paired = {pair.a for pair in self.pairs}, {pair.b for pair in self.pairs}
        unclear = self.paired[1].difference(self.known)
        made = [name for name in b.producer if name in unclear]
        self.segments = {name: b.between(name, self.paired[1]) for name in made}
        self._put_in_one_form()
        self.is_half = any(map(self._narrower, self.pairs))
        if self.is_half:
            # Wider tensors after a rounding to half precision keep its error.
            self.tolerances = self.tolerances.or_scaled()
        if self.coarse is None:
            self.coarse = self._coarser if self.tolerances == SCALED else {}

    @cached_property
    def _coarser(self) -> dict[str, str]:
        # Where one of the two is in half precision, its dtypes on the way count on either side.
        in_a, in_b = (precisions(side.trace.model, side.graph, side.arrays) for side in self.sides)
        return {pair.b: in_b.get(pair.b) or in_a.get(pair.a, "") for pair in self.pairs}

    def _put_in_one_form(self) -> None:
        """Put the tensors of a into the forms of b, or given arrays into the forms of the run."""
        # By the names in b.
        self.values: dict[str, tuple[Any, Any]] = {}
        self.forms: dict[str, TensorForm] = {}
        unclear = []
        for pair in self.pairs:
            values = as_made(self.a.arrays[pair.a]), as_made(self.b.arrays[pair.b])
            if self._may_have_forms(pair, values):
                ends = values[::-1] if self.arrays_side == 1 else values
                form = find_form(*ends, max(map(rounding, values)))
                unclear.append(pair.b)
                if form is not None:
                    self.forms[pair.b] = form
            self.values[pair.b] = self._in_one_form(pair.b, *values)
        # A tensor that differs is turned as another one that agrees.
        axes = {form.axes: form for form in self.forms.values()}
        for name in unclear:
            for form in axes.values() if name not in self.forms else ():
                a, b = self.values[name]
                moved, other = (b, a) if self.arrays_side == 1 else (a, b)
                if form.turns(moved.shape) == other.shape:
                    self.forms[name] = TensorForm(form.axes, other.shape)
                    self.values[name] = self._in_one_form(name, a, b)
                    break

    def _may_have_forms(self, pair: Pair, values: tuple[Any, Any]) -> bool:
        if self.half or not all(isinstance(value, np.ndarray) for value in values):
            return False
        types = {(value.shape, str(value.dtype)) for value in values}
        if len(types) == 1 and pair.by != "form":
            return False
        if self.arrays_side is not None:
            return True
        return not turned_otherwise(self.a.graph, pair.a, self.b.graph, pair.b)

    def _in_one_form(self, name: str, a: Any, b: Any) -> tuple[Any, Any]:
        form = self.forms.get(name)
        if form is None:
            return a, b
        if self.arrays_side == 1:
            return a, form.of(b)
        return form.of(a), b

    def _narrower(self, pair: Pair) -> str:
        return narrower(*self.values[pair.b])

    def diff(self, alignment: Alignment = _NO_ALIGNMENT) -> TraceDiff:
        """Compare everything, and list the tensors without a partner."""
        tensors = self.tensors()
        graph_b = self.b.graph
        runtimes = [side.trace.runtime for side in self.sides]
        if self.arrays_side is not None:
            runtimes[self.arrays_side] = "arrays"
        outputs_only_a, only_a = self._unpaired(0, alignment)
        outputs_only_b, only_b = self._unpaired(1, alignment)
        feeds = []
        results = []
        for name, tensor in tensors.items():
            if name in graph_b.producer:
                results.append(tensor)
            else:
                feeds.append(tensor)
        diff = TraceDiff(
            runtimes[0],
            runtimes[1],
            feeds=tuple(feeds),
            tensors=tuple(results),
            steps=tuple(self.steps(tensors)),
            outputs=tuple(name for name in graph_b.outputs if name in tensors),
            only_a=only_a,
            only_b=only_b,
            outputs_only_a=outputs_only_a,
            outputs_only_b=outputs_only_b,
            plain=tuple(self._plain()),
            rewritten=self._rewritten(tensors),
            models=(self.a.trace.model, self.b.trace.model),
            partners={pair.a: pair.b for pair in alignment.pairs or self.pairs},
        ).followed()
        return replace(diff, steps=tuple(map(self.explained, diff.steps)))

    def _rewritten(self, tensors: Mapping[str, ComparedTensor]) -> dict[str, int]:
        """Count the nodes that give the same as other nodes of the other model."""
        counts: Counter[str] = Counter()
        for name, segment_b in self.segments.items():
            name_a = tensors[name].a
            if name_a in self.a.graph.producer and tensors[name].diff.ok:
                segment_a = self.a.graph.between(name_a, self.paired[0])
                ops = [
                    format_ops(side.graph, part)
                    for side, part in zip(self.sides, (segment_a, segment_b), strict=True)
                ]
                if ops[0] != ops[1] and len(segment_a.nodes) + len(segment_b.nodes) > 2:
                    counts[" → ".join(ops)] += 1
        return dict(counts)

    def _unpaired(self, side: int, alignment: Alignment) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List a side's outputs without a partner, and other tensors that only it recorded."""
        if alignment is _NO_ALIGNMENT:
            return (), ()
        graph = self.sides[side].graph
        unpaired = (alignment.only_a, alignment.only_b)[side]
        outputs = tuple(name for name in graph.outputs if name in unpaired)
        # A pair that only one of the runs recorded is not compared, either.
        known = {(pair.a, pair.b)[side] for pair in self.pairs}.union(outputs)
        lone = [
            name for name in graph.order if name in self.sides[side].arrays and name not in known
        ]
        return outputs, tuple(lone)

    def _plain(self) -> Iterator[ComparedTensor]:
        """Compare the outputs that recording changed as normal runs give them."""
        # Normal runs add up in another order where they fuse nodes.
        tolerances = self.tolerances.or_scaled()
        for pair in self.pairs:
            values = [self.a.arrays[pair.a], self.b.arrays[pair.b]]
            is_changed = False
            for side, name in enumerate((pair.a, pair.b)):
                exposure = self.sides[side].trace.exposure
                if side != self.arrays_side and exposure is not None and name in exposure.plain:
                    values[side] = exposure.plain[name]
                    is_changed = True
            if is_changed and pair.b not in self.integers:
                formed = self._in_one_form(pair.b, *values)
                # A fusion may leave out a rounding to half precision, or add one.
                precision = self._coarser[pair.b] or self._narrower(pair)
                diff = self._compared(pair, *formed, tolerances.widened(precision))
                yield ComparedTensor(pair.a, pair.b, pair.by, diff, precision=precision)

    # ---- tensor by tensor

    def tensors(self) -> dict[str, ComparedTensor]:
        """Compare every pair, as it accumulated and in isolation, by the name in b."""
        tensors = {}
        with progress.tracking("comparisons", len(self.segments) + len(self.pairs)):
            for pair in self.pairs:
                tensors[pair.b] = self.tensor(pair)
                progress.advance("comparisons", 1)
            segments = self.segments
            if self.sparing:
                segments = {x: s for x, s in segments.items() if not tensors[x].diff.ok}
            isolated = self._isolated(segments)
            # A node may differ only because it ran alone; isolating it in its own run tells.
            offsets = self._offsets(isolated)
            default = Isolated()
            if self.integers:
                default = Isolated(reason="it computes with integers")
            if not self.b.trace.by_model:
                default = Isolated(reason=f"{self.b.trace.runtime} ran no node")
            for pair in self.pairs:
                result = isolated.get(pair.b, default)
                tensors[pair.b] = replace(
                    tensors[pair.b],
                    alone=result.diff,
                    reason=result.reason,
                    steady=result.steady,
                    own=tuple(offsets.get(pair.b, ())),
                )
        return tensors

    def tensor(self, pair: Pair) -> ComparedTensor:
        """Compare the arrays of a pair."""
        precision = self._precision(pair)
        diff = self._compared(pair, *self.values[pair.b], self.tolerances.widened(precision))
        form = self.forms.get(pair.b)
        text = ""
        if form is not None:
            moved = self.b.arrays[pair.b] if self.arrays_side == 1 else self.a.arrays[pair.a]
            text = form.text(moved.shape)
        return ComparedTensor(pair.a, pair.b, pair.by, diff, precision=precision, form=text)

    def _precision(self, pair: Pair) -> str:
        """Name the coarser dtype whose tolerance applies to a pair; empty for its own dtype."""
        return (self.coarse or {}).get(pair.b) or self._narrower(pair)

    def _compared(self, pair: Pair, a: Any, b: Any, tolerances: Tolerances) -> Diff:
        a, b = in_one_precision(a, b)
        return compared({pair.b: a}, {pair.b: b}, tolerances)

    def _isolated(self, segments: Mapping[str, Segment]) -> dict[str, Isolated]:
        """Run b's nodes on a's arrays; if b is arrays, run a's nodes on b's arrays."""
        trace = self.b.trace
        if not trace.by_model:
            return {}
        feeds = dict(trace.feeds)
        precisions = {}
        for pair in self.pairs:
            # If b is arrays, it has the names of a.
            feeds[pair.b] = self.values[pair.b][int(self.arrays_side == 1)]
            if self.is_half:
                # The nodes that run alone also round to half precision.
                precisions[pair.b] = self._precision(pair)
        with_floats = {}
        for name, segment in segments.items():
            if not any(tensor in self.integers for tensor in (name, *segment.ends)):
                with_floats[name] = segment
        isolation = Isolation(trace, self.b.graph, feeds)
        return isolation.results(with_floats, self.tolerances, precisions)

    def _offsets(self, isolated: Mapping[str, Isolated]) -> dict[str, list[Diff]]:
        """Measure the difference between isolation and the runs, where it exceeds the tolerance.

        Nodes with a state or random numbers differ for that reason, so they are skipped.
        """
        offsets: dict[str, list[Diff]] = {}
        for name, result in isolated.items():
            if result.diff is not None and not result.diff.ok and result.steady:
                offsets[name] = []
        for side, (trace, graph, arrays) in enumerate(self.sides):
            if side == self.arrays_side or not trace.by_model:
                continue
            # The results of both sides are kept under the names of b.
            names = {(pair.a, pair.b)[side]: pair.b for pair in self.pairs}
            segments = {}
            for name, name_b in names.items():
                if name_b in offsets and name in graph.producer:
                    segments[name] = graph.between(name, names.keys())
            isolation = Isolation(trace, graph, {**trace.feeds, **arrays})
            for name, result in isolation.results(segments, self.tolerances).items():
                if result.diff is not None:
                    offsets[names[name]].append(result.diff)
        return offsets

    # ---- node by node

    def steps(self, tensors: Mapping[str, ComparedTensor]) -> Iterator[ComparedStep]:
        """Describe every node of b that makes a compared tensor."""
        outputs: dict[int, list[ComparedTensor]] = {}
        for name in self.segments:
            outputs.setdefault(self.b.graph.producer[name], []).append(tensors[name])
        for position in sorted(outputs):
            yield self._step(position, tuple(outputs[position]), tensors)

    def _step(
        self,
        position: int,
        outputs: tuple[ComparedTensor, ...],
        tensors: Mapping[str, ComparedTensor],
    ) -> ComparedStep:
        a = self.a.graph
        b = self.b.graph
        node = b.nodes[position]
        # Between the compared inputs and this node there may be others, as after a fusion.
        segment_b = b.between([tensor.b for tensor in outputs], self.paired[1])
        twins = [tensor.a for tensor in outputs if tensor.a in a.producer]
        versions: tuple[int | None, int | None] = (None, None)
        if self.arrays_side is None:
            versions = op_versions(self.a, self.b, node)
        sources = [self.a.trace.sources.get(tensor.a) for tensor in outputs]
        sources += [self.b.trace.sources.get(tensor.b) for tensor in outputs]
        return ComparedStep(
            called(node),
            protos.full_name(node),
            called(a.nodes[a.producer[twins[0]]]) if twins else "",
            outputs,
            tuple(tensors[name] for name in segment_b.ends if name in tensors),
            tuple(b.names(segment_b, without=[position])),
            versions,
            source=next(filter(None, sources), ""),
        )

    def explained(self, step: ComparedStep) -> ComparedStep:
        """Add the causes to a step that introduces a difference."""
        twins = [tensor.a for tensor in step.outputs if tensor.a in self.a.graph.producer]
        differs = step.verdict == "origin"
        if self.half:
            # Rounding that adds up is reported as well.
            differs = step.verdict not in ("same", "hides")
        if self.arrays_side is not None or not differs or not twins:
            return step
        segment_a = self.a.graph.between(twins, self.paired[0])
        segment_b = self.b.graph.between([tensor.b for tensor in step.outputs], self.paired[1])
        names = twins[0], step.outputs[0].b
        if self.half:
            # The nodes of b are the ones of a and casts.
            a = self.a.graph
            return replace(
                step,
                name=step.a,
                op=protos.full_name(a.nodes[a.producer[twins[0]]]),
                between=tuple(a.names(segment_a, without=[a.producer[twins[0]]])),
                changes=tuple(self._half_causes(step, segment_a)),
            )
        causes = find_causes(self.a, self.b, (segment_a, segment_b), names)
        remarks = dict.fromkeys(self._remarks(segment_a, segment_b))
        return replace(step, changes=(*remarks, *self._half_causes(step, segment_b), *causes))

    def _half_causes(self, step: ComparedStep, segment: Segment) -> Iterator[str]:
        """Yield the effects of half precision on inputs or outputs of the first differing node."""
        causes: list[str] = []
        names = [(tensor.a, tensor.b) for tensor in (*step.inputs, *step.outputs)]
        if self.half:
            # Also weights, and the feeds, which are not compared.
            names += [(name, name) for name in (*segment.weights, *segment.ends)]
            names = list(dict.fromkeys(names))
        lost = []
        for name_a, name_b in names:
            found = self._half_losses(name_a, name_b)
            if found:
                lost.append(name_a)
            causes += found
        # In half precision, the sums of b may be written out.
        graph = self.a.graph if self.half else self.b.graph
        ops = {graph.nodes[position].op_type for position in segment.nodes}
        sums: list[str] = []
        for tensor in step.outputs if ops & SUMS else ():
            # An infinity is explained by what overflowed.
            if not causes or np.isfinite(self.b.arrays[tensor.b]).all():
                sums += self._lost_terms(tensor)
        if self.half and sums:
            self.lossy.update(graph.producer[tensor.a] for tensor in step.outputs)
        elif self.half:
            for name in lost or [name for name, _ in names]:
                self.lossy.update(graph.around(name))
        yield from (*causes, *sums)

    def _half_losses(self, name_a: str, name_b: str) -> list[str]:
        a, b = self.a.arrays.get(name_a), self.b.arrays.get(name_b)
        if self.half and a is None:
            a = self.a.trace.feeds.get(name_a)
            if a is None:
                a = self.a.weight(name_a)
        if self.half and isinstance(a, np.ndarray) and a.dtype == np.float32:
            # Also a tensor that is in float32 where it was recorded.
            with np.errstate(over="ignore", under="ignore"):
                b = a.astype(dtype(self.half).numpy)
        return list(half_causes(name_b, b, a))

    def _lost_terms(self, tensor: ComparedTensor) -> Iterator[str]:
        """Run the wider run's node on the half-precision inputs, and compare the sums."""
        names = tensor.a, tensor.b
        arrays = self.a.arrays[tensor.a], self.b.arrays[tensor.b]
        if not narrower(*arrays):
            return
        # The wider side runs its node, but on inputs that are rounded as on the other side.
        side = int(arrays[0].dtype.itemsize < arrays[1].dtype.itemsize)
        trace, graph, recorded = self.sides[side]
        feeds = dict(trace.feeds)
        for pair in self.pairs:
            if pair.b in self.forms:
                continue
            ends = pair.a, pair.b
            value = self.sides[1 - side].arrays[ends[1 - side]]
            feeds[ends[side]] = as_fed(value, recorded[ends[side]])
        segments = {names[side]: graph.between(names[side], feeds)}
        for _, outcome in Isolation(trace, graph, feeds).run(segments):
            # Why it could not run was reported before.
            if not isinstance(outcome, str):
                yield from sum_causes(tensor.b, arrays[1 - side], outcome[0])

    def _remarks(self, *segments: Segment) -> Iterator[str]:
        """Yield the compared tensors that the nodes of both sides make."""
        for (trace, graph, _), segment in zip(self.sides, segments, strict=True):
            for position in segment.nodes:
                for name in graph.nodes[position].output:
                    if name in trace.remarks:
                        yield trace.remarks[name]
