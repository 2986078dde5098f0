"""Profile many runs of a session's model, as the session runs it, by the ONNX Runtime profile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto

from pyopnb.common import plural, progress
from pyopnb.engine import (
    ModelSource,
    Session,
    SessionState,
    add_note,
    argument_checks,
    check_arguments,
    node_plans,
    protos,
)
from pyopnb.errors import InputError
from pyopnb.traces.chrome import RunLog, Span, clock_offset
from pyopnb.traces.clocks import ClockedCall
from pyopnb.traces.node_times import NodeProfile, Profile
from pyopnb.traces.ort_profile import ProfiledRun, RunEvents, profiled_runs
from pyopnb.traces.runs.optimized_run import runtime_text
from pyopnb.traces.shadow_session import can_save, model_beside, session_beside
from pyopnb.traces.spread import Spread
from pyopnb.traces.timed_nodes import TimedNodes, keep_ops

__all__ = ["profile"]

_MOST_RUNS = 1_000_000
_MOST_EVENTS = 1_000_000  # of the ONNX Runtime profile
_UNPROFILED = 20  # runs without the profile


@check_arguments
def profile(
    session: Any, /, *feeds: Any, runs: int = 100, warmup: int = 5, **named: Any
) -> Profile:
    """Run a session many times, and measure each node and how much of its time is Python.

    Parameters
    ----------
    session : Session, or a model
        A model gets a session of its own.
    *feeds, **named
        As in a call of the session. For a feed named ``runs`` or ``warmup``, pass one dict of all
        feeds.
    runs : int
        The number of runs to measure.
    warmup : int
        The number of runs before these, which are not measured.

    Returns
    -------
    Profile
        After an interrupt, it has the runs that were measured so far, and of very many runs those
        that fit into the ONNX Runtime profile, which holds a million events.

    Raises
    ------
    InputError
        A feed does not fit, or the number of runs is not positive, or not even one run fits into
        the ONNX Runtime profile.
    ModelError
        The model is in the ONNX Runtime format.
    Exception
        The exception that an op raised, with a note that says in which run.

    Notes
    -----
    The runs use a second session, which is built for them with the same providers and options and
    is released afterwards. So ONNX Runtime optimizes it as it does yours, with no tensors recorded;
    meanwhile, the weights are in memory twice. Up to 20 more runs without a profile measure the
    cost of the profile itself, some microseconds per node. Ops have new instances in all of
    these runs, so that state on ``self`` in your session does not change. Sessions that are not
    profiled cost nothing extra.

    Nodes that ONNX Runtime fused share one time. The time of If, Loop or Scan includes its bodies.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Slow")
    ... class Slow:
    ...     def compute(self, x):
    ...         return np.sort(x)
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Exp(x)  y = doctest.Slow(a) }")
    >>> profile = pyopnb.profile(
    ...     Session(model), x=np.random.default_rng(0).random(100_000, np.float32), runs=5
    ... )
    >>> slowest = [node.op_type for node in profile.ranked()]
    >>> slowest, profile["y"].python.median > profile["a"].total.median
    (['Slow', 'Exp'], True)
    """
    __tracebackhide__ = True
    _check_number("runs", runs, 1)
    _check_number("warmup", warmup, 0)
    if not isinstance(session, Session):
        session = Session(session)
    # Ops that were redefined since the last run serve here in their new versions.
    state = session.update()
    feeds_by_name = state.feeds.by_name(feeds, named)
    source, model = model_beside(state, "profile")
    shadow = _ShadowRuns(runs, warmup, frozenset(state.ops))
    with progress.tracking("runs", runs):
        unprofiled = _unprofiled(session, state, feeds_by_name, runs)
        executed = shadow.run(state, source, feeds_by_name)
    runtime = runtime_text(state)
    return shadow.profile(executed, model=model, unprofiled=unprofiled, runtime=runtime)


def _check_number(name: str, value: int, least: int) -> None:
    if not least <= value <= _MOST_RUNS:
        expected = f"a whole number from {least} to {_MOST_RUNS:,}"
        next_ = f"{name}={100 if least else 5}"
        raise InputError(
            f"profile, {name}", expected=expected, got=argument_checks.describe(value), next=next_
        )


def _unprofiled(
    session: Session, state: SessionState, feeds: Mapping[str, Any], runs: int
) -> Spread | None:
    """Time runs in the session's own ONNX Runtime session, with new instances of the ops."""
    __tracebackhide__ = True
    if state.config.options is not None and state.config.options.enable_profiling:
        return None
    # A session that shares the one of ONNX Runtime, with its own instances: the state of ops on
    # self is not touched.
    shared = session.with_attrs()
    calls = _calls(shared.update(), feeds, min(runs, _UNPROFILED), "before the profile")
    return Spread.of(np.array([call.took for call in calls]))


