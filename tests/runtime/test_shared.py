"""Sessions with attrs of their own that run in the ONNX Runtime session of another."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import small_ops

import pyopnb
from pyopnb.engine.runtime import _bridge

X = np.float32([1, 2])


def define(body="x * np.float32(self.by)"):
    source = f"class Scale:\n    def __init__(self, by: float = 2.0):\n        self.by, self.calls = by, 0\n    def compute(self, x):\n        self.calls += 1\n        return {body}"
    space = {"np": np}
    exec(source, space)
    return pyopnb.registry.define(space["Scale"], "shared::Scale")


@pytest.fixture
def session():
    define()
    nodes = [
        pyopnb.node("shared::Scale", "x", "a", name="first"),
        pyopnb.node("shared::Scale", "a", "y", name="last", by=1.0),
    ]
    return pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y"))


def run(session):
    return session(x=X)["y"].tolist()


def test_neither_changes_the_other_and_nothing_is_built(session):
    other = session.with_attrs("first", by=10.0)
    assert other._sess is session._sess
    for _ in range(3):
        assert (run(session), run(other)) == ([2, 4], [10, 20])
    session.set_attrs("last", by=3.0)
    assert (run(session), run(other)) == ([6, 12], [10, 20])
    other.set_attrs(by=5.0)
    assert (run(session), run(other)) == ([6, 12], [25, 50])
    assert session.attrs == {"first": {"by": 2.0}, "last": {"by": 3.0}}
    assert other.attrs == {"first": {"by": 5.0}, "last": {"by": 5.0}}
    third = other.with_attrs("last", by=0.0)
    assert (run(third), run(other), run(session)) == ([0, 0], [25, 50], [6, 12])
    assert third.trace(x=X)["a"].tolist() == [5, 10]


def test_the_attrs_that_are_not_the_models(session):
    other = session.with_attrs("last", by=4.0)
    assert (session.changed_attrs, other.changed_attrs) == ({}, {"last": {"by": 4.0}})
    other.set_attrs("last", by=1.0)
    assert other.changed_attrs == {}
    session.set_attrs(by=7.0)
    assert session.changed_attrs == {"first": {"by": 7.0}, "last": {"by": 7.0}}
    assert session.with_attrs().changed_attrs == session.changed_attrs


def test_a_redefinition_serves_both(session):
    other = session.with_attrs("first", by=10.0)
    assert (run(session), run(other)) == ([2, 4], [10, 20])
    define("x + np.float32(self.by)")
    assert (run(other), run(session)) == ([12, 13], [4, 5])
    other.set_attrs("first", by=0.0)
    assert (run(other), run(session)) == ([2, 3], [4, 5])


def test_state_is_not_shared(session):
    define("x * np.float32(self.calls)")
    other = session.with_attrs()
    assert [run(session)[0] for _ in range(3)] == [1, 4, 9]
    assert [run(other)[0] for _ in range(2)] == [1, 4]
    other.set_attrs("last", by=3.0)  # the instance of the other node stays
    assert run(other)[0] == 3


def test_where_outputs_change_each_gets_what_it_needs():
    small_ops.define(small_ops.Repeat)
    model = pyopnb.model(
        [pyopnb.node("demo::Repeat", "x", "y")], {"x": "float32[N]"}, {"y": "float32[?,N]"}
    )
    session = pyopnb.Session(model)
    other = session.with_attrs()
    with pytest.warns(pyopnb.errors.SessionRebuilt, match="times changed outputs"):
        other.set_attrs(times=3)
    assert (other(x=X)["y"].shape, session(x=X)["y"].shape) == ((3, 2), (2, 2))
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        session.set_attrs(times=4)
    assert (other(x=X)["y"].shape, session(x=X)["y"].shape) == ((3, 2), (4, 2))
    assert other.changed_attrs == {"y": {"times": 3}}


def test_when_the_other_is_rebuilt_it_follows(session):
    other = session.with_attrs("first", by=10.0)
    session.set_providers(["CPUExecutionProvider"])
    assert (run(session), run(other)) == ([2, 4], [10, 20])
    assert other._sess is session._sess


def test_many_steps_and_many_sessions_leave_nothing_behind(session):
    run(session)
    kernels = list(session.state.kernels)
    other = session.with_attrs()
    for step in range(200):
        other.set_attrs(by=float(step))
        run(other)
    assert all(len(kernel._states) <= 4 and len(kernel.settings.private) <= 2 for kernel in kernels)
    reference = weakref.ref(other)
    del other
    gc.collect()
    assert reference() is None
    session.set_attrs(by=1.0)
    run(session)
    run(session)
    assert all(not kernel.settings.private and len(kernel._states) <= 2 for kernel in kernels)


def test_threads(session):
    others = [session.with_attrs("first", by=float(number)) for number in range(1, 5)]
    wrong = []

    def repeat(one, number):
        for step in range(200):
            if run(one) != [number, 2 * number]:
                wrong.append((number, step))

    threads = [
        threading.Thread(target=repeat, args=(one, number)) for number, one in enumerate(others, 1)
    ]
    for thread in threads:
        thread.start()
    for _ in range(20):
        define()
        session.set_attrs("first", by=2.0)
        assert run(session) == [2, 4]
    for thread in threads:
        thread.join()
    assert not wrong
    assert _bridge.runs_in_flight() == 0


def test_traces_and_pictures_have_the_attrs_that_serve(session):
    other = session.with_attrs("last", by=4.0)
    other.set_attrs("first", by=3)
    before, after = session.trace(x=X), other.trace(x=X)
    assert [node.attribute[0].f for node in after.model.graph.node] == [3, 4]
    assert [node.attribute[:] for node in before.model.graph.node[:1]] == [[]]
    steps = {step.name: (step.changes, step.isolated) for step in pyopnb.diff(before, after).steps}
    name = "{} (shared::Scale)".format
    assert steps == {
        name("first"): (("attr by: 2.0 → 3.0",), 2.0),
        name("last"): (("attr by: 1.0 → 4.0",), 12.0),
    }
    assert "by=3" in str(pyopnb.show(other)) and "by=3" not in str(pyopnb.show(session))


def test_the_attrs_in_functions_and_bodies_are_written_too():
    define()
    model = pyopnb.parse("""
        <opset_import: ["" : 20, "shared" : 1, "own" : 1]>
        g (float[N] x, bool c) => (float[N] y) {
            a = own.Two(x)
            y = If(c) <then_branch = t () => (float[N] b) { b = shared.Scale<by = 1.0>(a) },
                       else_branch = e () => (float[N] d) { d = Neg(a) }>
        }
        <domain: "own", opset_import: ["" : 20, "shared" : 1]>
        Two (x) => (y) { h = shared.Scale<by = 2.0>(x)  y = Abs(h) }
    """)
    session = pyopnb.Session(model)
    session.set_attrs(by=5.0)
    trace = session.trace(x=X, c=np.array(True))
    assert trace["y"].tolist() == [25, 50]
    assert "by=5" in str(pyopnb.show(session)) and str(trace.model).count("f: 5") == 2


class SetsAttrs:
    """A feed whose conversion sets attrs, as another thread may just before a run begins."""

    def __init__(self, session, times):
        self.session, self.times = session, times

    def __array__(self, dtype=None, copy=None):
        for step in range(self.times):
            self.session.set_attrs("first", by=100.0 + step)
        return X


@pytest.mark.parametrize("times", [1, 2, 3, 10])
def test_a_run_that_is_about_to_begin_keeps_the_attrs_of_its_session(session, times):
    other = session.with_attrs("first", by=10.0)
    assert other(x=SetsAttrs(other, times))["y"].tolist() == [10, 20]
    assert run(other)[0] == 99 + times
    other = session.with_attrs("first", by=10.0)
    assert other(x=SetsAttrs(session, times))["y"].tolist() == [10, 20]
    assert run(session)[0] == 99 + times


def test_a_run_keeps_its_attrs_while_ops_are_redefined(session):
    other = session.with_attrs("first", by=10.0)

    class Redefines:
        def __array__(self, dtype=None, copy=None):
            for _ in range(3):
                define()
                run(other)
            return X

    assert other(x=Redefines())["y"].tolist() == [10, 20]
