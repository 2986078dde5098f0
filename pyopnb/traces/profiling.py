"""``pyopnb.profile``: many runs of a session's model, as that session runs it, in ONNX Runtime's profile."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.errors import InputError
from pyopnb.models.io import ModelSource, without_weights
from pyopnb.models.nodes import first_output, named_bodies
from pyopnb.ops.arguments import check_arguments, describe
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.messages import hide_internal_frames, plural
from pyopnb.ops.progress import advance, tracking
from pyopnb.runtime.plan import Clock, ClockedCall, Plan
from pyopnb.runtime.session.session import Session
from pyopnb.runtime.session.state import SessionState
from pyopnb.traces.events import Recorder
from pyopnb.traces.node_names import name_nodes
from pyopnb.traces.origins import origins
from pyopnb.traces.ort_profile import NOBODY, Kernel, ProfiledRun, profiled_runs
from pyopnb.traces.profile import NodeProfile, Profile
from pyopnb.traces.run import runtime_text
from pyopnb.traces.shadow_session import (
    absent_initializers,
    can_save,
    executed_graph,
    model_beside,
    needs_libraries,
    options_beside,
    profiling,
)
from pyopnb.traces.spread import Spread
from pyopnb.traces.times import group_text

__all__ = ["profile"]

_MOST_RUNS, _MOST_EVENTS = 1_000_000, 1_000_000  # the latter is what ONNX Runtime's profile holds
_UNPROFILED = 20  # runs without the profile


@hide_internal_frames
@check_arguments
def profile(
    session: Any, /, *feeds: Any, runs: int = 100, warmup: int = 5, **named: Any
) -> Profile:
    """Run a session many times, and measure each node, and the part of it that is Python.

    Parameters
    ----------
    session : Session, or a model
    *feeds, **named
        As for a call of the session. A feed that is called ``runs`` or ``warmup`` goes into a dict of feeds by name, given
        alone.
    runs : int
        How many runs are measured.
    warmup : int
        How many are made before, which do not count.

    Returns
    -------
    Profile
        An interrupt ends it with the runs that were measured so far.

    Raises
    ------
    InputError
        A feed does not fit.
    InputError
        The number of runs is not positive, or ONNX Runtime's profile does not hold so many runs of this model.
    ModelError
        The model is in ONNX Runtime's own format.
    Exception
        Whatever an op raised, as itself, with a note that says in which run.

    Notes
    -----
    The runs are those of a session that is built beside this one and released after it, with the same providers and options:
    ONNX Runtime optimises it as it does this one, and nothing is exposed. The weights are in memory twice meanwhile. Up to 20
    more runs of this session's own model without a profile tell what the profile itself costs, which is some microseconds for
    each node. Ops have new instances in all of these runs: what they keep on ``self`` in this session is not touched. A session
    that is not profiled has nothing of all this.

    Nodes that ONNX Runtime fused have one time. The time of If, Loop or Scan is that of its bodies as well; the nodes in them
    are listed as ONNX Runtime ran them.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Slow")
    ... class Slow:
    ...     def compute(self, x):
    ...         return np.sort(x)
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Exp(x)  y = doctest.Slow(a) }")
    >>> found = pyopnb.profile(Session(model), x=np.random.default_rng(0).random(100_000, np.float32), runs=5)
    >>> [node.op_type for node in found.ranked()], found["y"].python.median > found["a"].total.median
    (['Slow', 'Exp'], True)
    """
    __tracebackhide__ = True
    _check_number("runs", runs, 1)
    _check_number("warmup", warmup, 0)
    session = session if isinstance(session, Session) else Session(session)
    state = session._update()
    given = state.feeds.by_name(feeds, named)
    source, model = model_beside(state, "profile")
    measured = _Measured(runs, warmup, frozenset(state.ops))
    with tracking("runs", runs):
        unprofiled = _unprofiled(session, state, given, measured)
        measured.run(session, state, source, given)
    return measured.profile(model, unprofiled, runtime_text(state))


def _check_number(name: str, value: int, least: int) -> None:
    if not least <= value <= _MOST_RUNS:
        expected = f"a whole number from {least} to {_MOST_RUNS:,}"
        next_ = f"{name}={100 if least else 5}"
        raise InputError(f"profile, {name}", expected=expected, got=describe(value), next=next_)


def _unprofiled(
    session: Session, state: SessionState, feeds: Mapping[str, Any], wanted: _Measured
) -> Spread | None:
    """Runs in the session's own ONNX Runtime session, with new instances of the ops."""
    __tracebackhide__ = True
    if state.config.options is not None and state.config.options.enable_profiling:
        return None
    own = session.with_attrs()
    plain = own._update()
    calls = wanted.repeat(plain, feeds, min(wanted.runs, _UNPROFILED), "before the profile")
    return Spread.of(np.array([call.took for call in calls]))