def _calls(
    state: SessionState, feeds: Mapping[str, Any], count: int, which: str
) -> Iterator[ClockedCall]:
    """Run again and again, and yield the time of each run."""
    __tracebackhide__ = True
    for number in range(count):
        begin = time.perf_counter_ns()
        try:
            state.run(None, feeds)
        except Exception as error:
            add_note(error, f"in run {number + 1:,} of {count:,} {which}")
            raise
        yield ClockedCall(begin, time.perf_counter_ns())


@dataclass
class _ShadowRuns:
    """Runs in a session that is built beside the user's, with the ONNX Runtime profile."""

    runs: int
    warmup: int
    ops: frozenset[str]
    timed: TimedNodes = field(default_factory=TimedNodes)
    calls: list[ClockedCall] = field(default_factory=list)  # of the session, one a run
    computes: list[dict[str, list[ClockedCall]]] = field(default_factory=list)  # and of ops
    read: list[ProfiledRun] = field(default_factory=list)
    sessions: list[float] = field(default_factory=list)  # microseconds of each run
    logs: list[RunLog] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def run(
        self,
        state: SessionState,
        source: ModelSource,
        feeds: Mapping[str, Any],
    ) -> GraphProto:
        """Run the model in a session with a profile, read this, and return the graph that ran."""
        __tracebackhide__ = True
        # The saved graph tells which of the user's nodes ONNX Runtime has fused.
        if not can_save(state, source):
            self.remarks.append(
                "the optimized graph of ONNX Runtime could not be saved: "
                "the times of nodes that it fused are not attributed"
            )
        if state.config.is_parallel:
            self.remarks.append(
                "measured one node after the other, "
                "where the session's ORT_PARALLEL runs some at once"
            )
        with session_beside(state, source, self.prepare) as (profiled, saved):
            offset = clock_offset(profiled.state.runtime)
            try:
                self._run_all(profiled.state, feeds)
            finally:
                path = profiled.end_profiling()
            executed = saved or self.timed.named
            with open(path, encoding="utf-8") as file:
                events = profiled_runs(file, executed, skipped=self.warmup)
                for run, call, computes in zip(events, self.calls, self.computes, strict=False):
                    self._read(run, call, computes, offset)
        self._check_read()
        return executed

    def _read(
        self,
        run: RunEvents,
        call: ClockedCall,
        computes: Mapping[str, Sequence[ClockedCall]],
        offset: int,
    ) -> None:
        """Keep the times of a run, and its events in a compressed form."""
        self.read.append(run.times())
        self.sessions.append(run.end - run.begin)
        # Spans of Python have the names that the reader knows the nodes by.
        labels = dict(
            zip(map(protos.first_output, self.timed.named.node), self.timed.labels, strict=True)
        )
        spans = []
        for output, op_calls in computes.items():
            spans += [Span(labels[output], op_call) for op_call in op_calls]
        self.logs.append(RunLog.of(len(self.read), run.lines, call, spans, offset))

    def _check_read(self) -> None:
        """Remark on runs that are not in the profile."""
        read = len(self.read)
        measured = len(self.calls)
        full = f"the ONNX Runtime profile, which holds {_MOST_EVENTS:,} events"
        if not read:
            raise InputError(
                "profile, runs",
                expected=f"a run that fits into {full}",
                got=f"{plural(measured, 'run')} of more events",
                next="warmup=0",
            )
        if read < measured:
            self.remarks.append(f"{full}, was full after {plural(read, 'run')}")
        elif measured < self.runs:
            self.remarks.append(f"interrupted after {measured:,} of {self.runs:,} runs")

    def _run_all(self, state: SessionState, feeds: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        for _ in _calls(state, feeds, self.warmup, "to warm up"):
            pass
        # The calls of the runs to warm up do not count.
        self.timed.take()
        try:
            for call in _calls(state, feeds, self.runs, "of the profile"):
                self.calls.append(call)
                self.computes.append(self.timed.take())
                progress.advance("runs", 1)
        # The runs so far also make a profile.
        except KeyboardInterrupt:
            if not self.calls:
                raise

    def prepare(self, plan: node_plans.Plan, proto: ModelProto) -> None:
        """Give all nodes names and the ops clocks; called before each attempt to build."""
        keep_ops(plan, self.ops)
        self.timed.attach(plan, proto)

    def profile(self, executed: GraphProto, **known: Any) -> Profile:
        """Make the profile of the runs that were read."""
        count = len(self.read)
        times = self.timed.times(self.read, self.computes[:count], executed)
        pythons = []
        for log in self.logs:
            pythons.append(sum(span.call.took for span in log.computes))
        return Profile(
            nodes=[NodeProfile.of(key, times) for key in times[0]],
            walls=np.array([log.call.took for log in self.logs]),
            sessions=np.array(self.sessions),
            pythons=np.array(pythons, np.float64),
            logs=self.logs,
            asked=self.runs,
            remarks=self.remarks,
            **known,
        )
