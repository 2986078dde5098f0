"""Many batches through a session, by threads and processes."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import platform
import re
import shlex
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import NamedTuple

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
        def submit(self, function, *arguments, **named):
            future = threads.submit(function, *arguments, **named)
            future.add_done_callback(lambda future: done.__setitem__(0, done[0] + len(future.result().outcomes)))
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
        def submit(self, function, text, call):
            sizes.append(sum(map(len, call["buffers"])))
            return processes.submit(function, text, call)

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


def ending(count, error):
    yield from numbers(count)
    raise error


def test_what_the_generator_raises_comes_after_the_batches_before_it(session, executor):
    with pytest.raises(LookupError, match="no file 50") as raised:
        pyopnb.map(session, ending(50, LookupError("no file 50")), executor)
    batches = raised.value.batches
    assert [run.result["y"].item() for run in batches.runs] == [2 * n for n in range(50)]
    assert batches.total == 50 and batches.missing == []


def test_the_exception_of_a_batch_goes_before_that_of_the_generator(session, executor):
    def failing():
        yield np.float32([-1])
        yield from ending(3, LookupError("no file 4"))

    with pytest.raises(remote_work.BelowZero):
        pyopnb.map(session, failing(), executor)
    with pytest.raises(LookupError) as raised:
        pyopnb.map(session, failing(), executor, errors="keep")
    assert raised.value.batches.missing == [0] and len(raised.value.batches.runs) == 4


def test_an_interrupt_keeps_what_is_with_the_executor(session, executor, monkeypatch):
    monkeypatch.setattr(chunks, "_MOST_IN_CHUNK", 1)
    monkeypatch.setattr(chunks, "_LAST_SECONDS", 60)
    results = pyopnb.map(session, ending(30, KeyboardInterrupt()), executor, in_flight=4)
    assert [run.result["y"].item() for run in results.runs] == [2 * n for n in range(30)]


def test_an_interrupt_cancels_what_takes_long(define, shell, monkeypatch):
    monkeypatch.setattr(chunks, "_LAST_SECONDS", 0.05)
    gate, given = threading.Event(), []
    define(
        "%%pyop -q -d travel\nclass Gated:\n    def compute(self, x):\n        return x if x[0] == 0 or gate.wait(60) else x"
    )
    shell.push({"gate": gate})

    class Given(ThreadPoolExecutor):
        def submit(self, *arguments, **named):
            given.append(super().submit(*arguments, **named))
            if len(given) == 5:
                given[0].result()
                raise KeyboardInterrupt
            return given[-1]

    with Given(1) as pool:
        results = pyopnb.map(pyopnb.Session(remote_work.session_model("travel::Gated")), numbers(100), pool)
        is_cancelled = [future.cancelled() for future in given[:4]]
        gate.set()
    assert [run.number for run in results.runs] == [0] and is_cancelled == [False, False, True, True]


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


class RemoteError(Exception):
    """As ipyparallel's, which carries the name of what was raised."""

    ename = "EngineError"


RemoteError.__module__ = "ipyparallel.error"


def of_dask(reply):
    """The error that Dask makes of a result which it fetched as its worker ended."""
    there = {"__name__": "distributed.cfexecutor"}
    exec("def cascade(result):\n    typ, exc, tb = result", there)
    try:
        there["cascade"](reply)
    except TypeError as error:
        return error


class Reading(pickle.Unpickler):
    """It reads what a call was given, and does not make it."""

    def find_class(self, module, name):
        return (lambda *arguments: arguments) if name == "_run_sent" else super().find_class(module, name)


class Losing:
    """An engine that fails with every fifth chunk once, or every time."""

    def __init__(self, pool, error, *, always=False):
        self.pool, self.error, self.always, self.count, self.lost = pool, error, always, 0, set()

    def submit(self, function, text, call):
        self.count += 1
        first = Reading(io.BytesIO(call["data"]), buffers=call["buffers"]).load()[3]
        if not self.always and (self.count % 5 or first in self.lost):
            return self.pool.submit(function, text, call)
        self.lost.add(first)
        future = Future()
        future.set_exception(self.error())
        return future


