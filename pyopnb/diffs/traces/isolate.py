"""The nodes of one run in isolation, on the tensors of another run.

All of them go into one model in which they are not connected: what a node reads becomes an input of the graph, and its results
become outputs under other names. One session runs them all, and no node sees the error of those before it. It runs twice: a
node that gives another result the second time has a state or draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.traces.half import as_fed, in_one_precision
from pyopnb.diffs.traces.segments import Segment, TraceGraph
from pyopnb.diffs.traces.steps import Tolerances
from pyopnb.models.external_data import is_external, with_data
from pyopnb.models.nodes import bodies, full_name, nodes_in, type_proto
from pyopnb.models.tensors import tensors
from pyopnb.onnx_reference.evaluator import Evaluator
from pyopnb.ops.messages import sanitize
from pyopnb.ops.op import Op, Version
from pyopnb.ops.progress import advance
from pyopnb.ops.registry import registry
from pyopnb.ops.types import type_of
from pyopnb.runtime.node_kernel import NodeKernel
from pyopnb.runtime.one_run import run_each
from pyopnb.traces.trace import Trace

__all__ = ["Isolated", "Run", "as_made", "run_isolated", "run_segment", "runner"]

# The results of one model of isolated nodes take at most so many bytes.
_BATCH = 2**28


@dataclass(frozen=True)
class Isolated:
    """The result of one segment in isolation.

    Attributes
    ----------
    diff : Diff or None
        The difference between the other run's tensor and the segment's result; None if it could not run.
    reason : str
        Why it could not.
    steady : bool or None
        Whether it gave the same result twice; None if it did not run twice.
    """

    diff: Diff | None = None
    reason: str = ""
    steady: bool | None = None


Run = Callable[[ModelProto, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""Runs a model on several feeds, in one session."""


def run_isolated(
    trace: Trace,
    graph: TraceGraph,
    segments: Mapping[str, Segment],
    given: Mapping[str, Any],
    tolerances: Tolerances,
) -> dict[str, Isolated]:
    """Run every segment of a trace on the arrays of another.

    Parameters
    ----------
    trace : Trace
    graph : TraceGraph
        Of its model.
    segments : mapping
        By the tensor that each makes.
    given : mapping
        The arrays, the other trace's or its own, under the names of this one.
    tolerances : tuple of (float or None)
        ``rtol``, ``atol`` and ``stol``.

    Returns
    -------
    dict
        An `Isolated` for each segment, in their order.
    """
    results: dict[str, Isolated] = {}
    current: dict[str, Segment] = {}
    old: dict[str, Segment] = {}
    for name, segment in segments.items():
        obstacle = _obstacle(segment, given)
        if obstacle:
            results[name] = Isolated(reason=obstacle)
        elif trace.versions and any(_is_retired(trace, op) for op in _ops(graph, segment)):
            # A session would run the versions that serve now.
            old[name] = segment
        else:
            current[name] = segment
    for group, run in ((current, runner(trace)), (old, _in_evaluator(trace.versions))):
        for batch in _batches(group, given):
            results.update(_Isolation(trace, graph, given, run).results(batch, tolerances))
    return {name: results[name] for name in segments}


def run_segment(
    trace: Trace, graph: TraceGraph, name: str, segment: Segment, given: Mapping[str, Any]
) -> Any:
    """Run the nodes that make one tensor on some arrays; None where they cannot."""
    if _obstacle(segment, given):
        return None
    isolation = _Isolation(trace, graph, given, runner(trace))
    try:
        return isolation.outputs(name, segment)
    except Exception:
        # That it cannot run there was said with the node's own isolation.
        return None


def _obstacle(segment: Segment, given: Mapping[str, Any]) -> str:
    """Say why a segment cannot run on some arrays; empty if it can."""
    for name in segment.ends:
        if name not in given:
            return f"the other run did not record its input {sanitize(name)}"
        if not isinstance(given[name], np.ndarray):
            return f"its input {sanitize(name)} is not a tensor"
    return ""


def _is_retired(trace: Trace, op: str) -> bool:
    """Tell whether another version serves now than served a trace."""
    if op not in trace.versions:
        return False
    return op not in registry or registry[op].current is not trace.versions[op]


def _batches(
    segments: Mapping[str, Segment], given: Mapping[str, Any]
) -> Iterator[dict[str, Segment]]:
    batch: dict[str, Segment] = {}
    total = 0
    for name, segment in segments.items():
        size = getattr(given[name], "nbytes", 0)
        if batch and total + size > _BATCH:
            yield batch
            batch, total = {}, 0
        batch[name] = segment
        total += size
    if batch:
        yield batch


def _ops(graph: TraceGraph, segment: Segment) -> set[str]:
    """Return the ops of a segment's nodes, and of those in their bodies."""
    nodes = [graph.nodes[position] for position in segment.nodes]
    inner: list[NodeProto] = []
    for top in nodes:
        for body in bodies(top):
            inner += nodes_in(body)
    return {full_name(node) for node in (*nodes, *inner)}


