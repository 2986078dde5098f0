"""Many batches through a session, by threads and processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import remote_work

import pyopnb
from pyopnb.ops.definitions import class_source
from pyopnb.runtime import chunks


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def session():
    pyopnb.registry.define(remote_work.Checked, "travel::Checked", source=class_source(remote_work.Checked))
    yield pyopnb.Session(remote_work.session_model("travel::Checked"))
    pyopnb.registry.clear()


@pytest.fixture(params=["here", "threads", "processes"])
def executor(request):
    return (
        None if request.param == "here" else request.getfixturevalue("threads" if request.param == "threads" else "processes")
    )


def numbers(count):
    return (np.float32([n]) for n in range(count))


def test_every_result_in_the_order_of_the_batches(session, executor):
    results = pyopnb.map(session, numbers(500), executor)
    np.testing.assert_array_equal(results.array("y")[:, 0], np.arange(500) * 2)
    assert len(results) == 500 and results.missing == [] and [run.number for run in results.runs] == list(range(500))
    assert all(run.seconds > 0 for run in results.runs)


def test_a_dict_a_tuple_or_an_array_feeds_a_run(session):
    x = np.float32([3])
    assert [r["y"].item() for r in pyopnb.map(session, [x, (x,), {"x": x}])] == [6, 6, 6]


def test_a_generator_is_read_as_far_as_the_workers_need_it(session, threads):
    read, done, most = 0, [0], 0

    def counted():
        nonlocal read, most
        for n in range(300):
            read += 1
            most = max(most, read - done[0])
            yield np.float32([n])

    class Counting:
        def submit(self, function, *arguments):
            future = threads.submit(function, *arguments)
            future.add_done_callback(lambda _: done.__setitem__(0, done[0] + len(arguments[-1].items)))
            return future

    slow = pyopnb.Session(remote_work.session_model("travel::Checked"))
    module_size = chunks._MOST_IN_CHUNK
    try:
        chunks._MOST_IN_CHUNK = 1
        assert len(pyopnb.map(slow, counted(), Counting(), in_flight=4)) == 300
    finally:
        chunks._MOST_IN_CHUNK = module_size
    assert most <= 6


def test_an_exception_arrives_as_itself_and_the_others_results_are_kept(session, executor):
    with pytest.raises(remote_work.BelowZero, match="below zero") as raised:
        pyopnb.map(session, [np.float32([n]) for n in (1, 2, -1)], executor, in_flight=1)
    error = raised.value
    assert "in batch 2" in error.__notes__ and "travel::Checked" in error.__notes__[0]
    assert [run.result["y"].item() for run in error.batches.runs if run.result] == [2, 4]
    assert error.batches.missing == [2]


def test_keep_runs_all_of_them(session, executor):
    results = pyopnb.map(session, [np.float32([n]) for n in (1, -1, 2)], executor, errors="keep")
    assert results.missing == [1] and list(results.errors) == [1]
    assert results[0]["y"].item() == 2 and results[2]["y"].item() == 4
    with pytest.raises(remote_work.BelowZero):
        results[1]
    assert "below zero" in repr(results) and "without a result: 1 of 3" in repr(results)


def test_a_batch_that_does_not_fit(session, executor):
    with pytest.raises(pyopnb.FeedError, match=r"feed x: expected float32\[N\], got float64\[1\]") as raised:
        pyopnb.map(session, [np.float32([1]), np.float64([1])], executor)
    assert "in batch 1" in raised.value.__notes__


def test_the_versions_at_the_beginning_serve_all_batches(executor, shell, define):
    text = "%%pyop -q -d travel\nimport numpy as np\nclass Factor:\n    def __init__(self, by: float = 1.0):\n        self.by = by\n    def compute(self, x):\n        return x * np.float32({} * self.by)"
    define(text.format(2))
    session = pyopnb.Session(remote_work.session_model("travel::Factor"))

    def batches():
        for n in range(400):
            if n == 200:
                define(text.format(3))
                session.set_attrs(by=10.0)
                session(np.float32([1]))
            yield np.float32([1])

    assert set(pyopnb.map(session, batches(), executor, in_flight=2).array("y")[:, 0]) == {2}
    assert set(pyopnb.map(session, [np.float32([1])] * 3, executor).array("y")[:, 0]) == {30}


def test_the_session_goes_to_a_worker_once(processes):
    weight = np.random.default_rng(0).random(100_000, np.float32)
    model = pyopnb.model(pyopnb.node("Add", "x w", "y"), {"x": "float32[100000]"}, "y", initializers={"w": weight})
    sizes = []

    class Counting:
        def submit(self, function, kind, digest, session, chunk):
            sizes.append(len(session or b""))
            return processes.submit(function, kind, digest, session, chunk)

    session = pyopnb.Session(model)
    for _ in range(2):
        results = pyopnb.map(session, [weight] * 20, Counting(), in_flight=1)
        np.testing.assert_array_equal(results[19]["y"], weight * 2)
    assert sum(size > 0 for size in sizes) == 1


def test_a_worker_that_is_killed_is_said_and_the_results_before_are_kept(session):
    vars(sys.modules["__main__"]).setdefault("__spec__", None)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pyopnb.map(session, numbers(3), pool)
        with pytest.raises(BrokenExecutor) as raised:
            pyopnb.map(
                session,
                remote_work.numbers_and_then(5, lambda: os.kill(next(iter(pool._processes)), signal.SIGKILL)),
                pool,
                in_flight=1,
            )
    error = raised.value
    assert any("a worker ended while it had batches" in note for note in error.__notes__)
    assert len(error.batches.runs) >= 1 and error.batches.missing


def test_an_interrupt_keeps_what_is_done_and_cancels_the_rest(session, threads):
    class Interrupting:
        futures = []

        def submit(self, function, *arguments):
            if len(self.futures) == 4:
                raise KeyboardInterrupt
            future = threads.submit(function, *arguments)
            self.futures.append(future)
            future.result()
            return future

    results = pyopnb.map(session, numbers(100), Interrupting(), in_flight=2)
    assert 0 < len(results.runs) < 100


def test_an_op_that_cannot_be_sent_is_named(processes, run, shell):
    assert run("import threading").ok
    assert run(
        "%%pyop -q -d travel\nclass Kept:\n    def __init__(self):\n        self.lock = threading.Lock()\n    def compute(self, x):\n        return x"
    ).ok
    with pytest.raises(pyopnb.DefinitionError, match=r"self\.lock: expected state that can be pickled"):
        pyopnb.map(pyopnb.Session(remote_work.session_model("travel::Kept")), numbers(3), processes)


def test_a_worker_with_another_onnxruntime_is_named(session, processes, monkeypatch):
    monkeypatch.setattr(chunks.onnxruntime, "__version__", "1.0.0")
    with pytest.warns(UserWarning, match=r"has onnxruntime .*, and this process 1\.0\.0"):
        pyopnb.map(session, numbers(3), processes)


def test_what_the_engine_loses_once_is_run_again(session, processes):
    class Losing:
        """As Dask, whose future of a result that came just before its worker was killed fails."""

        count = 0

        def submit(self, *arguments):
            self.count += 1
            if self.count % 5 or arguments[-1].is_again:
                return processes.submit(*arguments)
            future = Future()
            future.set_exception(TypeError("cannot unpack non-iterable _Reply object"))
            return future

    results = pyopnb.map(session, numbers(300), Losing())
    np.testing.assert_array_equal(results.array("y")[:, 0], np.arange(300) * 2)
    assert [run.number for run in results.runs] == list(range(300))


def test_what_a_profiler_of_the_worker_holds_is_an_error_as_here(processes):
    pyopnb.registry.define(remote_work.Held, "travel::Held", source=class_source(remote_work.Held))
    session = pyopnb.Session(remote_work.session_model("travel::Held"))
    for executor in (None, processes):
        results = pyopnb.map(session, numbers(20), executor, in_flight=1, errors="keep")
        assert {number: type(error) for number, error in results.errors.items()} == {5: pyopnb.EscapedInput}
    pyopnb.registry.clear()


def test_a_worker_without_pyopnb_is_told_what_it_needs(session):
    class Lacking:
        def submit(self, *arguments):
            future = Future()
            future.set_exception(ModuleNotFoundError("No module named 'pyopnb'"))
            return future

    with pytest.raises(ModuleNotFoundError) as raised:
        pyopnb.map(session, numbers(3), Lacking())
    assert raised.value.__notes__[0] == "in a worker, before batch 0 began; it needs pyopnb, as here, and what the ops import"


@pytest.mark.parametrize("wrong", [{"executor": 3}, {"errors": "ignore"}])
def test_wrong_arguments(session, wrong):
    with pytest.raises(pyopnb.ArgumentError):
        pyopnb.map(session, [], **wrong)


def test_a_table(session):
    pandas = pytest.importorskip("pandas")
    results = pyopnb.map(session, numbers(30))
    assert repr(results).splitlines()[0].split() == ["batch", "y", "ms", "worker"] and "and 10 more" in repr(results)
    table = results.to_pandas()
    assert isinstance(table, pandas.DataFrame) and table["y"].tolist() == [2.0 * n for n in range(30)]
    assert len(pickle.loads(pickle.dumps(results))) == 30


def test_it_is_shown_with_a_plot(session):
    results = pyopnb.map(session, [np.float32([n]) for n in (*range(600), -1)], errors="keep")
    page = results._repr_html_()
    assert "<table" in page and "data:image/svg+xml" in page and "without a result: 1 of 601" in page
    assert len(page) < 60_000
    assert "<table" in pyopnb.map(session, [])._repr_html_() or "no batches" in pyopnb.map(session, [])._repr_html_()
    with pytest.raises(pyopnb.FeedError, match="an output of the model"):
        pyopnb.show(results, output="z")