@pytest.mark.parametrize(
    "error", [lambda: of_dask(object()), lambda: RemoteError("Engine '1' died")], ids=["dask", "ipyparallel"]
)
def test_what_the_engine_loses_once_is_run_again_and_said(session, processes, error):
    with pytest.warns(UserWarning, match=r"a worker ended with batch \d+, which is sent to another one") as said:
        results = pyopnb.map(session, numbers(300), Losing(processes, error))
    assert len(said) == 1
    np.testing.assert_array_equal(results.array("y")[:, 0], np.arange(300) * 2)
    assert [run.number for run in results.runs] == list(range(300))
    with (
        pytest.warns(UserWarning, match="a worker ended with"),
        pytest.raises((TypeError, RemoteError)) as raised,
    ):
        pyopnb.map(session, numbers(1), Losing(processes, error, always=True))
    assert raised.value.__notes__[0].startswith("each worker that had batches 0 to 0 ended")


class Mixed:
    """An engine with workers without pyopnb, which answer at once and so have two of three chunks; or with no others."""

    def __init__(self, pool, data=b"cpyopnb.absent\nChunk\n.", *, has_others=True):
        self.pool, self.data, self.has_others, self.count = pool, data, has_others, 0

    def submit(self, function, text, call):
        self.count += 1
        if self.has_others and self.count % 3 == 0:
            return self.pool.submit(function, text, call)
        future = Future()
        future.set_result(function(text, call | {"data": self.data}))
        return future


LACKING = re.escape(
    f"workers that have {chunks._requirement()}, got process {os.getpid()} of {platform.node()}, which says: "
    f"No module named 'pyopnb.absent'. Try: {shlex.quote(sys.executable)} -m pip install \"{chunks._requirement()}\""
)


def test_what_other_workers_gave_is_kept_where_one_has_no_pyopnb(session, processes):
    with pytest.raises(pyopnb.ArgumentError, match="map, executor: expected " + LACKING) as raised:
        pyopnb.map(session, numbers(1000), Mixed(processes), in_flight=8)
    batches = raised.value.batches
    assert [run.result["y"].item() for run in batches.runs] == [2 * n for n in range(8)] and batches.total == 8
    with pytest.raises(pyopnb.ArgumentError, match="sweep, executor: expected " + LACKING) as raised:
        pyopnb.sweep(session, x=[np.float32([n]) for n in range(500)], executor=Mixed(processes))
    assert len(raised.value.sweep) == 32 and raised.value.sweep[31].result["y"].item() == 62


def test_where_no_worker_has_pyopnb_it_is_an_error_soon(session, processes):
    engine = Mixed(processes, has_others=False)
    with pytest.raises(pyopnb.ArgumentError, match=LACKING) as raised:
        pyopnb.map(session, numbers(1000), engine, in_flight=8)
    assert raised.value.batches.missing == list(range(8)) and engine.count < 30


def test_an_older_pyopnb_is_none():
    data = {"data": b"cpyopnb.runtime.chunks\n_run_anew\n.", "buffers": ()}
    assert "Can't get attribute '_run_anew' on <module 'pyopnb.runtime" in eval(chunks._LOADS, data)["text"]
    with pytest.raises(ModuleNotFoundError, match="pyopnb_other"):
        eval(chunks._LOADS, {"data": b"cpyopnb_other\nx\n.", "buffers": ()})


def test_an_exception_of_a_batch_goes_before_a_worker_without_pyopnb(session, processes):
    with pytest.raises(remote_work.BelowZero):
        pyopnb.map(session, [np.float32([-1])] * 30, Mixed(processes))


@pytest.mark.parametrize("error", [TypeError("cannot unpack"), OSError("no route"), CancelledError()])
def test_another_error_of_the_engine_is_not_tried_again(session, processes, error):
    engine = Losing(processes, lambda: error, always=True)
    with pytest.raises(type(error)) as raised:
        pyopnb.map(session, numbers(1), engine)
    assert engine.count == 1
    expected = (
        "batch 0 was cancelled by its engine" if isinstance(error, CancelledError) else "in a worker, before batch 0 began"
    )
    assert raised.value.__notes__[0].startswith(expected)


def test_a_session_that_a_worker_cannot_open_is_told_once(session, monkeypatch):
    class Refusing:
        """A worker that has another version of an op's module."""

        def submit(self, function, text, call):
            future = Future()
            with monkeypatch.context() as there:
                there.setattr(chunks.onnxruntime, "__version__", "1.0.0")
                future.set_result(function(text, call | {"buffers": [pickle.dumps(Unopened())]}))
            return future

    with pytest.raises(LookupError, match="not here") as raised:
        pyopnb.map(session, numbers(3), Refusing())
    assert "in a worker, before batch 0 began" in raised.value.__notes__
    assert any(note.startswith("that worker has onnxruntime 1.0.0, and this process") for note in raised.value.__notes__)