class _Isolation:
    """Runs a trace's segments, each on given arrays.

    Parameters
    ----------
    trace : Trace
        Whose nodes run.
    graph : TraceGraph
        Of its model.
    given : mapping
        The arrays that they run on, and are expected to give, by the names of this trace.
    run : Run
        As the trace was run.
    """

    def __init__(self, trace: Trace, graph: TraceGraph, given: Mapping[str, Any], run: Run) -> None:
        self.trace, self.graph, self.given, self.run = trace, graph, given, run
        self.stored = {tensor.name: tensor for tensor in trace.model.graph.initializer}

    def results(
        self, segments: Mapping[str, Segment], tolerances: Tolerances
    ) -> Iterator[tuple[str, Isolated]]:
        """Every segment's result. If a model of several cannot run, its halves are tried, down to the one at fault."""
        try:
            model, outputs, inputs = self._model(segments)
            feeds = {name: self._fed(name) for name in inputs}
            first, second = self.run(model, [feeds, feeds])
        except (
            Exception
        ) as error:  # whatever a runtime or an op raises on these inputs is the finding
            items = list(segments.items())
            # The halves find the node at fault in few sessions, however many nodes there are.
            if len(items) == 1:
                message = f"{type(error).__name__}: {error}".partition("\n")[0]
                yield items[0][0], Isolated(reason=sanitize(message))
                return
            middle = len(items) // 2
            yield from self.results(dict(items[:middle]), tolerances)
            yield from self.results(dict(items[middle:]), tolerances)
            return
        for name, output in outputs.items():
            expected = as_made(self.given[name])
            result = as_made(first[output])
            expected, result, own = in_one_precision(expected, result, tolerances)
            diff = compared({name: expected}, {name: result}, *own)
            # Random and stateful nodes give themselves away in the second run.
            again = compared(first[output], second[output])
            yield name, Isolated(diff, steady=again.verdict == "bit-identical")
            advance("comparisons", 1)

    def outputs(self, name: str, segment: Segment) -> Any:
        """Run one segment, and return what it makes."""
        model, outputs, inputs = self._model({name: segment})
        return self.run(model, [{name: self._fed(name) for name in inputs}])[0][outputs[name]]

    def _model(
        self, segments: Mapping[str, Segment]
    ) -> tuple[ModelProto, dict[str, str], list[str]]:
        """Build one model of the segments; its outputs by the tensors' names, and its inputs."""
        suffix = self._unused_suffix()
        # No result may have the name of an input, or the next segment would read it.
        outputs = {name: name + suffix for name in segments}
        graph = GraphProto(name="isolated")
        positions = set()
        for segment in segments.values():
            for position in segment.nodes:
                positions.add(position)
        for position in sorted(positions):
            node = graph.node.add()
            node.CopyFrom(self.graph.nodes[position])
            # What the segments read has its own name: no node sees the result of another one.
            node.output[:] = [name + suffix if name in self.given else name for name in node.output]
        inputs = list(dict.fromkeys(name for s in segments.values() for name in s.ends))
        for name in inputs:
            graph.input.add(name=name, type=type_proto(type_of(self._fed(name))))
        for name in outputs.values():
            graph.output.add(name=name)
        for name in dict.fromkeys(name for s in segments.values() for name in s.weights):
            graph.initializer.add().CopyFrom(self._weight(name))
        proto = self.trace.model
        model = helper.make_model(
            graph,
            opset_imports=list(proto.opset_import),
            functions=list(proto.functions),
            ir_version=proto.ir_version,
        )
        for tensor in filter(is_external, tensors(model)):
            # This raises: the runtime or onnx would look for its file in the working folder.
            with_data(tensor, None)
        return model, outputs, inputs

    def _fed(self, name: str) -> Any:
        """Return an input in the precision that this trace recorded it in."""
        # A run that recorded no tensors, as in a bisection, has them as they are.
        if name not in self.trace:
            return self.given[name]
        return as_fed(self.given[name], self.trace[name])

    def _unused_suffix(self) -> str:
        """Find a suffix with which no name in the graph or in its bodies ends."""
        names = {*self.graph.producer, *self.graph.inputs, *self.graph.weights}
        for node in self.graph.nodes:
            for body in bodies(node):
                names.update(_names(body))
        suffix = "'"
        while any(name.endswith(suffix) for name in names):
            suffix += "'"
        return suffix

    def _weight(self, name: str) -> TensorProto:
        stored: TensorProto = self.stored[name]
        if uses_external_data(stored):
            stored = numpy_helper.from_array(self.trace.initializers[name], name)
        return stored


def as_made(value: Any) -> Any:
    """Return what a node made, in the dtype in which it made it.

    Python's floats in a map are float32: the one operator that makes maps is ZipMap, from float32. As float64 they would be
    held to float64's tolerance.
    """
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [as_made(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = dict(value)
    for key, item in value.items():
        if isinstance(item, float):
            converted[key] = np.float32(item)
    return converted


def _names(body: GraphProto) -> Iterator[str]:
    yield from (info.name for info in body.input)
    yield from (tensor.name for tensor in body.initializer)
    for node in body.node:
        yield from node.output
        for inner in bodies(node):
            yield from _names(inner)


# ---- running as a trace was run --------------------------------------------------------------------------------------------


def runner(trace: Trace) -> Run:
    """Get what runs a model as a trace was run."""
    # Isolated nodes run at the level of optimisation of the trace, or they would differ for it.
    level = trace.runtime.rpartition(", ")[2].removesuffix(" optimisations")
    other_python = trace.other_python
    if other_python is not None:
        # This process's kernels would not say what those of the other runtime do.
        return lambda model, feeds: other_python.run_each(model, feeds, level)
    if not trace.runtime.startswith("onnxruntime"):
        return _in_evaluator(trace.versions)
    # Nor would those of the CPU say what another provider's do.
    return lambda model, feeds: run_each(model, feeds, level, trace.providers)


def _in_evaluator(versions: Mapping[str, Version]) -> Run:
    """Run in ONNX's reference evaluator, with the ops in the versions of a trace: Python code is the same in every runtime."""

    def run(model: ModelProto, feeds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        current = {op.name: op for op in registry}
        ops = current | {name: Op(name, (version,)) for name, version in versions.items()}
        evaluator = Evaluator(model, ops.values(), NodeKernel)
        return [evaluator.outputs(arrays) for arrays in feeds]

    return run
