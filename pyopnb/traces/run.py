"""Trace a run in a second session of the user's model, with exposed tensors and a profile."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnxruntime
from onnx import ModelProto, TensorProto

from pyopnb.common import progress, sanitize
from pyopnb.engine import (
    ModelSource,
    SessionState,
    Version,
    external_files,
    model_files,
    node_plans,
    ortvalues,
)
from pyopnb.errors import InputError, ModelError, UnknownName
from pyopnb.traces.constants import constants_behind
from pyopnb.traces.exposure import exposure_of
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.ort_profile import profiled_runs
from pyopnb.traces.recorded_run import Trace, attach_trace, how_failed
from pyopnb.traces.runs.optimized_run import runtime_text
from pyopnb.traces.select import (
    NamedTensor,
    expose,
    match_names,
    named_tensors,
    tappable_tensors,
)
from pyopnb.traces.shadow_session import model_beside, session_beside
from pyopnb.traces.summary import Summary
from pyopnb.traces.taps import DOMAIN, Sink, insert_taps, make_taps
from pyopnb.traces.timed_nodes import TimedNodes, keep_ops
from pyopnb.traces.times import Times

__all__ = [
    "LEVELS",
    "TraceOptions",
    "run_traced",
    "select_tensors",
]

LEVELS = ("all", "summaries")

# Weights of fewer bytes are kept with a trace: small models are often exported to one name again.
_MAX_KEPT = 2**24
_DISABLED = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@dataclass(frozen=True)
class TraceOptions:
    """The parameters of `pyopnb.Session.trace`."""

    only: str | Sequence[str] | None = None
    level: str = "all"
    bodies: bool = False
    check: bool = True
    times: bool = True
    optimized: bool = True

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            expected = " or ".join(map(repr, LEVELS))
            raise InputError(
                "trace, level",
                expected=expected,
                got=sanitize(repr(self.level)),
                next='level="summaries"',
            )


def run_traced(
    state: SessionState, feeds: Mapping[str, Any], wanted: TraceOptions, *, closes: bool = False
) -> Trace:
    """Run a session's model with its tensors exposed, with the versions and attrs of its state.

    Parameters
    ----------
    closes : bool
        Whether the session is not needed any more, so that its weights are never in memory twice.
    """
    __tracebackhide__ = True
    feeds = state.feeds.arrays(feeds)
    try:
        with progress.tracking(progress.LOADED, None):
            return _trace_whole(state, feeds, wanted, closes)
    except (InputError, UnknownName):
        raise  # nothing ran
    except Exception as error:
        # A session of the user's model has named the node already; the exposed one is another.
        if not hasattr(error, "__notes__"):
            state.name_failed_node(error, feeds)
        if closes:
            state.close()
        with suppress(Exception):  # the error of the run matters more
            _attach_partial(state, feeds, wanted, error)
        raise


def _trace_whole(
    state: SessionState, feeds: Mapping[str, Any], wanted: TraceOptions, closes: bool
) -> Trace:
    __tracebackhide__ = True
    # The model that ran is shown without its weights, which can be gigabytes.
    source, model = model_beside(state, "trace")
    outputs = list(state.feeds.outputs)
    instances, unchecked = _instances(state, copies=wanted.check and wanted.optimized)
    checks = wanted.check and wanted.optimized and not unchecked
    # Exposing a tensor keeps ONNX Runtime from fusing it away, which can change
    # numbers: a plain run tells.
    unexposed = None
    if checks:
        unexposed = dict(zip(outputs, state.run(outputs, feeds), strict=True))
    if closes:
        state.close()
    traced = _TracedRun(
        wanted, select_tensors(source.proto, wanted), instances, frozenset(state.ops)
    )
    initializers = _initializers(state, source)
    arrays, times = traced.run(state, source, feeds)
    exposure = None
    if unexposed is not None:
        exposure = exposure_of(unexposed, {name: arrays[name] for name in outputs})
    return traced.trace(
        model,
        {name: _copy_feed(value) for name, value in feeds.items()},
        arrays,
        initializers=initializers,
        times=times,
        runtime=runtime_text(state, optimized=wanted.optimized),
        providers=_special_providers(state),
        exposure=exposure,
        unchecked=unchecked,
    )


def _attach_partial(
    state: SessionState,
    feeds: Mapping[str, Any],
    wanted: TraceOptions,
    error: Exception,
) -> None:
    """Run once more with a tap after each node, and attach the tensors so far to the error.

    Ops run on copies of their instances; where there are none, nothing runs again.
    """
    source, model = model_beside(state, "trace")
    instances, uncopied = _instances(state, copies=True)
    if uncopied:
        return
    traced = _TracedRun(
        replace(wanted, times=False),
        select_tensors(source.proto, wanted),
        instances,
        frozenset(state.ops),
        fails=True,
    )
    # It fails as the run before it did, and the caller has that error.
    with suppress(Exception):
        traced.run(state, source, feeds)
    if not traced.sink.summaries:
        return
    trace = traced.trace(
        model,
        {name: _copy_feed(value) for name, value in feeds.items()},
        {},
        initializers=_initializers(state, source),
        runtime=runtime_text(state, optimized=wanted.optimized),
        providers=_special_providers(state),
        failed=how_failed(error),
    )
    attach_trace(error, trace)


def select_tensors(model: ModelProto, wanted: TraceOptions) -> list[NamedTensor]:
    """Select the tensors that the trace shows."""
    tensors = named_tensors(model, bodies=wanted.bodies)
    if wanted.only is None:
        return tensors
    names = match_names([tensor.name for tensor in tensors], wanted.only)
    return [tensor for tensor in tensors if tensor.name in names]


# ---- the run -------------------------------------------------------------------------------------


@dataclass
class _TracedRun:
    """One traced run: the changes to the plan of the exposed session, and the results."""

    options: TraceOptions
    tensors: list[NamedTensor]
    instances: Mapping[int, _Instance]
    ops: Collection[str]
    fails: bool = False
    sink: Sink = field(init=False)
    tapped: list[NamedTensor] = field(default_factory=list)
    taps: list[node_plans.PlannedNode] = field(default_factory=list)
    versions: dict[str, Version] = field(default_factory=dict)
    left_out: str = ""
    timed: TimedNodes = field(default_factory=TimedNodes)

    def __post_init__(self) -> None:
        self.sink = Sink(keeps=self.options.level == "all")

    def run(
        self,
        state: SessionState,
        source: ModelSource,
        feeds: Mapping[str, Any],
    ) -> tuple[dict[str, Any], Times | None]:
        """Run the exposed session, and read the times of its nodes."""
        __tracebackhide__ = True
        # Taps look at tensors of bodies, which cannot be outputs, and at tensors
        # that are not kept.
        sums = self.options.level == "summaries"
        looked_at = [t for t in self.tensors if t.inside is not None or sums or self.fails]
        self.tapped = tappable_tensors(source.proto, looked_at)
        seen = set(map(id, self.tapped))
        exposed_names = []
        for tensor in self.tensors:
            if tensor.inside is None and id(tensor) not in seen:
                exposed_names.append(tensor.name)
        expose(source.proto, exposed_names)
        try:
            return self._run_exposed(state, source, feeds)
        except ModelError:
            # An exposed tensor keeps ONNX Runtime from removing its node, which may have no kernel.
            # A tap does not.
            # Almost no trace needs it.
            from pyopnb.models import lacking

            unserved = lacking.unserved_outputs(source.proto).intersection(exposed_names)
            if not unserved or self.taps:
                raise
        # Tensors that ONNX Runtime computes from constants when it loads a model are computed here:
        # to expose it would keep the runtime from fusing weights that are stored in few bits.
        constants = constants_behind(source, unserved)
        kept = []
        for info in source.proto.graph.output:
            # The outputs of the user's model stay, since no run is without outputs.
            is_kept = info.name not in constants or info.name in state.feeds.outputs
            if info.name not in unserved and is_kept:
                kept.append(info)
        del source.proto.graph.output[:]
        source.proto.graph.output.extend(kept)
        hidden = [t for t in self.tensors if t.name in unserved and t.name not in constants]
        self.tapped = tappable_tensors(source.proto, hidden)
        arrays, times = self._run_exposed(state, source, feeds)
        return {**arrays, **constants}, times

    def _run_exposed(
        self,
        state: SessionState,
        source: ModelSource,
        feeds: Mapping[str, Any],
    ) -> tuple[dict[str, Any], Times | None]:
        __tracebackhide__ = True
        changes: dict[str, Any] = {
            # An arena is freed with the last array in it: a small tensor would
            # keep the memory of all.
            "enable_cpu_mem_arena": False,
            "enable_mem_pattern": False,
        }
        entries = {}
        if not self.options.optimized:
            changes["graph_optimization_level"] = _DISABLED
        if self.tapped:
            # Then a tap runs right after its node, see insert_taps.
            changes["execution_order"] = onnxruntime.ExecutionOrder.PRIORITY_BASED
            # Else the ONNX Runtime spinning threads and the summaries slow each other down.
            entries["session.intra_op.allow_spinning"] = "0"
        times = bool(self.options.times)
        with session_beside(
            state, source, self.prepare, profiles=times, changes=changes, entries=entries
        ) as (exposed, saved):
            names = exposed.state.feeds.output_names
            self.left_out = exposed.state.left_out
            try:
                # The session is not updated: a rebuilt one would expose and measure nothing.
                values = exposed.state.run(names, feeds)
            finally:
                profile = exposed.end_profiling() if times else ""
            arrays = dict(zip(names, values, strict=True))
            if not profile:
                return arrays, None
            executed = saved or self.timed.named
            with open(profile, encoding="utf-8") as file:
                runs = [run.times() for run in profiled_runs(file, executed, f"{DOMAIN}/")]
            return arrays, self.timed.times(runs, [self.timed.take()], executed)[0]

    def prepare(self, plan: node_plans.Plan, proto: ModelProto) -> None:
        """Give the plan's nodes their instances and clocks, and insert the taps.

        This is called before each attempt to build the session.
        """
        if self.taps:
            return
        keep_ops(plan, self.ops)
        for number, node in enumerate(plan.nodes):
            self.versions[node.op.name] = node.op.at(plan.epoch)
            instance = self.instances.get(number)
            # Each call of a linked node has an instance of its own.
            if instance is not None and instance.op == node.op.name and not node.linked:
                node.instances[instance.version] = instance.instance
        if self.options.times:
            self.timed.attach(plan, proto)
        self.taps = make_taps(self.tapped, self.sink)
        plan.nodes += self.taps
        insert_taps(self.tapped, self.taps)

    # ---- the trace -------------------------------------------------------------------------------

    def trace(
        self, model: ModelProto, feeds: dict[str, Any], arrays: Mapping[str, Any], **known: Any
    ) -> Trace:
        """Make the trace of the run."""
        sums = self.options.level == "summaries"
        outputs = [info.name for info in model.graph.output]
        values: dict[str, Any] = {}
        summaries: dict[str, Summary] = {name: Summary.of(value) for name, value in feeds.items()}
        tensors = {**self.sink.values, **arrays}
        # In the order of the nodes, in which the reader looks for the first that is wrong; the
        # outputs are in every trace.
        for name in dict.fromkeys([*self._in_order(), *outputs]):
            if name in self.sink.summaries:
                summaries[name] = self.sink.summaries[name]
            elif name in tensors:
                summaries[name] = Summary.of(tensors[name])
            if name in tensors and (name in outputs or not sums):
                values[name] = tensors[name]
        return Trace(
            model,
            feeds=feeds,
            values=values,
            summaries=summaries,
            versions=self.versions,
            left_out=self.left_out,
            **known,
        )

    def _in_order(self) -> Iterator[str]:
        """Yield the names of the trace's tensors, in bodies in the order of the run."""
        inner = dict(self.sink.inner)
        for tensor in self.tensors:
            if tensor.inside is None:
                yield tensor.name
            else:
                yield from inner.pop(tensor.inside, ())


