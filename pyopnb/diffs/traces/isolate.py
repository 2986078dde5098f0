"""What the nodes of one run give alone, on the tensors of another run.

All are cut apart in one model: what a node reads becomes an input of the graph, and what it gives an output of another name.
So one session runs them all, and no node meets the error of those before it. It runs twice: who gives other values the second
time keeps a state or draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.traces.segments import Segment, Segments
from pyopnb.models.nodes import bodies, full_name, nodes_in, type_proto
from pyopnb.onnx_reference.evaluator_ops import evaluated_op
from pyopnb.ops.errors import sanitize
from pyopnb.ops.progress import advance
from pyopnb.ops.registry import Op, Version, registry
from pyopnb.ops.types import type_of
from pyopnb.runtime.session import run_each
from pyopnb.runtime.trace.trace import Trace

__all__ = ["Isolated", "Run", "run_isolated", "runner"]

_BATCH = 2**28  # bytes of arrays that one model of nodes cut apart may give


@dataclass(frozen=True)
class Isolated:
    """What became of one tensor whose segment ran alone.

    Attributes
    ----------
    diff : Diff or None
        The other run's tensor against what the segment gave; None where it could not run.
    why : str
        Why it could not.
    steady : bool or None
        Whether it gave the same twice; None where that is not known.
    """

    diff: Diff | None = None
    why: str = ""
    steady: bool | None = None


Run = Callable[[ModelProto, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""Runs a model on several feeds, in one session."""


