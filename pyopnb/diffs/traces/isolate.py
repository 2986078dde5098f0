"""The nodes of one run in isolation, on the tensors of another run.

All of them go into one model, without connections between them: the tensors that a node reads
become inputs of the graph, and its results become outputs under other names. One session runs them
all, and no node sees the error of earlier nodes. It runs twice: a node that gives another result
the second time has a state or draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, helper

from pyopnb.common import plural, progress, sanitize
from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.diffs.traces.half import as_fed, in_one_precision
from pyopnb.diffs.traces.segments import Segment, TraceGraph
from pyopnb.engine import (
    ModelSource,
    Op,
    Session,
    Version,
    dtype,
    external_files,
    protos,
    registry,
    runtime_options,
    to_model,
    type_of,
)
from pyopnb.onnx_reference import Evaluator
from pyopnb.traces import Trace

__all__ = ["Isolated", "Isolation", "Run", "as_made", "runner"]

# Marks the results of nodes that run alone, unlike their inputs; no exporter writes it.
_SUFFIX = "\N{PRIME}alone"


@dataclass(frozen=True)
class Isolated:
    """The result of one segment in isolation.

    Attributes
    ----------
    diff : Diff or None
        The difference between the other run's tensor and the segment's result; None
        if it could not run.
    reason : str
        Why it could not run.
    steady : bool or None
        Whether it gave the same result twice; None if it did not run twice.
    """

    diff: Diff | None = None
    reason: str = ""
    steady: bool | None = None


Run = Callable[[ModelProto, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""A function that runs a model on several feeds in one session."""

_Outcome = tuple[Any, Any] | str
"""The results of two runs, or why there are none."""


class Isolation:
    """The segments of a trace, each run on given arrays.

    Parameters
    ----------
    trace : Trace
        The trace whose nodes run.
    graph : TraceGraph
        The graph of its model.
    given : mapping
        The arrays that they run on, and are expected to give, by the names of this trace.
    """

    def __init__(self, trace: Trace, graph: TraceGraph, given: Mapping[str, Any]) -> None:
        self.trace = trace
        self.graph = graph
        self.given = given
        self.stored = {tensor.name: tensor for tensor in trace.model.graph.initializer}

    def results(
        self,
        segments: Mapping[str, Segment],
        tolerances: Tolerances,
        precisions: Mapping[str, str] | None = None,
    ) -> dict[str, Isolated]:
        """Compare each segment's isolated result with the given array, by tensor name.

        Parameters
        ----------
        precisions : mapping, optional
            The coarser dtypes whose tolerance applies to tensors.
        """
        results = {}
        for name, outcome in self.run(segments):
            if isinstance(outcome, str):
                results[name] = Isolated(reason=outcome)
                continue
            first, second = outcome
            own = tolerances.widened((precisions or {}).get(name, ""))
            values = in_one_precision(as_made(self.given[name]), as_made(first))
            diff = compared({name: values[0]}, {name: values[1]}, own)
            # Random and stateful nodes give themselves away in the second run.
            again = compared(first, second)
            results[name] = Isolated(diff, steady=again.verdict == "bit-identical")
            progress.advance("comparisons", 1)
        return results

    def run(self, segments: Mapping[str, Segment]) -> Iterator[tuple[str, _Outcome]]:
        """Run each segment twice; yield both results, or why it cannot run, by tensor name."""
        groups: tuple[dict[str, Segment], dict[str, Segment]] = ({}, {})
        for name, segment in segments.items():
            obstacle = self._obstacle(segment)
            if obstacle:
                yield name, obstacle
            else:
                # A session would run the current versions.
                groups[self._is_retired(segment)][name] = segment
        is_local = _is_local(self.trace)
        yield from self._outcomes(groups[0], runner(self.trace), is_local)
        yield from self._outcomes(groups[1], _in_evaluator(self.trace.versions), False)

    def _obstacle(self, segment: Segment) -> str:
        """Say why a segment cannot run; empty if it can."""
        for name in segment.ends:
            if name not in self.given:
                return f"the other run did not record its input {sanitize(name)}"
            if not isinstance(self.given[name], np.ndarray):
                return f"its input {sanitize(name)} is not a tensor"
            # The nodes were not made for another rank. ONNX Runtime 1.25 ends the process where a
            # quantized Conv gets a matrix; newer versions refuse the model.
            rank = np.ndim(self.given[name])
            if name in self.trace and np.ndim(self.trace[name]) != rank:
                return (
                    f"its input {sanitize(name)} has {plural(rank, 'dimension')} in the other run"
                )
            # On an infinity that the other run does not have, the node only passes on an overflow.
            rounded = self._fed(name)
            if (
                rounded is not self.given[name]
                and np.isinf(rounded).sum() > np.isinf(self.given[name]).sum()
            ):
                return f"its input {sanitize(name)} overflows {dtype(rounded.dtype).name}"
        return ""

    def _is_retired(self, segment: Segment) -> bool:
        """Tell whether an op's version has changed since the trace."""
        graph = GraphProto(node=[self.graph.nodes[position] for position in segment.nodes])
        for op in {
            protos.full_name(node) for node in protos.nodes_in(graph)
        } & self.trace.versions.keys():
            if op not in registry or registry[op].current is not self.trace.versions[op]:
                return True
        return False

    def _outcomes(
        self, segments: Mapping[str, Segment], run: Run, is_local: bool
    ) -> Iterator[tuple[str, _Outcome]]:
        """Run segments together, twice, and yield both results of each.

        If that fails, bisection finds the one at fault.
        """
        if not segments:
            return
        try:
            model, feeds, outputs = self._model(segments, is_local)
            first, second = run(model, [feeds, feeds])
        except Exception as error:
            # An exception of a runtime or an op on these inputs is the finding.
            items = list(segments.items())
            if len(items) == 1:
                yield items[0][0], sanitize(f"{type(error).__name__}: {error}".partition("\n")[0])
                return
            middle = len(items) // 2
            yield from self._outcomes(dict(items[:middle]), run, is_local)
            yield from self._outcomes(dict(items[middle:]), run, is_local)
            return
        for name, output in outputs.items():
            yield name, (first[output], second[output])

    def _model(
        self, segments: Mapping[str, Segment], is_local: bool
    ) -> tuple[ModelProto, dict[str, Any], dict[str, str]]:
        """Build one model of the segments, and return it with its feeds and output names."""
        # No result may have the name of an input, or the next segment would read it.
        outputs = {name: name + _SUFFIX for name in segments}
        graph = GraphProto(name="isolated")
        for position in sorted({p for segment in segments.values() for p in segment.nodes}):
            node = graph.node.add()
            node.CopyFrom(self.graph.nodes[position])
            # Inputs of the segments have their own names: no node sees the result of another one.
            node.output[:] = [
                name + _SUFFIX if name in self.given else name for name in node.output
            ]
        feeds = {name: self._fed(name) for s in segments.values() for name in s.ends}
        for name, array in feeds.items():
            graph.input.add(name=name, type=protos.type_proto(type_of(array)))
        for name in outputs.values():
            graph.output.add(name=name)
        weights = dict.fromkeys(name for s in segments.values() for name in s.weights)
        for sparse in self.trace.model.graph.sparse_initializer:
            if sparse.values.name in weights:
                graph.sparse_initializer.add().CopyFrom(sparse)
                del weights[sparse.values.name]
        for name in weights:
            stored = self.stored[name]
            if external_files.is_external(stored):
                stored = self.trace.initializers.stored(name)
            graph.initializer.add().CopyFrom(stored)
        proto = self.trace.model
        model = helper.make_model(
            graph,
            opset_imports=list(proto.opset_import),
            functions=list(proto.functions),
            ir_version=proto.ir_version,
        )
        external = list(filter(external_files.is_external, protos.tensors(model)))
        if not external:
            return model, feeds, outputs
        folder = self.trace.initializers.folder
        if is_local:
            # Weights stay in their files, from which the session maps them.
            return to_model(ModelSource(model, folder)), feeds, outputs
        for tensor in external:
            tensor.CopyFrom(external_files.with_data(tensor, folder))
        return model, feeds, outputs

    def _fed(self, name: str) -> Any:
        """Return an input in the precision that this trace recorded it in."""
        if name not in self.trace:
            return self.given[name]
        return as_fed(self.given[name], self.trace[name])