@dataclass
class _Label:
    """What the reader calls a node."""

    text: str
    op_type: str


@dataclass
class _Measured:
    """The runs in a profile, and what came of them."""

    runs: int
    warmup: int
    ops: frozenset[str]
    clocks: dict[str, Clock] = field(
        default_factory=dict
    )  # of the ops, by the names of their nodes
    labels: dict[str, _Label] = field(default_factory=dict)  # of all nodes, by their names
    main: list[str] = field(default_factory=list)  # labels of the main graph's nodes
    named: GraphProto = field(
        default_factory=GraphProto
    )  # the main graph, all its nodes with names
    calls: list[ClockedCall] = field(default_factory=list)  # of the session
    python: list[dict[str, list[ClockedCall]]] = field(
        default_factory=list
    )  # calls of compute of each run
    rows: dict[str, _Row] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    sessions: list[float] = field(default_factory=list)
    recorder: Recorder = field(default_factory=lambda: Recorder({}))

    # ---- running -------------------------------------------------------------------------------------------------------------

    def run(
        self, session: Session, state: SessionState, source: ModelSource, feeds: Mapping[str, Any]
    ) -> None:
        """Run the model in a session with a profile, and read that."""
        __tracebackhide__ = True
        saves = can_save(state, source)
        if not saves:
            self.remarks.append(
                "ONNX Runtime's optimised graph could not be saved: the times of nodes that it fused are not attributed"
            )
        lent = bool(absent_initializers(source, state.taken_out)) or needs_libraries(
            source.proto, state.config.modules
        )
        with tempfile.TemporaryDirectory(prefix="pyopnb-") as folder:
            changes = profiling(folder, profiles=True, saves=saves)
            with options_beside(state, changes, folder, lent=lent) as options:
                profiled = session._with_model(source, state, options, self.prepare)
                executed = executed_graph(options)
            written = ""
            try:
                self._check_room(executed)
                self._run_all(profiled._state, feeds)
            finally:
                written = profiled.end_profiling()
            self._read(written, executed or self.named)

    def _check_room(self, executed: GraphProto | None) -> None:
        each = 2 + (1 if executed is None else len(executed.node))
        most = (_MOST_EVENTS - 10) // each - self.warmup
        if self.runs > most:
            raise InputError(
                "profile, runs",
                expected=f"at most {max(most, 0):,} runs of this model: ONNX Runtime's profile holds {_MOST_EVENTS:,} events",
                got=f"{self.runs:,} and {self.warmup:,} to warm up, of {each:,} events and more",
                next=f"runs={max(most, 1)}",
            )

    def _run_all(self, state: SessionState, feeds: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        self.repeat(state, feeds, self.warmup, "to warm up")
        for clock in self.clocks.values():
            clock.take()
        try:
            self.repeat(state, feeds, self.runs, "of the profile", measured=True)
        except KeyboardInterrupt:
            if not self.python:
                raise

    def repeat(
        self,
        state: SessionState,
        feeds: Mapping[str, Any],
        count: int,
        which: str,
        *,
        measured: bool = False,
    ) -> list[ClockedCall]:
        """The calls of so many runs."""
        __tracebackhide__ = True
        found = self.calls if measured else []
        thread = threading.get_ident()
        for number in range(count):
            begin = time.perf_counter_ns()
            try:
                state.run(None, feeds)
            except Exception as error:
                add_note(error, f"in run {number + 1:,} of {count:,} {which}")
                raise
            found.append(ClockedCall(thread, begin, time.perf_counter_ns()))
            if measured:
                self.python.append({name: clock.take() for name, clock in self.clocks.items()})
                advance("runs", 1)
        return found

    def prepare(self, plan: Plan, proto: ModelProto) -> None:
        """Give all nodes names and the ops clocks; called before each attempt to build."""
        # An op that is new since the session was built does not serve it; the nodes are numbered as in the session.
        plan.nodes[:] = [node for node in plan.nodes if node.op.name in self.ops]
        if (
            not self.labels
        ):  # not when the session is built again: the nodes have their new names then
            paths = _paths(proto.graph)
            self.main = name_nodes(proto)
            self.labels = {node.name: label for node, label in paths}
            self.named = without_weights(proto).proto.graph
        for entry in plan.nodes:
            name = entry.numbered.site.node.name
            if name in self.labels:
                entry.clock = self.clocks.setdefault(name, Clock())

    # ---- reading -------------------------------------------------------------------------------------------------------------

    def _read(self, written: str, executed: GraphProto) -> None:
        owners = self._owners(executed)
        self.recorder = Recorder(
            {name: (label.text, label.op_type) for name, label in self.labels.items()}
        )
        with open(written, "rb") as file:
            for number, (found, event, placed) in enumerate(
                profiled_runs(file, executed), -self.warmup
            ):
                if 0 <= number < len(self.python):
                    self._add(number, found, event, placed, owners)
        made, read = len(self.python), len(self.walls)
        full = f"ONNX Runtime's profile, which holds {_MOST_EVENTS:,} events,"
        if not read:
            got = f"{plural(made, 'run')} of more events"
            raise InputError(
                "profile, runs",
                expected=f"a run that fits into {full[:-1]}",
                got=got,
                next="warmup=0",
            )
        if read < made:
            self.remarks.append(f"{full} was full after {plural(read, 'run')}")
        elif made < self.runs:
            self.remarks.append(f"interrupted after {made:,} of {self.runs:,} runs")

    def _owners(self, executed: GraphProto) -> dict[int, _Row]:
        """The rows of the main graph's nodes, by the indices of the nodes that ran in their place."""
        owners: dict[int, _Row] = {}
        clocked = set(self.clocks)
        for origin in sorted(origins(self.named, executed), key=lambda origin: origin.nodes[-1:]):
            nodes = [self.named.node[index] for index in origin.nodes]
            if not nodes:
                continue
            text = group_text([self.main[index] for index in origin.nodes])
            inner = {name for node in nodes for name in (node.name, *_names_inside(node))}
            row = _Row(
                text,
                group_text([self.labels[node.name].op_type for node in nodes]),
                first_output(nodes[-1]),
                tuple(map(first_output, nodes)),
                clocks=sorted(inner & clocked),
            )
            owners.update(dict.fromkeys(origin.executed, row))
        return owners

    def _add(
        self,
        number: int,
        found: ProfiledRun,
        event: Kernel,
        placed: list[tuple[int, Kernel]],
        owners: Mapping[int, _Row],
    ) -> None:
        python = self.python[number]
        self.walls.append(self.calls[number].took)
        self.sessions.append(event.took)
        labels = {}
        for place, kernel in placed:
            row = owners.get(place) if place != NOBODY else None
            if row is None:
                continue
            labels[kernel.name] = row.node, row.op_type
            self.rows.setdefault(row.key, row).add(number, kernel)
            for inner in kernel.inside:
                self._add_inside(number, inner, row, row.node)
        for place, took in found.nodes.items():
            if (row := owners.get(place)) is not None:
                self.rows.setdefault(row.key, row).totals[number] += took
        self.recorder.labels.update(labels)
        self.recorder.add(
            number, self.calls[number], event, [kernel for _, kernel in placed], python
        )

    def _add_inside(self, number: int, kernel: Kernel, owner: _Row, path: str) -> None:
        label = self.labels.get(kernel.name)
        text = label.text if label else f"{path}/{kernel.name}"
        row = self.rows.get(f"{owner.key}\0{text}")
        if row is None:
            clocks = [kernel.name] if kernel.name in self.clocks else []
            row = _Row(
                text,
                label.op_type if label else kernel.op_type,
                text,
                (),
                inside=owner.key,
                clocks=clocks,
            )
            self.rows[f"{owner.key}\0{text}"] = row
        row.add(number, kernel)
        row.totals[number] += kernel.took
        for inner in kernel.inside:
            self._add_inside(number, inner, owner, text)

    def profile(self, model: ModelProto, unprofiled: Spread | None, runtime: str) -> Profile:
        """What was read."""
        count = len(self.walls)
        spent = [
            {name: sum(call.took for call in calls) for name, calls in one.items()}
            for one in self.python[:count]
        ]
        nodes = [row.profile(count, spent) for row in self.rows.values()]
        place = {first_output(node): number for number, node in enumerate(model.graph.node)}
        nodes.sort(key=lambda node: (place.get(node.inside or node.key, 0), bool(node.inside)))
        return Profile(
            model,
            nodes,
            walls=np.array(self.walls),
            sessions=np.array(self.sessions),
            pythons=np.array([sum(one.values()) for one in spent], np.float64),
            events=self.recorder.events(),
            unprofiled=unprofiled,
            asked=self.runs,
            warmup=self.warmup,
            runtime=runtime,
            remarks=self.remarks,
        )


@dataclass
class _Row:
    """The times of a node or group, by the number of the run."""

    node: str
    op_type: str
    key: str
    outputs: tuple[str, ...]
    inside: str = ""
    clocks: Sequence[str] = ()
    calls: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    totals: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    kernels: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    inner: dict[int, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # in the kernels of its bodies

    def add(self, number: int, kernel: Kernel) -> None:
        self.calls[number] += 1
        self.kernels[number] += kernel.took
        self.inner[number] += sum(inner.took for inner in kernel.inside)

    def profile(self, count: int, spent: Sequence[Mapping[str, float]]) -> NodeProfile:
        totals, kernels, inner = (
            _array(one, count) for one in (self.totals, self.kernels, self.inner)
        )
        pythons = (
            np.array([sum(one[name] for name in self.clocks) for one in spent], np.float64)
            if self.clocks
            else None
        )
        return NodeProfile(
            self.node,
            self.op_type,
            self.key,
            self.outputs,
            self.inside,
            np.array([self.calls.get(number, 0) for number in range(count)], np.int64),
            totals,
            kernels,
            np.maximum(totals - inner, 0.0),
            pythons,
        )


def _array(values: Mapping[int, float], count: int) -> np.ndarray:
    return np.array([values.get(number, 0.0) for number in range(count)], np.float64)


def _paths(graph: GraphProto) -> list[tuple[NodeProto, _Label]]:
    """The nodes of a graph and of its bodies, each with what leads to it: ``"loop/body/q"``."""
    found: list[tuple[NodeProto, _Label]] = []
    waiting = [(graph, "")]
    while waiting:
        scope, path = waiting.pop()
        for node in scope.node:
            text = f"{path}{node.name or first_output(node)}"
            found.append((node, _Label(text, node.op_type)))
            waiting += [(body, f"{text}/{attribute}/") for attribute, body in named_bodies(node)]
    return found


def _names_inside(node: NodeProto) -> list[str]:
    return [inner.name for _, body in named_bodies(node) for inner, _ in _paths(body)]
