"""Sweeps by threads and processes."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import remote_work

import pyopnb
from pyopnb.engine.ops.class_texts import class_source

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
    pyopnb.registry.define(
        remote_work.Limited, "travel::Limited", source=class_source(remote_work.Limited)
    )
    yield pyopnb.Session(remote_work.session_model("travel::Limited"))
    pyopnb.registry.clear()


def test_it_is_what_one_thread_gives(session, executor):
    axes = {"limit": np.linspace(0.5, 3, 40), "power": [1, 2]}
    here, there = (
        pyopnb.sweep(session, X, **axes),
        pyopnb.sweep(session, X, executor=executor, **axes),
    )
    np.testing.assert_array_equal(there.array(), here.array())
    assert there.axes == here.axes and [run.values for run in there] == [run.values for run in here]
    assert there.is_complete and there.unfinished == [] and all(run.seconds > 0 for run in there)
    assert session.changed_attrs == {}


def test_feeds_are_varied(session, executor):
    found = pyopnb.sweep(session, x=[X * k for k in range(5)], limit=[1.0, 10.0], executor=executor)
    expected = [[np.minimum(X * k, limit) for limit in (1, 10)] for k in range(5)]
    np.testing.assert_array_equal(found.array("y"), np.float32(expected))


def test_errors_are_part_of_it(session, executor):
    found = pyopnb.sweep(session, X, limit=[-1.0, 1.0, "a"], executor=executor)
    assert [type(run.error) for run in found] == [
        remote_work.BelowZero,
        type(None),
        pyopnb.errors.ModelError,
    ]
    assert found.unfinished == [0, 2] and "in run 0" in found[0].error.__notes__
    with pytest.raises(remote_work.BelowZero):
        pyopnb.sweep(session, X, limit=[-1.0, -2.0], executor=executor)


def test_a_session_whose_outputs_change_with_the_attr(executor, shell, define):
    define(
        "%%pyop -q -d travel\nimport numpy as np\nclass Repeat:\n    def __init__(self, times: int = 1):\n        self.times = times\n"
        "    def infer(self, x):\n        return f'float32[{2 * self.times}]'\n    def compute(self, x):\n        return np.tile(x, self.times)"
    )
    model = pyopnb.model(
        [pyopnb.node("travel::Repeat", "x", "r"), pyopnb.node("Neg", "r", "y")],
        {"x": "float32[2]"},
        "y",
    )
    session = pyopnb.Session(model)
    with (
        pytest.warns(pyopnb.errors.SessionRebuilt)
        if isinstance(executor, ThreadPoolExecutor)
        else nullcontext()
    ):
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
    assert any("which had runs" in note for note in raised.value.__notes__)
    kept = raised.value.sweep
    assert (
        len(kept.unfinished) == 50 - len(kept)
        and "interrupted after" in repr(kept)
        and "<" in kept._repr_html_()
    )
