"""Definitions, sessions, runs, views and collections in any order, against a model of three lines: name → versions."""

import gc
import os
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from limits import LIMIT

import pyopnb
from pyopnb.errors import SessionRebuilt
from pyopnb.runtime import _bridge

NAMES = ["state::A", "state::B"]
KINDS = ["float32", "float64"]


class Boom(Exception):
    pass


class Machine(RuleBasedStateMachine):
    """Each op adds its number. A session is the chain A, Neg, Neg, A, B, so that its result tells every version that served."""

    def __init__(self):
        super().__init__()
        pyopnb.registry.clear()
        gc.collect()
        self.before = _bridge.counters()
        self.versions = {
            name: [] for name in NAMES
        }  # the model: (number that it adds, dtype), the newest last
        self.sessions = []
        self.instances = []  # weak references to every instance of an op that was ever made
        self.kept = []  # (array or memoryview, the bytes that it must have for ever)
        self.keeping = self.raising = None
        self.added = 0

    # ---- definitions ---------------------------------------------------------------------------------------------------------

    def define(self, name, kind):
        machine = self
        self.added += 1
        added = self.added

        class Op:
            def __init__(self):
                machine.instances.append(weakref.ref(self))

            def compute(self, x):
                if machine.keeping is not None:
                    made = machine.keeping(x)
                    machine.kept.append((made, bytes(np.asarray(made).tobytes())))
                if machine.raising is not None and machine.raising == name:
                    raise Boom(added)
                return (x + added).astype(kind)

        Op.compute.__annotations__["return"] = f"{kind}[N]"
        pyopnb.registry.define(Op, name)
        self.versions[name].append((added, kind))

    @initialize()
    def begin(self):
        for name in NAMES:
            self.define(name, "float32")

    @rule(name=st.sampled_from(NAMES))
    def define_good(self, name):
        self.define(name, self.versions[name][-1][1])

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS))
    def define_with_other_outputs(self, name, kind):
        self.define(name, kind)

    @rule(name=st.sampled_from(NAMES))
    def define_bad(self, name):
        with pytest.raises(pyopnb.PyopError):
            pyopnb.registry.define(type("Op", (), {"compute": None}), name)

    @rule(name=st.sampled_from(NAMES), data=st.data())
    def roll_back(self, name, data):
        number = data.draw(st.integers(1, len(self.versions[name])))
        pyopnb.registry.rollback(name, number)
        self.versions[name].append(self.versions[name][number - 1])

    # ---- sessions ------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.sessions) < 4)
    @rule()
    def make_session(self):
        a, b = NAMES
        nodes = [
            pyopnb.node(a, "x", "p"),
            pyopnb.node("::Neg", "p", "q"),
            pyopnb.node("::Neg", "q", "r"),
            pyopnb.node(a, "r", "s"),
            pyopnb.node(b, "s", "y"),
        ]
        self.sessions.append(pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y")))

    def chosen(self, data):
        # A number is drawn and not a session: hypothesis keeps what it has drawn.
        return self.sessions[data.draw(st.integers(0, len(self.sessions) - 1))]

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def drop_session(self, data):
        self.sessions.remove(self.chosen(data))

    @rule()
    def drop_all(self):
        self.sessions.clear()
        gc.collect()
        assert _bridge.counters()["kernels"] == self.before["kernels"]
        assert _bridge.counters()["states"] == self.before["states"]
        assert not any(instance() for instance in self.instances)
        self.instances.clear()

    # ---- runs ----------------------------------------------------------------------------------------------------------------

    def expected(self, x):
        a, b = (self.versions[name][-1] for name in NAMES)
        return (x + 2 * a[0] + b[0]).astype(b[1])

    def run_once(self, session, x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SessionRebuilt)
            return session(x=x)["y"]

    def check(self, y, x):
        want = self.expected(x)
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(y, want)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), size=st.integers(0, 40))
    def run(self, data, size):
        session = self.chosen(data)
        x = np.arange(size, dtype=np.float32)
        self.check(self.run_once(session, x), x)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def run_that_raises(self, data, name):
        session = self.chosen(data)
        self.raising = name
        try:
            with pytest.raises(Boom, match=rf"^{self.versions[name][-1][0]}\n"):
                self.run_once(session, np.ones(5, np.float32))
        finally:
            self.raising = None

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), threads=st.integers(2, 3))
    def run_on_threads(self, data, threads):
        chosen = [self.chosen(data) for _ in range(threads)]
        ready = threading.Barrier(threads)

        def one(session, number):
            x = np.full(7, number, np.float32)
            ready.wait(LIMIT)
            return [(session(x=x)["y"], x) for _ in range(3)]

        with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
            warnings.simplefilter("ignore", SessionRebuilt)
            for done in [
                pool.submit(one, session, number) for number, session in enumerate(chosen)
            ]:
                for y, x in done.result(LIMIT):
                    self.check(y, x)

    @precondition(lambda self: self.sessions)
    @rule(
        data=st.data(),
        hold=st.sampled_from([lambda x: x, lambda x: x[1:], lambda x: x[::2], memoryview]),
    )
    def keep_a_view(self, data, hold):
        session = self.chosen(data)
        x = np.linspace(0, 1, 9, dtype=np.float32)
        self.keeping, before = hold, len(self.kept)
        try:
            self.check(self.run_once(session, x), x)
        except pyopnb.errors.EscapedInput:
            del self.kept[before:]  # that run said no; nothing is promised of what it kept
        finally:
            self.keeping = None
        x[:] = -1

    @rule()
    def collect(self):
        gc.collect()

    # ---- what always holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def what_was_kept_reads_its_old_values(self):
        for made, values in self.kept:
            assert (bytes(made) if isinstance(made, memoryview) else made.tobytes()) == values

    @invariant()
    def counters_say_what_is_alive(self):
        counters = _bridge.counters()
        assert counters["runs"] == 0
        assert counters["kernels"] - self.before["kernels"] == 3 * len(self.sessions)
        # One instance a node; and where a run raised before it came to a node, that node's of the version before.
        states = counters["states"] - self.before["states"]
        assert 3 * len(self.sessions) <= states <= 2 * 3 * len(self.sessions)

    def teardown(self):
        self.kept.clear()
        self.drop_all()


def test_any_order_of_things_keeps_the_promises():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=int(os.environ.get("PYOPNB_STATEFUL_EXAMPLES", "40")),
            stateful_step_count=30,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[
                Phase.generate
            ],  # a shorter example would cost minutes, and the steps are printed as they are
        ),
    )
