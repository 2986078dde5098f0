"""The comparison of two runs, tensor by tensor and node by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import NodeProto

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.traces.align import Alignment, Pair, align
from pyopnb.diffs.traces.causes import find_causes, op_versions
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.isolate import Isolated, as_made, run_isolated
from pyopnb.diffs.traces.precision import precisions
from pyopnb.diffs.traces.segments import Segment, TraceGraph, called
from pyopnb.diffs.traces.steps import (
    Step,
    Tensor,
    Tolerances,
    default_stol,
    scales_by_dtype,
    widened,
)
from pyopnb.errors import InputError
from pyopnb.models.nodes import bodies, first_output, full_name
from pyopnb.ops.messages import sanitize, suggest
from pyopnb.ops.progress import advance, tracking
from pyopnb.traces.trace import Trace

__all__ = ["TraceComparison", "diff_traces", "diff_with_arrays"]

_ROUNDING = 1e-2
"""By what part of the largest element outputs may differ as the runtime fuses other nodes: float16's and then some."""


def diff_traces(
    a: Trace,
    b: Trace,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
) -> TraceDiff:
    """Find where two runs diverge; see `pyopnb.diff`.

    Returns
    -------
    TraceDiff

    Raises
    ------
    InputError
        The runs have no tensor in common, b was not run by its model and a was, or a tolerance is negative or not finite.
    """
    if a.by_model and not b.by_model:
        got = f"a by {a.runtime or 'a model'}, b by {b.runtime}"
        raise InputError(
            "diff",
            expected="the run of the program that was exported first",
            got=got,
            next="diff(b, a)",
        )
    graphs = TraceGraph(a.model), TraceGraph(b.model)
    arrays = dict(a.items()), dict(b.items())
    alignment = align(*graphs, (a, b))
    pairs = [pair for pair in alignment.pairs if pair.a in arrays[0] and pair.b in arrays[1]]
    if not any(pair.b in graphs[1].producer for pair in pairs):
        raise InputError(
            "diff",
            expected="two runs with tensors in common",
            got=f"{_names(a)}, and {_names(b)}, of which none correspond",
            next="traces with their tensors: session.trace(…) without level= or only=",
        )
    tolerances = rtol, atol, default_stol((a.runtime, b.runtime), rtol, atol, stol)
    return TraceComparison((a, b), graphs, arrays, pairs, tolerances).diff(alignment)


def _names(trace: Trace) -> str:
    names = [sanitize(name, 40) for name in trace.values]
    return (
        f"{', '.join(names[:4])}{' …' * (len(names) > 4)}"
        if names
        else "a trace that kept no tensors"
    )