def _initializers(state: SessionState, source: ModelSource) -> Initializers:
    """Return the initializers of a session's model, which may be gone when they are read."""
    data, path, folder, taken_out = (
        state.runtime._model_bytes,
        state.runtime._model_path,
        state.folder,
        state.taken_out,
    )
    paths = external_files.data_paths(source.proto, folder)
    if data is None:
        tensors = source.proto.graph.initializer
        if sum(tensor.ByteSize() for tensor in tensors) <= _MAX_KEPT:
            copies = list(map(copy.copy, tensors))
            return Initializers(lambda: (copies, folder), paths)
        paths.add(Path(path))

    def load() -> tuple[Iterable[TensorProto], str | None]:
        # The session was made from a file, which is read again.
        if data is None:
            proto = model_files.read_model(path, folder, absent=True).proto
        else:
            proto = ModelProto.FromString(data)
        return [
            external_files.original(tensor, taken_out) for tensor in proto.graph.initializer
        ], folder

    return Initializers(load, paths)


@dataclass(frozen=True)
class _Instance:
    """The instance that serves a node of the session."""

    op: str
    version: int
    instance: object


def _instances(state: SessionState, *, copies: bool) -> tuple[dict[int, _Instance], str]:
    """Collect the ops' instances by the number of their node, and say why they could not be copied.

    Two runs on one instance would count twice in the state that the op keeps on itself. The
    unexposed run, which is only compared, uses the session's own instances, as any run does, and
    the exposed run copies. Without copies there is one run.
    """
    instances: dict[int, _Instance] = {}
    for kernel in list(state.kernels):
        numbered_instance = kernel.instance_at(state.epoch)
        if numbered_instance is not None:
            instances[kernel.number] = _Instance(kernel.op.name, *numbered_instance)
    if not copies:
        return instances, ""
    # Instances that share an object share its copy.
    memo: dict[int, Any] = {}
    copied = {}
    for number, instance in instances.items():
        try:
            copied[number] = replace(instance, instance=copy.deepcopy(instance.instance, memo))
        except Exception as error:  # a user's class can raise anything here
            text = (
                f"{type(instance.instance).__name__} cannot be copied: "
                f"{type(error).__name__}: {error}"
            )
            return instances, sanitize(text, 200)
    return copied, ""


def _copy_feed(value: Any) -> Any:
    if isinstance(value, onnxruntime.OrtValue):
        return ortvalues.from_ortvalue(value, None)
    # A sequence is a list of arrays, which need not have one shape.
    return copy.deepcopy(value)


def _special_providers(state: SessionState) -> list[tuple[str, dict[str, Any]]]:
    """List a session's providers with their options; none where the CPU's is the only one."""
    if state.only_cpu:
        return []
    options = state.runtime.get_provider_options()
    return [(name, options[name]) for name in state.runtime.get_providers()]