class _Cut:
    """One trace's segments, to be run on the arrays of another trace.

    Parameters
    ----------
    trace : Trace
        Whose nodes run.
    graph : Segments
        Of its model.
    given : mapping
        The arrays they run on, and should give, by the names of this trace.
    run : Run
        As the trace was run.
    """

    def __init__(self, trace: Trace, graph: Segments, given: Mapping[str, Any], run: Run) -> None:
        self.trace, self.graph, self.given, self.run = trace, graph, given, run
        self.stored = {tensor.name: tensor for tensor in trace.model.graph.initializer}
        self.sparse = {tensor.values.name: tensor for tensor in trace.model.graph.sparse_initializer}

    def model(self, segments: Mapping[str, Segment]) -> tuple[ModelProto, dict[str, str], list[str]]:
        """The nodes cut apart; the outputs' names by the tensors', and the names that are to be fed."""
        taken = {*self.graph.maker, *self.graph.inputs, *self.graph.weights}
        taken |= {name for node in self.graph.nodes for inner in bodies(node) for name in _names(inner)}
        places = sorted({place for segment in segments.values() for place in segment.nodes})
        feeds = list(dict.fromkeys(name for segment in segments.values() for name in segment.ends))
        renamed: dict[str, str] = {}
        graph = GraphProto(name="alone")
        for place in places:
            node = graph.node.add()
            node.CopyFrom(self.graph.nodes[place])
            for slot, name in enumerate(node.output):
                if name in self.given:
                    fresh = f"{name}'"
                    while fresh in taken:
                        fresh += "'"
                    taken.add(fresh)
                    renamed[name] = node.output[slot] = fresh
        for name in feeds:
            graph.input.append(ValueInfoProto(name=name, type=_type(self.given[name])))
        graph.output.extend(ValueInfoProto(name=renamed[name]) for name in segments)
        for name in dict.fromkeys(name for segment in segments.values() for name in segment.weights):
            if name in self.sparse:
                graph.sparse_initializer.add().CopyFrom(self.sparse[name])
            else:
                graph.initializer.add().CopyFrom(self._weight(name))
        proto = self.trace.model
        made = helper.make_model(
            graph, opset_imports=list(proto.opset_import), functions=list(proto.functions), ir_version=proto.ir_version
        )
        return made, {name: renamed[name] for name in segments}, feeds

    def _weight(self, name: str) -> TensorProto:
        stored = self.stored[name]
        return numpy_helper.from_array(self.trace.initializers[name], name) if uses_external_data(stored) else stored

    def outcomes(
        self, segments: Mapping[str, Segment], rtol: float | None, atol: float | None
    ) -> Iterator[tuple[str, Isolated]]:
        """Every segment's outcome. Where a model of many cannot run, its halves are tried, down to the one that is at fault."""
        if not segments:
            return
        try:
            model, names, fed = self.model(segments)
            feeds = {name: self.given[name] for name in fed}
            once, again = self.run(model, [feeds, feeds])
        except Exception as error:  # whatever a runtime or an op raises on these inputs is what is to be told of the node
            if len(segments) == 1:
                yield next(iter(segments)), Isolated(why=sanitize(f"{type(error).__name__}: {error}".partition("\n")[0]))
                return
            halves = list(segments.items())
            for half in (halves[: len(halves) // 2], halves[len(halves) // 2 :]):
                yield from self.outcomes(dict(half), rtol, atol)
            return
        for name, fresh in names.items():
            diff = compared({name: self.given[name]}, {name: once[fresh]}, rtol, atol)
            yield name, Isolated(diff, steady=compared(once[fresh], again[fresh]).verdict == "bit-identical")
            advance("comparisons", 1)


def run_isolated(
    trace: Trace,
    graph: Segments,
    segments: Mapping[str, Segment],
    given: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
) -> dict[str, Isolated]:
    """Run every segment of a trace on arrays of another.

    Parameters
    ----------
    trace : Trace
    graph : Segments
    segments : mapping
        By the tensor that they make.
    given : mapping
        The other trace's arrays by the names of this one.
    rtol, atol : float, optional
    """
    found: dict[str, Isolated] = {}
    ready: dict[str, Segment] = {}
    for name, segment in segments.items():
        missing = [end for end in segment.ends if end not in given]
        if missing:
            found[name] = Isolated(why=f"the other run has nothing for its input {sanitize(missing[0])}")
        elif unfit := next((end for end in segment.ends if not isinstance(given[end], np.ndarray)), None):
            found[name] = Isolated(why=f"its input {sanitize(unfit)} is no tensor")
        else:
            ready[name] = segment
    old = _old(trace)
    early = {name: segment for name, segment in ready.items() if old and _ops(graph, segment) & old.keys()}
    late = {name: segment for name, segment in ready.items() if name not in early}
    for group, run in ((late, runner(trace)), (early, _evaluated(trace.versions))):
        for batch in _batches(group, given):
            found.update(_Cut(trace, graph, given, run).outcomes(batch, rtol, atol))
    return {name: found[name] for name in segments}


def _batches(segments: Mapping[str, Segment], given: Mapping[str, Any]) -> Iterator[dict[str, Segment]]:
    batch: dict[str, Segment] = {}
    size = 0
    for name, segment in segments.items():
        more = getattr(given[name], "nbytes", 0)
        if batch and size + more > _BATCH:
            yield batch
            batch, size = {}, 0
        batch[name], size = segment, size + more
    if batch:
        yield batch


# ---- how a trace was run ---------------------------------------------------------------------------------------------------


def _by_reference(trace: Trace) -> bool:
    return not trace.runtime.startswith("onnxruntime")


def _old(trace: Trace) -> dict[str, Version]:
    """The versions that served a trace and serve no more: a session would run the current ones."""
    return {name: version for name, version in trace.versions.items() if _current(name) is not version}


def _current(name: str) -> Version | None:
    return registry[name].current if name in registry else None


def _ops(graph: Segments, segment: Segment) -> set[str]:
    nodes = [graph.nodes[place] for place in segment.nodes]
    return {full_name(one) for node in nodes for one in (node, *_inner(node))}


def _inner(node: NodeProto) -> Iterator[NodeProto]:
    for body in bodies(node):
        yield from nodes_in(body)


def _names(body: GraphProto) -> Iterator[str]:
    yield from (info.name for info in body.input)
    yield from (tensor.name for tensor in body.initializer)
    for node in body.node:
        yield from node.output
        for inner in bodies(node):
            yield from _names(inner)


def _type(array: Any) -> Any:
    return type_proto(type_of(array))


def runner(trace: Trace) -> Run:
    """What runs a model as a trace was run."""
    return _evaluated(trace.versions) if _by_reference(trace) else _in_session(trace)


def _in_session(trace: Trace) -> Run:
    level = trace.runtime.rpartition(", ")[2].removesuffix(" optimisations")
    return lambda model, feeds: run_each(model, feeds, level)


def _evaluated(versions: Mapping[str, Version]) -> Run:
    """In ONNX's reference evaluator, with the ops in the versions of a trace: Python code gives the same in every runtime."""

    def run(model: ModelProto, feeds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        from onnx.reference import ReferenceEvaluator  # half a second, for those who need it

        current = {op.name: op for op in registry}
        ops = current | {name: Op(name, (version,)) for name, version in versions.items()}
        evaluator = ReferenceEvaluator(model, new_ops=[evaluated_op(op) for op in ops.values()])
        names = [info.name for info in model.graph.output]
        with np.errstate(all="ignore"):
            return [dict(zip(names, evaluator.run(None, dict(one)), strict=True)) for one in feeds]

    return run
