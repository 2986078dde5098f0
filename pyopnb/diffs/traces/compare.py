"""Two runs held against each other, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.traces.align import Alignment, Pair, align
from pyopnb.diffs.traces.causes import find_causes, op_versions
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.isolate import run_isolated
from pyopnb.diffs.traces.segments import Segment, Segments, called
from pyopnb.diffs.traces.steps import Step, Tensor
from pyopnb.models.nodes import bodies, first_output, full_name
from pyopnb.ops.errors import FeedError, sanitize, suggest
from pyopnb.ops.progress import advance, tracking
from pyopnb.runtime.trace.trace import Trace

__all__ = ["TraceComparison", "diff_traces", "diff_with_arrays"]


def diff_traces(a: Trace, b: Trace, rtol: float | None = None, atol: float | None = None) -> TraceDiff:
    """Where two runs part; see `pyopnb.diff`.

    Raises
    ------
    FeedError
        The runs have no tensor in common, or a tolerance is negative or not finite.
    """
    graphs = Segments(a.model), Segments(b.model)
    held = dict(a.items()), dict(b.items())
    found = align(*graphs, (a, b))
    pairs = [pair for pair in found.pairs if pair.a in held[0] and pair.b in held[1]]
    if not any(pair.b in graphs[1].maker for pair in pairs):
        raise FeedError(
            "diff",
            expected="two runs with tensors in common",
            got=f"{_tensors(a)}, and {_tensors(b)}, of which none is the other",
            next="traces with their tensors: session.trace(…) without level= or only=",
        )
    return TraceComparison((a, b), graphs, held, pairs, rtol, atol).diff(found)


def _tensors(trace: Trace) -> str:
    names = [sanitize(name, 40) for name in trace.values]
    return f"{', '.join(names[:4])}{' …' * (len(names) > 4)}" if names else "a trace that kept no tensors"


def diff_with_arrays(
    trace: Trace, arrays: Mapping[str, Any], rtol: float | None = None, atol: float | None = None, *, first: bool
) -> TraceDiff:
    """Where a run parts from arrays of another, given by the names of the run; see `pyopnb.diff`.

    Parameters
    ----------
    trace : Trace
    arrays : mapping
    rtol, atol : float, optional
    first : bool
        Whether the trace is a.

    Raises
    ------
    FeedError
        There are no arrays, or one has a name that the run has not.
    """
    held = dict(trace.items())
    unknown = [name for name in arrays if name not in held]
    if unknown or not arrays:
        raise FeedError(
            "diff, arrays",
            expected="arrays by names of tensors in the trace",
            got=sanitize(repr(unknown[0]), 80) if unknown else "none",
            next=f"write {sanitize(suggest(str(unknown[0]), held), 200)}" if unknown else None,
        )
    graph = Segments(trace.model)
    pairs = [Pair(name, name, "given") for name in held if name in arrays]
    sides = (held, dict(arrays)) if first else (dict(arrays), held)
    return TraceComparison((trace, trace), (graph, graph), sides, pairs, rtol, atol, arrays=2 if first else 1).diff(
        Alignment((), (), ())
    )


@dataclass
class TraceComparison:
    """Two runs and their pairs of tensors.

    Attributes
    ----------
    traces : tuple of Trace
    graphs : tuple of Segments
    held : tuple of mapping
        The arrays of both.
    pairs : sequence of Pair
    rtol, atol : float, optional
    arrays : int
        1 or 2 where that side is arrays: the trace then stands on both.
    only : str, optional
        The one tensor of b of which the node is looked at; all if not given.
    """

    traces: tuple[Trace, Trace]
    graphs: tuple[Segments, Segments]
    held: tuple[Mapping[str, Any], Mapping[str, Any]]
    pairs: Sequence[Pair]
    rtol: float | None
    atol: float | None
    arrays: int = 0
    only: str | None = None

    def diff(self, found: Alignment) -> TraceDiff:
        """All of it."""
        tensors = self.tensors()
        a, b = self.graphs
        feeds = tuple(tensor for tensor in tensors.values() if tensor.b not in b.maker)
        made = tuple(tensor for tensor in tensors.values() if tensor.b in b.maker)
        firsts, seconds = {pair.a for pair in found.pairs}, {pair.b for pair in found.pairs}
        lone_a = tuple(name for name in a.outputs if name in found.only_a and name not in firsts)
        lone_b = tuple(name for name in b.outputs if name in found.only_b and name not in seconds)
        paired = {pair.b for pair in self.pairs}  # of the others, one run has not kept its own
        halves = [pair for pair in found.pairs if pair.b not in paired]
        lone = {pair.b for pair in halves}, {pair.a for pair in halves}
        said = ["arrays" if self.arrays == side else self.traces[side - 1].runtime for side in (1, 2)]
        return TraceDiff(
            said[0],
            said[1],
            feeds,
            made,
            tuple(self.steps(tensors)),
            tuple(name for name in b.outputs if name in tensors),
            tuple(name for name in self.held[0] if (name in found.only_a or name in lone[1]) and name not in lone_a),
            tuple(name for name in self.held[1] if (name in found.only_b or name in lone[0]) and name not in lone_b),
            lone_a,
            lone_b,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Every pair with its accumulated and its isolated error, by the name in b."""
        b = self.graphs[1]
        # The nodes of a trace run on the other side's tensors; a's own where b is arrays.
        given = {pair.b: self.held[1][pair.b] if self.arrays == 2 else self.held[0][pair.a] for pair in self.pairs}
        self.segments = {pair.b: b.between(pair.b, given) for pair in self.pairs if pair.b in b.maker}
        if self.only is not None:
            self.segments = {self.only: self.segments[self.only]}
        tensors = {}
        with tracking("comparisons", len(self.segments) + len(self.pairs)):
            outcomes = run_isolated(self.traces[1], b, self.segments, {**self.traces[1].feeds, **given}, self.rtol, self.atol)
            for pair in self.pairs:
                diff = compared({pair.b: self.held[0][pair.a]}, {pair.b: self.held[1][pair.b]}, self.rtol, self.atol)
                held = outcomes.get(pair.b)
                rest = () if held is None else (held.diff, held.why, held.steady)
                tensors[pair.b] = Tensor(pair.a, pair.b, pair.by, diff, *rest)
                advance("comparisons", 1)
        self.partners = {pair.a for pair in self.pairs}
        return tensors

    def steps(self, tensors: Mapping[str, Tensor]) -> list[Step]:
        """Every node of b of which an output has a partner."""
        b = self.graphs[1]
        made: dict[int, list[Tensor]] = {}
        for name in self.segments:
            made.setdefault(b.maker[name], []).append(tensors[name])
        return [self._step(place, tuple(outputs), tensors) for place, outputs in sorted(made.items())]

    def _step(self, place: int, outputs: tuple[Tensor, ...], tensors: Mapping[str, Tensor]) -> Step:
        a, b = self.graphs
        node = b.nodes[place]
        segment = _joined([self.segments[tensor.b] for tensor in outputs])
        # In a, the stretch between the partners of what b's stretch reads.
        twins = [(tensor.a, a.between(tensor.a, self.partners)) for tensor in outputs if tensor.a in a.maker]
        first = a.nodes[a.maker[twins[0][0]]] if twins else None
        step = Step(
            called(node),
            full_name(node),
            "" if first is None else called(first),
            outputs,
            tuple(tensors[name] for name in segment.ends if name in tensors),
            tuple(called(b.nodes[p]) for p in segment.nodes if p != place and p not in b.constant),
            _before(a, twins),
            (None, None) if self.arrays else op_versions(self.traces, node),
            inside=() if first is None else tuple(self._inside(first, node)),
        )
        if self.arrays or step.verdict != "origin" or not twins:
            return step
        said = find_causes(self.traces, self.graphs, (twins[0][1], self.segments[outputs[0].b]), (twins[0][0], outputs[0].b))
        return replace(step, changes=tuple(said))

    def _inside(self, a: NodeProto, b: NodeProto) -> Iterator[Tensor]:
        """What is in the bodies of two nodes, by its names in there, where both sides looked into them."""
        if not bodies(a) or not bodies(b):
            return
        ways = [f"{node.name or first_output(node)}/" for node in (a, b)]
        for other, array in self.held[1].items():
            name = ways[0] + other.removeprefix(ways[1])
            if other.startswith(ways[1]) and name in self.held[0] and other not in self.graphs[1].maker:
                diff = compared({other: self.held[0][name]}, {other: array}, self.rtol, self.atol)
                yield Tensor(name, other, "name", diff)


def _joined(segments: Sequence[Segment]) -> Segment:
    nodes = sorted({place for segment in segments for place in segment.nodes})
    ends, weights = (dict.fromkeys(name for s in segments for name in getattr(s, which)) for which in ("ends", "weights"))
    return Segment(tuple(nodes), tuple(ends), tuple(weights))


def _before(graph: Segments, twins: Sequence[tuple[str, Segment]]) -> tuple[str, ...]:
    own = {graph.maker[name] for name, _ in twins}
    places = sorted({place for _, segment in twins for place in segment.nodes} - own - graph.constant)
    return tuple(called(graph.nodes[place]) for place in places)
