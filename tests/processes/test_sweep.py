"""Sweeps by threads and processes."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import remote_work

import pyopnb
from pyopnb.ops.definitions import class_source
from pyopnb.runtime import chunks

X = np.float32([1, 2, 3])


@pytest.fixture(params=["threads", "processes"])
def executor(request):
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def session():
    pyopnb.registry.define(remote_work.Limited, "travel::Limited", source=class_source(remote_work.Limited))
    yield pyopnb.Session(remote_work.session_model("travel::Limited"))
    pyopnb.registry.clear()


def test_it_is_what_one_thread_gives(session, executor):
    axes = {"limit": np.linspace(0.5, 3, 40), "power": [1, 2]}
    here, there = pyopnb.sweep(session, X, **axes), pyopnb.sweep(session, X, executor=executor, **axes)
    np.testing.assert_array_equal(there.array(), here.array())
    assert there.axes == here.axes and [run.values for run in there] == [run.values for run in here]
    assert there.is_complete and there.missing == [] and all(run.seconds > 0 for run in there)
    assert session.changed_attrs == {}


def test_feeds_are_varied(session, executor):
    found = pyopnb.sweep(session, x=[X * k for k in range(5)], limit=[1.0, 10.0], executor=executor)
    expected = [[np.minimum(X * k, limit) for limit in (1, 10)] for k in range(5)]
    np.testing.assert_array_equal(found.array("y"), np.float32(expected))


def test_errors_are_part_of_it(session, executor):
    found = pyopnb.sweep(session, X, limit=[-1.0, 1.0, "a"], executor=executor)
    assert [type(run.error) for run in found] == [remote_work.BelowZero, type(None), pyopnb.ModelError]
    assert found.missing == [0, 2] and "in run 0" in found[0].error.__notes__
    with pytest.raises(remote_work.BelowZero):
        pyopnb.sweep(session, X, limit=[-1.0, -2.0], executor=executor)


def test_the_versions_at_the_beginning_serve_all_runs(executor, shell, define):
    text = "%%pyop -q -d travel\nimport numpy as np\nclass Factor:\n    def __init__(self, by: float = 1.0):\n        self.by = by\n    def compute(self, x):\n        return x * np.float32({} * self.by)"
    define(text.format(2))
    session = pyopnb.Session(remote_work.session_model("travel::Factor"))

    class Redefining:
        count = 0

        def submit(self, *arguments, **named):
            self.count += 1
            if self.count == 3:
                define(text.format(3))
                session.set_attrs(by=7.0)
            return executor.submit(*arguments, **named)

    if isinstance(executor, ThreadPoolExecutor):  # by the session itself, and not by its pickle
        engine = type("Threads", (Redefining, ThreadPoolExecutor), {"submit": Redefining.submit})
        engine = Redefining.__new__(engine)
        ThreadPoolExecutor.__init__(engine, 1)
    else:
        engine = Redefining()
    by = np.arange(1, 301, dtype=np.float64)
    found = pyopnb.sweep(session, np.float32([1]), by=by, executor=engine)
    np.testing.assert_array_equal(found.array("y")[:, 0], by.astype(np.float32) * 2)
    assert pyopnb.sweep(session, np.float32([1]), by=[1.0, 2.0], executor=executor).array("y").tolist() == [[3], [6]]


def test_a_session_whose_outputs_change_with_the_attr(executor, shell, define):
    define(
        "%%pyop -q -d travel\nimport numpy as np\nclass Repeat:\n    def __init__(self, times: int = 1):\n        self.times = times\n"
        "    def infer(self, x):\n        return f'float32[{2 * self.times}]'\n    def compute(self, x):\n        return np.tile(x, self.times)"
    )
    model = pyopnb.model([pyopnb.node("travel::Repeat", "x", "r"), pyopnb.node("Neg", "r", "y")], {"x": "float32[2]"}, "y")
    session = pyopnb.Session(model)
    with pytest.warns(pyopnb.SessionRebuilt) if isinstance(executor, ThreadPoolExecutor) else nullcontext():
        found = pyopnb.sweep(session, np.float32([1, 2]), times=[1, 2, 3], executor=executor)
    assert [run.result["y"].size for run in found] == [2, 4, 6]


def test_a_lost_worker_is_said_and_what_was_run_is_kept(session):
    with ThreadPoolExecutor(1) as pool:

        class Breaking:
            count = 0

            def submit(self, *arguments, **named):
                self.count += 1
                if self.count < 3:
                    return pool.submit(*arguments, **named)
                future = Future()
                future.set_exception(BrokenExecutor("a process was terminated"))
                return future

        with pytest.raises(BrokenExecutor) as raised:
            pyopnb.sweep(session, X, limit=np.linspace(1, 2, 50), executor=Breaking())
    assert any("a worker ended while it had runs" in note for note in raised.value.__notes__)
    kept = raised.value.sweep
    assert len(kept.missing) == 50 - len(kept) and "interrupted after" in repr(kept) and "<" in kept._repr_html_()


def test_what_an_interrupt_leaves_has_its_own_labels(session, monkeypatch):
    monkeypatch.setattr(chunks, "_LAST_SECONDS", 0.05)
    with ThreadPoolExecutor(2) as pool:

        class Interrupting:
            held = []

            def submit(self, *arguments, **named):
                if len(self.held) == 3:
                    raise KeyboardInterrupt
                if not self.held:  # the first is not done yet
                    self.held.append(Future())
                    return self.held[0]
                self.held.append(pool.submit(*arguments, **named))
                self.held[-1].result()
                return self.held[-1]

        found = pyopnb.sweep(session, X, limit=[1.0, 2.0, 3.0, 4.0, 5.0], executor=Interrupting())
    assert found.missing[0] == 0 and found.labels(found[0]) == {"limit": "2"} and not found.is_complete


def test_no_executor(session):
    with pytest.raises(pyopnb.ArgumentError, match=r"sweep, executor: expected one with submit, got int"):
        pyopnb.sweep(session, X, limit=[1.0, 2.0], executor=2)