def as_made(value: Any) -> Any:
    """Return a node's result in the dtype that it computed.

    Python floats in a map are float32: the one operator that makes maps is ZipMap, from
    float32. As float64 they would be held to float64's tolerance.
    """
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, list):
        return [as_made(item) for item in value]
    if isinstance(value, dict):
        return {key: as_made(item) for key, item in value.items()}
    return value


# ---- running as a trace was run


def _is_local(trace: Trace) -> bool:
    """Tell whether the ONNX Runtime of this process runs what a trace recorded."""
    return trace.other_python is None and trace.runtime.startswith("onnxruntime")


def runner(trace: Trace) -> Run:
    """Return a function that runs a model the way the trace was run."""
    # Isolated nodes run at the level of optimization of the trace, or they would differ for that
    # reason.
    level = trace.runtime.rpartition(", ")[2].removesuffix(" optimizations")
    other_python = trace.other_python
    if other_python is not None:
        # The kernels of this process would not say what the other runtime does.
        return lambda model, feeds: other_python.run_each(model, feeds, level)
    if not _is_local(trace):
        return _in_evaluator(trace.versions)
    # Nor would CPU kernels say what the kernels of another provider do.
    return lambda model, feeds: _run_each(model, feeds, level, trace.providers)


def _run_each(
    model: ModelProto,
    feeds: Sequence[Mapping[str, Any]],
    level: str,
    providers: Sequence[Any],
) -> list[dict[str, Any]]:
    """Run a model on several feeds in one session, and return the outputs by name.

    Parameters
    ----------
    level : str
        The level of the ONNX Runtime optimizations: ``"all"``, ``"no"``, ``"basic"`` …
    providers : sequence
        If empty, the CPU.
    """
    session = Session(model, runtime_options.new_options(level), providers or [runtime_options.CPU])
    names = [info.name for info in model.graph.output]
    return [dict(zip(names, session.run(names, feed), strict=True)) for feed in feeds]


def _in_evaluator(versions: Mapping[str, Version]) -> Run:
    """Run in the ONNX reference evaluator, with the ops in the versions of a trace.

    Python code is the same in every runtime.
    """

    def run(model: ModelProto, feeds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        current = {}
        for op in registry:
            current[op.name] = op
        ops = current | {name: Op(name, (version,)) for name, version in versions.items()}
        evaluator = Evaluator(model, ops.values())
        return [evaluator.outputs(arrays) for arrays in feeds]

    return run
