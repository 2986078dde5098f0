"""Random calls of ops, each judged: as a test with a small count, and as a script with any.

``PYTHONPATH=tests/shared python -P tests/shared/random_calls.py --count 10000000 --seed 0``. The
calls come in epochs of their own sessions, ops and random numbers; what fails says its epoch, and
``--epoch`` runs that one alone.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
from limits import LIMIT

import pyopnb
from pyopnb.engine.ops.dtypes import DTYPES
from pyopnb.engine.runtime import _bridge
from pyopnb.errors import SessionRebuilt

__all__ = ["EPOCH", "Report", "epoch", "main", "random_calls"]

EPOCH = 10_000
"""Calls of compute in an epoch."""

LARGE = (70, 60)
SHAPES = [(), (0,), (1,), (3,), (40,), (2, 3), (3, 2), (0, 4), (2, 1, 5), LARGE]
NAMES = ["random::A", "random::B"]
PAIR = "random::Pair"
LAST = "random::Last"  # the dtype of its output changes with its versions, so that sessions are rebuilt
KINDS = [row.name for row in DTYPES if row.carried]


class Boom(Exception):
    """What an op raises on purpose."""


@dataclass
class Plan:
    """What the nodes of one run are to do, one after the other, and what they did."""

    steps: list[str]
    number: int  # of the run
    inner: Callable[[], None] | None = None
    at: int = 0
    kept: list[tuple[Any, bytes]] = field(default_factory=list)


class Now(threading.local):
    """The plan of the run on this thread."""

    plan: Plan | None = None


NOW = Now()


def content(array: Any) -> bytes:
    """The bytes of an array, or of a kept part of one; of texts, their own."""
    array = np.asarray(array)
    return repr(array.tolist()).encode() if array.dtype == object else array.tobytes()


def rolled(x: np.ndarray, shift: int) -> np.ndarray:
    """What a good op of version ``shift`` gives."""
    flat = x.reshape(-1)
    at = flat.size and -shift % flat.size
    return np.concatenate((flat[at:], flat[:at])).reshape(
        x.shape
    )  # np.roll, in a fifth of its time


def perform(op: Any, x: np.ndarray, shift: int) -> Any:
    """The next step of the plan."""
    plan = NOW.plan
    assert plan is not None
    step = plan.steps[plan.at]
    plan.at += 1
    COUNTS[step] += 1
    return STEPS[step](op, x, shift, plan)


def _buffer(op: Any, x: np.ndarray, shift: int, plan: Plan) -> np.ndarray:
    """The same memory from call to call, one for each thread."""
    key = (threading.get_ident(), x.shape)
    buffer = op.buffers.get(key)
    if buffer is None:
        buffer = op.buffers[key] = np.empty(x.shape, x.dtype)
    buffer[...] = rolled(x, shift)
    return buffer


def _keep(hold: Callable[[np.ndarray], Any]) -> Callable[..., np.ndarray]:
    def keep(op: Any, x: np.ndarray, shift: int, plan: Plan) -> np.ndarray:
        held = hold(x)
        plan.kept.append((held, content(held)))
        return rolled(x, shift)

    return keep


def _raise(op: Any, x: np.ndarray, shift: int, plan: Plan) -> Any:
    raise Boom(plan.number)


def _nested(op: Any, x: np.ndarray, shift: int, plan: Plan) -> np.ndarray:
    assert plan.inner is not None
    plan.inner()
    return rolled(x, shift)


STEPS: dict[str, Callable[..., Any]] = {
    "fresh": lambda op, x, shift, plan: rolled(x, shift),
    "itself": lambda op, x, shift, plan: x,
    "view": lambda op, x, shift, plan: x.reshape(-1).reshape(x.shape),
    "backwards": lambda op, x, shift, plan: (
        rolled(x, shift)[::-1][::-1] if x.ndim else rolled(x, shift)
    ),
    "strided": lambda op, x, shift, plan: (
        np.repeat(rolled(x, shift)[None], 2, 0).T[..., 0].T if x.ndim else rolled(x, shift)
    ),
    "fortran": lambda op, x, shift, plan: np.asfortranarray(rolled(x, shift)).reshape(x.shape),
    "buffer": _buffer,
    "keeps": _keep(lambda x: x),
    "keeps a view": _keep(lambda x: x[1:] if x.ndim else x[...]),
    "keeps the memory": _keep(
        lambda x: memoryview(x) if x.dtype.isbuiltin == 1 and x.dtype != object else x.reshape(-1)
    ),
    "nested": _nested,
    "raises": _raise,
    "other dtype": lambda op, x, shift, plan: (
        x.astype(np.complex64) if x.dtype != object else np.zeros(x.shape, np.float32)
    ),
    "other count": lambda op, x, shift, plan: (x, x, x),
    "other rank": lambda op, x, shift, plan: rolled(x, shift)[None],
}
UNCHANGED = {"itself", "view"}
REFUSED = {"other dtype", "other count", "other rank"}
KEEPING = {"keeps", "keeps a view", "keeps the memory"}
WEIGHTS = {
    "fresh": 8,
    "itself": 6,
    "view": 4,
    "buffer": 6,
    **dict.fromkeys(KEEPING, 0.5),
    **dict.fromkeys(REFUSED, 0.3),
    "nested": 0.5,
    "raises": 1,
}
COUNTS: Counter[str] = Counter()


@dataclass
class Graph:
    """A session, the type of its input, and how many nodes of each name a feed passes."""

    session: pyopnb.Session
    kind: str
    rank: int
    passes: list[str]


class NoOp:
    """What no registry takes."""

    compute = None


class Epoch:
    """Ops, sessions and feeds that are made of one seed."""

    def __init__(self, seed: int, number: int) -> None:
        self.place = f"seed {seed}, epoch {number}"
        self.random = random.Random(f"{seed} {number}")
        # The model: what each op's newest version rolls by, what its versions did, and the
        # dtype that LAST gives.
        self.shifts = dict.fromkeys([*NAMES, PAIR, LAST], 0)
        self.history: dict[str, list[tuple[int, str]]] = {name: [] for name in self.shifts}
        self.last = "float32"
        self.graphs: list[Graph] = []
        self.kept: list[tuple[Any, bytes]] = []
        self.runs = 0
        self.lock = threading.Lock()
        self.kernels = _bridge.counters()["kernels"]  # of others
        self.seen: Counter[str] = Counter()
        for name in self.shifts:
            self.define(name)

    # ---- ops and sessions ----------------------------------------------------------------------------------------------------

    def define(self, name: str) -> None:
        shift = self.shifts[name] + 1

        class Op:
            def __init__(self) -> None:
                self.buffers: dict[Any, np.ndarray] = {}

            def compute(self, x: Any) -> Any:
                return perform(self, x, shift)

        class Pair(Op):
            def compute(self, x: Any) -> Any:
                made = perform(self, x, shift)
                return made if isinstance(made, tuple) else (made, made)

            def infer(self, x: Any) -> Any:
                return x, x

        class Chained(Op):
            def infer(self, x: Any) -> Any:
                return x

        kind = self.random.choice(["float32", "float64"]) if name == LAST else self.last

        class Last(Op):
            def compute(self, x: Any) -> Any:
                made = perform(self, x, shift)
                is_right = isinstance(made, np.ndarray) and made.dtype == x.dtype
                return made.astype(kind, copy=False) if is_right else made

            def infer(self, x: Any) -> Any:
                return x.like(dtype=kind)

        # Before the first run that may see it, on any thread.
        self.seen["changes of outputs"] += kind != self.last
        self.shifts[name], self.last = shift, kind
        self.history[name].append((shift, kind))
        pyopnb.registry.define({PAIR: Pair, LAST: Last}.get(name, Chained), name)
        self.seen["definitions"] += 1

    def define_another_way(self) -> None:
        """Roll an op back, or define what is none."""
        name = self.random.choice(list(self.shifts))
        number = self.random.randint(max(1, len(self.history[name]) - 50), len(self.history[name]))
        try:
            pyopnb.registry.define(NoOp, name)
        except pyopnb.PyopError:
            self.seen["refused definitions"] += 1
        shift, kind = self.history[name][number - 1]
        self.shifts[name] = shift
        self.last = kind if name == LAST else self.last
        self.history[name].append((shift, kind))
        pyopnb.registry.rollback(name, number)
        self.seen["rollbacks"] += 1

    def make_graph(self) -> None:
        kind, rank = self.random.choice([*KINDS, "float32", "float32"]), self.random.randrange(4)
        size = (
            self.random.randint(1, 3) if self.random.random() < 0.6 else self.random.randint(4, 24)
        )
        passes = (
            [self.random.choice(NAMES) for _ in range(size)]
            if self.random.random() < 0.8
            else [PAIR]
        )
        if kind == "float32" and passes != [PAIR] and self.random.random() < 0.5:
            passes[-1] = LAST
        names = ["x", *(f"t{n}" for n in range(1, len(passes))), "y"]
        nodes = [
            pyopnb.node(
                op, names[n], [names[n + 1], "z"] if op == PAIR else names[n + 1], name=f"n{n}"
            )
            for n, op in enumerate(passes)
        ]
        dims = ",".join("NMKL"[:rank])
        outputs = ["y", "z"] if passes == [PAIR] else ["y"]
        types: Any = dict.fromkeys(outputs, f"{kind}[{dims}]")
        if passes[-1] == LAST:
            types = outputs
        model = pyopnb.model(nodes, {"x": f"{kind}[{dims}]"}, types)
        self.graphs.append(Graph(pyopnb.Session(model), kind, rank, passes))
        self.seen["sessions"] += 1
        if len(self.graphs) > 6:
            self.graphs.pop(self.random.randrange(len(self.graphs)))

    def feed(self, graph: Graph) -> np.ndarray:
        shape = self.random.choice([shape for shape in SHAPES if len(shape) == graph.rank])
        if (
            shape == LARGE and self.random.random() < 0.8
        ):  # it costs as much as a hundred small ones
            shape = (2, 3)
        count = int(np.prod(shape))
        start = self.random.randrange(100)
        if graph.kind == "string":
            return np.array([f"text {start + n}" for n in range(count)], object).reshape(shape)
        numpy_type = next(row.numpy for row in DTYPES if row.name == graph.kind)
        least = 2 if graph.kind == "bool" else 8 if graph.kind in ("int4", "uint4") else 120
        return ((np.arange(count) + start) % least).astype(numpy_type).reshape(shape)

    # ---- runs ----------------------------------------------------------------------------------------------------------------

    def plan(self, graph: Graph, chosen: random.Random, *, nests: bool = True) -> Plan:
        steps = chosen.choices(list(WEIGHTS), list(WEIGHTS.values()), k=len(graph.passes))
        rare = chosen.random()
        if rare < 0.1:
            steps[0] = chosen.choice(["backwards", "strided", "fortran"])
        if not graph.rank:  # ONNX Runtime tells a scalar and an unknown rank alike to infer
            steps = ["other dtype" if step == "other rank" else step for step in steps]
        if not nests:
            steps = ["fresh" if step == "nested" else step for step in steps]
        with self.lock:
            self.runs += 1
            return Plan(steps, self.runs)

    def run(
        self,
        graph: Graph,
        chosen: random.Random,
        *,
        nests: bool = True,
        versions: dict[str, int] | None = None,
    ) -> None:
        """One run and its judgment; ``versions`` are the first ones that it may see, where ops are redefined meanwhile."""
        x = self.feed(graph) if versions is None else _FIXED[graph.kind][graph.rank].copy()
        before = x.copy()
        plan = self.plan(graph, chosen, nests=nests)
        plan.inner = lambda: self.run(
            chosen.choice(self.graphs), chosen, nests=False, versions=versions
        )
        outer, NOW.plan = NOW.plan, plan
        first = dict(self.shifts) if versions is None else versions
        raised, got = None, None
        try:
            got = graph.session(x=x)
        except (Boom, pyopnb.errors.ResultError, pyopnb.errors.EscapedInput) as error:
            raised = error.with_traceback(None)
        finally:
            NOW.plan = outer
        self.judge(graph, plan, before, got, raised, first)
        with self.lock:
            self.seen["runs"] += 1
            if raised is None or not isinstance(raised, pyopnb.errors.EscapedInput):
                self.kept += plan.kept
        del (
            raised
        )  # its frames lead to the frames of a run outside, and would keep that one's input
        if plan.kept and x.size:
            x[...] = x.reshape(-1)[0]  # what was kept must not read the caller's array

    def judge(
        self, graph: Graph, plan: Plan, x: np.ndarray, got: Any, raised: Any, first: dict[str, int]
    ) -> None:
        where = f"{self.place}, run {plan.number}: {graph.kind}{list(x.shape)} through {graph.passes}, {plan.steps}"
        bad = next(
            (n for n, step in enumerate(plan.steps) if step == "raises" or step in REFUSED), None
        )
        if isinstance(raised, pyopnb.errors.EscapedInput):
            assert any(step in KEEPING for step in plan.steps[: plan.at]), (
                f"{where}: {raised!r}, and nothing was kept"
            )
            self.seen["escapes"] += 1
            return
        if bad is not None:
            wanted = Boom if plan.steps[bad] == "raises" else pyopnb.errors.ResultError
            assert isinstance(raised, wanted), f"{where}: {raised!r}, expected {wanted.__name__}"
            assert wanted is not Boom or raised.args == (plan.number,), (
                f"{where}: another run's exception, {raised!r}"
            )
            assert plan.at == bad + 1, f"{where}: {plan.at} calls, expected {bad + 1}"
            self.seen["errors"] += 1
            return
        assert raised is None, f"{where}: {raised!r}"
        assert plan.at == len(plan.steps), f"{where}: {plan.at} calls"
        results = [got["y"], got["z"]] if graph.passes == [PAIR] else [got["y"]]
        wanted = self.expected(graph, plan, x, first)
        dtype = self.last if graph.passes[-1] == LAST else x.dtype
        for result in results:
            assert result.dtype == dtype and result.shape == x.shape, (
                f"{where}: {result.dtype}{result.shape}"
            )
            assert content(result) in wanted, f"{where}: {result!r}"

    def expected(
        self, graph: Graph, plan: Plan, x: np.ndarray, first: dict[str, int]
    ) -> set[bytes]:
        """The contents that are right: of one version of each name, the same one in all its nodes."""
        moving = {name: plan.steps[n] not in UNCHANGED for n, name in enumerate(graph.passes)}
        times = Counter(
            name for n, name in enumerate(graph.passes) if plan.steps[n] not in UNCHANGED
        )
        totals = {0}
        for name, many in times.items():
            if moving[name] or many:
                totals = {
                    t + many * shift
                    for t in totals
                    for shift in range(first[name], self.shifts[name] + 1)
                }
        dtype = self.last if graph.passes[-1] == LAST else x.dtype
        return {content(rolled(x, total).astype(dtype)) for total in totals}

    # ---- what happens --------------------------------------------------------------------------------------------------------

    def several(self) -> None:
        """Runs on threads at once; half of the times an op is redefined meanwhile."""
        first, threads = dict(self.shifts), self.random.randint(2, 4)
        seeds = [self.random.random() for _ in range(threads)]
        redefined = self.random.random() < 0.5
        ready = threading.Barrier(threads + redefined)

        def work(seed: float) -> None:
            chosen = random.Random(seed)
            ready.wait(LIMIT)
            for _ in range(15):
                self.run(chosen.choice(self.graphs), chosen, versions=first)

        def redefine() -> None:
            ready.wait(LIMIT)
            self.define(NAMES[0])

        with ThreadPoolExecutor(threads + redefined) as pool:
            jobs = [pool.submit(work, seed) for seed in seeds] + [
                pool.submit(redefine) for _ in range(redefined)
            ]
            for job in jobs:
                job.result(LIMIT)
        self.seen["batches on threads"] += 1

    def check_kept(self) -> None:
        """What was kept reads what it held in its call."""
        for held, values in self.kept:
            assert content(held) == values, f"{self.place}: a kept input has changed"
        self.seen["kept"] += len(self.kept)
        self.kept.clear()
        kernels = _bridge.counters()["kernels"] - self.kernels
        alive = sum(len(graph.passes) for graph in self.graphs)
        assert kernels == alive, f"{self.place}: {kernels} kernels in sessions of {alive} nodes"

    def turn(self) -> None:
        """One thing, mostly a run."""
        drawn = self.random.random()
        if drawn < 0.002 or not self.graphs:
            self.make_graph()
        elif drawn < 0.005:
            self.define(self.random.choice([*NAMES, PAIR, LAST]))
        elif drawn < 0.012:
            self.define_another_way()
        elif drawn < 0.015:
            self.several()
        elif drawn < 0.025:
            self.check_kept()
        else:
            self.run(self.random.choice(self.graphs), self.random)


def _fixed(kind: str, rank: int) -> np.ndarray:
    """A feed for threads: made beforehand, as a generator of random numbers that threads share would not repeat itself."""
    maker = Epoch.__new__(Epoch)
    maker.random = random.Random(rank)
    return maker.feed(Graph(None, kind, rank, []))  # type: ignore[arg-type]


_FIXED = {kind: [_fixed(kind, rank) for rank in range(4)] for kind in KINDS}


@dataclass
class Report:
    """What was done."""

    calls: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    resident: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        parts = ", ".join(f"{count:,} {what}" for what, count in self.seen.items())
        grown = (
            f", resident memory {self.resident[0] / 1e6:.1f} → {self.resident[-1] / 1e6:.1f} MB"
            if self.resident
            else ""
        )
        return f"{self.calls:,} calls of compute in {self.seconds:.0f} s: {parts}{grown}; none lied"


def epoch(seed: int, number: int, calls: int = EPOCH) -> tuple[int, Counter[str]]:
    """Run one epoch; its calls of compute, and what else happened. Everything that it made is gone afterwards."""
    pyopnb.registry.clear()
    gc.collect()
    before = _bridge.counters()
    COUNTS.clear()
    made = Epoch(seed, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SessionRebuilt)
        for _ in range(4):
            made.make_graph()
        while COUNTS.total() < calls:
            made.turn()
    made.check_kept()
    graphs = [weakref.ref(graph.session) for graph in made.graphs]
    seen, place = made.seen, made.place
    made.graphs.clear()
    del made
    pyopnb.registry.clear()
    gc.collect()
    assert not any(graph() for graph in graphs), f"{place}: a session is still alive"
    after = _bridge.counters()
    left = {
        key: (before[key], after[key])
        for key in ("kernels", "states", "runs")
        if before[key] != after[key]
    }
    assert not left, f"{place}: {left}"
    return COUNTS.total(), seen


def _resident() -> int:
    return psutil.Process().memory_info().rss


def random_calls(seed: int, count: int, say: Callable[[str], None] | None = None) -> Report:
    """At least ``count`` calls of compute. AssertionError where one lied, or something was left behind."""
    report, started = Report(), time.monotonic()
    number = 0
    while report.calls < count:
        calls, seen = epoch(seed, number, min(EPOCH, count - report.calls))
        number += 1
        report.calls += calls
        report.seen += seen
        report.seconds = time.monotonic() - started
        if number % 10 == 0:
            report.resident.append(_resident())
        if say is not None and number % 50 == 0:
            say(str(report))
    return report


def main(arguments: list[str] | None = None) -> int:
    """Run as a script; 1 where memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--epoch", type=int, help="this epoch alone")
    chosen = parser.parse_args(arguments)
    if chosen.epoch is not None:
        print(epoch(chosen.seed, chosen.epoch))
        return 0
    report = random_calls(chosen.seed, chosen.count, say=lambda line: print(line, flush=True))
    print(report)
    grown = report.resident[-1] - report.resident[0] if report.resident else 0
    if grown > 16e6:
        print(
            f"resident memory grew by {grown / 1e6:.1f} MB after the first {10 * EPOCH:,} calls",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