class Unopened:
    def __reduce__(self):
        return refuse, ()


def refuse():
    raise LookupError("not here")


def test_what_a_profiler_of_the_worker_holds_is_an_error_as_here(processes):
    pyopnb.registry.define(remote_work.Held, "travel::Held", source=class_source(remote_work.Held))
    session = pyopnb.Session(remote_work.session_model("travel::Held"))
    for executor in (None, processes):
        results = pyopnb.map(session, numbers(20), executor, in_flight=1, errors="keep")
        assert {number: type(error) for number, error in results.errors.items()} == {5: pyopnb.EscapedInput}
    pyopnb.registry.clear()


def test_a_module_that_a_batch_lacks_is_not_taken_for_pyopnb(session):
    class Lacking:
        def submit(self, *arguments, **named):
            future = Future()
            future.set_exception(AttributeError("Can't get attribute 'X' on <module 'mine' from '/home/me/pyopnb/mine.py'>"))
            return future

    with pytest.raises(AttributeError) as raised:
        pyopnb.map(session, numbers(3), Lacking())
    note = "in a worker, before batch 0 began; it needs what the ops and the batches import"
    assert raised.value.__notes__[0] == note


def test_what_goes_to_an_engine_needs_no_pyopnb_to_be_read(session, processes):
    """A worker reads messages outside of tasks, where Dask's hang and the standard library's end for want of a module."""
    sent = []

    class Looking:
        def submit(self, *arguments, **named):
            sent.append(pickle.dumps((arguments, named)))
            return processes.submit(*arguments, **named)

    assert len(pyopnb.map(session, numbers(40), Looking())) == 40
    code = "import pickle, sys; sys.modules['pyopnb'] = None; [pickle.loads(one) for one in pickle.load(sys.stdin.buffer)]"
    subprocess.run([sys.executable, "-I", "-c", code], input=pickle.dumps(sent), check=True)


@pytest.mark.parametrize("place", ["__main__", "a function"])
def test_a_class_of_the_notebook_is_a_batch(session, processes, monkeypatch, place):
    class Feeds(NamedTuple):
        x: np.ndarray

    if place == "__main__":
        Feeds.__module__, Feeds.__qualname__ = "__main__", "Feeds"
        monkeypatch.setattr(sys.modules["__main__"], "Feeds", Feeds, raising=False)
    results = pyopnb.map(session, map(Feeds, numbers(3)), processes)
    np.testing.assert_array_equal(results.array("y")[:, 0], [0, 2, 4])
    monkeypatch.setattr(chunks, "find_spec", lambda name: None)
    with pytest.raises((AttributeError, pyopnb.ArgumentError), match="Can't get|pickle"):
        pyopnb.map(session, map(Feeds, numbers(3)), processes)


def test_no_call_is_equal_to_another(session, processes):
    """Dask would give the second the result of the first, whatever state the op has."""
    sent = []

    class Looking:
        def submit(self, function, text, call):
            sent.append(call["data"])
            return processes.submit(function, text, call)

    for _ in range(2):
        pyopnb.map(session, numbers(1), Looking())
    assert len(set(sent)) == 2


def test_a_batch_that_cannot_be_sent_is_named(session, processes):
    batches = [np.float32([1]), np.float32([2]), {"x": threading.Lock()}]
    with pytest.raises(
        pyopnb.ArgumentError, match="map, batch 2: expected batches that can be pickled, as arrays can"
    ) as raised:
        pyopnb.map(session, batches, processes)
    assert [run.result["y"].item() for run in raised.value.batches.runs] == [2, 4]


class Sending:
    """An engine that takes pickles, and has threads."""

    def __init__(self, pool):
        self.submit = lambda *arguments, **named: pool.submit(*arguments, **named)


@pytest.mark.parametrize("engine", [lambda pool: pool, Sending], ids=["threads", "by pickle"])
def test_an_executor_that_is_shut_down(session, engine):
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(pyopnb.ArgumentError, match=r"map, executor: expected one that takes work, got .*shutdown.*\. Try: map"):
        pyopnb.map(session, numbers(3), engine(pool))


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