def diff_with_arrays(
    trace: Trace,
    arrays: Mapping[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    *,
    first: bool,
) -> TraceDiff:
    """Find where a run diverges from arrays of another, given by the names of the run's tensors; see `pyopnb.diff`.

    Parameters
    ----------
    trace : Trace
    arrays : mapping
    rtol, atol, stol : float, optional
    first : bool
        Whether the trace is a.

    Returns
    -------
    TraceDiff

    Raises
    ------
    InputError
        There are no arrays, or one has the name of no tensor of the run.
    """
    own = dict(trace.items())
    unknown = [name for name in arrays if name not in own]
    if unknown or not arrays:
        raise InputError(
            "diff, arrays",
            expected="arrays by names of tensors in the trace",
            got=sanitize(repr(unknown[0]), 80) if unknown else "none",
            next=f"write {sanitize(suggest(str(unknown[0]), own), 200)}" if unknown else None,
        )
    graph = TraceGraph(trace.model)
    pairs = [Pair(name, name, "given") for name in own if name in arrays]
    sides = (own, dict(arrays)) if first else (dict(arrays), own)
    return TraceComparison(
        (trace, trace),
        (graph, graph),
        sides,
        pairs,
        (rtol, atol, stol),
        arrays_side=1 if first else 0,
    ).diff()


@dataclass
class TraceComparison:
    """Two runs and the pairs of their tensors.

    Attributes
    ----------
    traces : tuple of Trace
    graphs : tuple of TraceGraph
    arrays : tuple of mapping
        The arrays of both.
    pairs : sequence of Pair
        The tensors that both have.
    tolerances : tuple of (float or None)
        ``rtol``, ``atol`` and ``stol``.
    arrays_side : int, optional
        0 if a is arrays instead of a run, 1 if b is: ``traces`` and ``graphs`` then have those of the other side twice.
    only : str, optional
        Compare only the node that makes this tensor of b.
    segments : dict
        For each compared tensor of b the nodes that make it from other compared ones.
    """

    traces: tuple[Trace, Trace]
    graphs: tuple[TraceGraph, TraceGraph]
    arrays: tuple[Mapping[str, Any], Mapping[str, Any]]
    pairs: Sequence[Pair]
    tolerances: Tolerances
    arrays_side: int | None = None
    only: str | None = None

    def __post_init__(self) -> None:
        b = self.graphs[1]
        paired = {pair.b for pair in self.pairs}
        names = (
            [pair.b for pair in self.pairs if pair.b in b.producer]
            if self.only is None
            else [self.only]
        )
        self.segments = {name: b.between(name, paired) for name in names}

    def diff(self, alignment: Alignment | None = None) -> TraceDiff:
        """Compare everything; what the alignment leaves without a partner is listed."""
        tensors = self.tensors()
        b = self.graphs[1]
        a_outputs, b_outputs, a_rest, b_rest = (
            self._unpaired(alignment) if alignment is not None else ((), (), (), ())
        )
        of_a, of_b = (
            "arrays" if side == self.arrays_side else trace.runtime
            for side, trace in enumerate(self.traces)
        )
        return TraceDiff(
            of_a,
            of_b,
            feeds=tuple(tensor for tensor in tensors.values() if tensor.b not in b.producer),
            tensors=tuple(tensor for tensor in tensors.values() if tensor.b in b.producer),
            steps=tuple(self.steps(tensors)),
            outputs=tuple(name for name in b.outputs if name in tensors),
            only_a=a_rest,
            only_b=b_rest,
            outputs_only_a=a_outputs,
            outputs_only_b=b_outputs,
            exposed=tuple(self._exposed()),
            models=(self.traces[0].model, self.traces[1].model),
            partners={
                pair.a: pair.b for pair in (self.pairs if alignment is None else alignment.pairs)
            },
        )

    def _exposed(self) -> Iterator[str]:
        for side, trace in enumerate(self.traces):
            if (
                side != self.arrays_side
                and trace.exposure is not None
                and any(_is_more_than_rounding(trace))
            ):
                yield f"{'ab'[side]}: {trace.exposure}"

    def _unpaired(self, alignment: Alignment) -> tuple[tuple[str, ...], ...]:
        """Outputs of a and of b without a partner, then other tensors of a and of b that only one run recorded."""
        outputs, rest = [], []
        only = alignment.only_a, alignment.only_b
        paired = {pair.a for pair in self.pairs}, {pair.b for pair in self.pairs}
        for side, graph in enumerate(self.graphs):
            lone = tuple(name for name in graph.outputs if name in only[side])
            outputs.append(lone)
            recorded = (name for name in graph.order if name in self.arrays[side])
            rest.append(
                tuple(name for name in recorded if name not in paired[side] and name not in lone)
            )
        return *outputs, *rest

    def tensors(self) -> dict[str, Tensor]:
        """Every pair with its accumulated and its isolated error, by the name in b."""
        # The nodes of b run on a's arrays; where b is arrays, the nodes of a run on those.
        given = {
            pair.b: self.arrays[1][pair.b] if self.arrays_side == 1 else self.arrays[0][pair.a]
            for pair in self.pairs
        }
        trace, graph = self.traces[1], self.graphs[1]
        coarse: dict[str, str] = {}
        if scales_by_dtype(self.tolerances):
            coarse = precisions(trace.model, graph, self.arrays[1])
        tensors = {}
        with tracking("comparisons", len(self.segments) + len(self.pairs)):
            isolated = {}
            if trace.by_model:
                isolated = run_isolated(
                    trace, graph, self.segments, {**trace.feeds, **given}, self.tolerances
                )
            own = self._own(isolated)
            for pair in self.pairs:
                values = as_made(self.arrays[0][pair.a]), as_made(self.arrays[1][pair.b])
                precision = coarse.get(pair.b, "")
                diff = compared(
                    {pair.b: values[0]}, {pair.b: values[1]}, *widened(self.tolerances, precision)
                )
                result = isolated.get(
                    pair.b,
                    Isolated() if trace.by_model else Isolated(why=f"{trace.runtime} ran no node"),
                )
                facts = (
                    result.diff,
                    result.why,
                    result.steady,
                    tuple(own.get(pair.b, ())),
                    precision,
                )
                tensors[pair.b] = Tensor(pair.a, pair.b, pair.by, diff, *facts)
                advance("comparisons", 1)
        return tensors

    def _own(self, isolated: Mapping[str, Isolated]) -> dict[str, list[Diff]]:
        """Measure how far isolation is off from the runs themselves, where it is over the tolerance; by the names in b.

        A node with a state or random numbers is off by these, so there is nothing to learn.
        """
        over = {
            name
            for name, one in isolated.items()
            if one.diff is not None and not one.diff.ok and one.steady
        }
        found: dict[str, list[Diff]] = {name: [] for name in over}
        for side in {0, 1} - {
            self.arrays_side,
            *(n for n in (0, 1) if not self.traces[n].by_model),
        }:
            trace, graph = self.traces[side], self.graphs[side]
            ends = {(pair.b if side else pair.a): pair.b for pair in self.pairs}
            names = [name for name, b in ends.items() if b in over and name in graph.producer]
            segments = {name: graph.between(name, ends.keys()) for name in names}
            results = run_isolated(
                trace, graph, segments, {**trace.feeds, **self.arrays[side]}, self.tolerances
            )
            for name, result in results.items():
                found[ends[name]] += [] if result.diff is None else [result.diff]
        return found

    def steps(self, tensors: Mapping[str, Tensor]) -> list[Step]:
        """Every node of b that makes a compared tensor."""
        outputs: dict[int, list[Tensor]] = {}
        for name in self.segments:
            outputs.setdefault(self.graphs[1].producer[name], []).append(tensors[name])
        return [
            self._step(place, tuple(of_node), tensors) for place, of_node in sorted(outputs.items())
        ]

    def _step(self, place: int, outputs: tuple[Tensor, ...], tensors: Mapping[str, Tensor]) -> Step:
        a, b = self.graphs
        node = b.nodes[place]
        segment = _join([self.segments[tensor.b] for tensor in outputs])
        paired = {pair.a for pair in self.pairs}
        twins = {
            tensor.a: a.between(tensor.a, paired) for tensor in outputs if tensor.a in a.producer
        }
        makers = [a.producer[name] for name in twins]
        before = {p for twin in twins.values() for p in twin.nodes} - set(makers)
        twin = a.nodes[makers[0]] if makers else None
        step = Step(
            called(node),
            full_name(node),
            "" if twin is None else called(twin),
            outputs,
            tuple(tensors[name] for name in segment.ends if name in tensors),
            tuple(called(b.nodes[p]) for p in segment.nodes if p != place and p not in b.constants),
            tuple(called(a.nodes[p]) for p in sorted(before - a.constants)),
            (None, None) if self.arrays_side is not None else op_versions(self.traces, node),
            inside=() if twin is None else tuple(self._inside(twin, node)),
            source=next((text for tensor in outputs if (text := self._source(tensor))), ""),
        )
        if self.arrays_side is not None or step.verdict != "origin" or not twins:
            return step
        name, of_a = next(iter(twins.items()))
        ends = (name, outputs[0].b)
        remarks = self._remarks(twins.values(), outputs)
        return replace(
            step,
            changes=(
                *remarks,
                *find_causes(self.traces, self.graphs, (of_a, self.segments[ends[1]]), ends),
            ),
        )

    def _source(self, tensor: Tensor) -> str:
        return self.traces[0].sources.get(tensor.a) or self.traces[1].sources.get(tensor.b, "")

    def _remarks(self, of_a: Iterable[Segment], outputs: Sequence[Tensor]) -> Iterator[str]:
        """Yield what is known of the tensors that the nodes of both sides make."""
        a, b = self.graphs
        of_b = [self.segments[tensor.b] for tensor in outputs]
        for trace, graph, segments in ((self.traces[0], a, of_a), (self.traces[1], b, of_b)):
            nodes = [graph.nodes[place] for segment in segments for place in segment.nodes]
            found = (trace.remarks.get(name) for node in nodes for name in node.output)
            yield from dict.fromkeys(filter(None, found))

    def _inside(self, a: NodeProto, b: NodeProto) -> Iterator[Tensor]:
        """Yield the tensors in the bodies of two nodes under b's names, where both traces recorded them."""
        if not bodies(a) or not bodies(b):
            return
        prefixes = [f"{node.name or first_output(node)}/" for node in (a, b)]
        for other, array in self.arrays[1].items():
            name = prefixes[0] + other.removeprefix(prefixes[1])
            if (
                other.startswith(prefixes[1])
                and name in self.arrays[0]
                and other not in self.graphs[1].producer
            ):
                diff = compared({other: self.arrays[0][name]}, {other: array}, *self.tolerances)
                yield Tensor(name, other, "name", diff)


def _is_more_than_rounding(trace: Trace) -> Iterator[bool]:
    """Tell whether each output that a plain run gives otherwise is off by much of its largest element."""
    differing = {} if trace.exposure is None else trace.exposure.differing
    for name, most in differing.items():
        summary = trace.summaries[name]
        largest = max(abs(summary.least), abs(summary.greatest)) if summary.least is not None else 0
        yield most is None or most > _ROUNDING * largest


def _join(segments: Sequence[Segment]) -> Segment:
    """Join the segments of a node's outputs to one."""
    nodes = sorted({place for segment in segments for place in segment.nodes})
    ends, weights = (
        dict.fromkeys(name for s in segments for name in getattr(s, which))
        for which in ("ends", "weights")
    )
    return Segment(tuple(nodes), tuple(ends), tuple(weights))
