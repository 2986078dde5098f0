"""Many batches through a session, by threads and processes."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import numpy as np
import pytest
import remote_work

import pyopnb
from pyopnb.engine.ops.class_texts import class_source


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def session():
    pyopnb.registry.define(
        remote_work.Checked, "travel::Checked", source=class_source(remote_work.Checked)
    )
    yield pyopnb.Session(remote_work.session_model("travel::Checked"))
    pyopnb.registry.clear()


@pytest.fixture(params=["here", "threads", "processes"])
def executor(request):
    return (
        None
        if request.param == "here"
        else request.getfixturevalue("threads" if request.param == "threads" else "processes")
    )


def numbers(count):
    return (np.float32([n]) for n in range(count))


def test_every_result_in_the_order_of_the_batches(session, executor):
    results = pyopnb.map(session, numbers(500), executor)
    np.testing.assert_array_equal(results.array("y")[:, 0], np.arange(500) * 2)
    assert (
        len(results) == 500
        and results.unfinished == []
        and [run.number for run in results.runs] == list(range(500))
    )
    assert all(run.seconds > 0 for run in results.runs)


def test_interpreters_are_no_threads(session, monkeypatch):
    class InterpreterPoolExecutor(ThreadPoolExecutor):
        """As Python 3.14 has it."""

    pool = getattr(concurrent.futures, "InterpreterPoolExecutor", InterpreterPoolExecutor)
    monkeypatch.setattr(concurrent.futures, "InterpreterPoolExecutor", pool, raising=False)
    expected = r"executor: expected threads or processes.*Try: .*ThreadPoolExecutor\(4\)"
    with pool(1) as interpreters:
        for function in (pyopnb.map, pyopnb.sweep):
            with pytest.raises(pyopnb.errors.InputError, match=expected):
                function(session, [np.float32([1]), np.float32([2])], executor=interpreters)


def test_a_dict_a_tuple_or_an_array_feeds_a_run(session):
    x = np.float32([3])
    assert [r["y"].item() for r in pyopnb.map(session, [x, (x,), {"x": x}])] == [6, 6, 6]


def test_an_exception_arrives_as_itself_and_the_others_results_are_kept(session, executor):
    with pytest.raises(remote_work.BelowZero, match="below zero") as raised:
        pyopnb.map(session, [np.float32([n]) for n in (1, 2, -1)], executor, in_flight=1)
    error = raised.value
    assert "in batch 2" in error.__notes__ and "travel::Checked" in error.__notes__[0]
    assert [run.result["y"].item() for run in error.batches.runs if run.result] == [2, 4]
    assert error.batches.unfinished == [2]


def test_keep_runs_all_of_them(session, executor):
    results = pyopnb.map(session, [np.float32([n]) for n in (1, -1, 2)], executor, errors="keep")
    assert results.unfinished == [1] and list(results.errors) == [1]
    assert results[0]["y"].item() == 2 and results[2]["y"].item() == 4
    with pytest.raises(remote_work.BelowZero):
        results[1]
    assert "below zero" in repr(results) and "without a result: 1 of 3" in repr(results)


def test_a_batch_that_does_not_fit(session, executor):
    with pytest.raises(
        pyopnb.errors.InputError, match=r"feed x: expected float32\[N\], got float64\[1\]"
    ) as raised:
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


def test_a_worker_that_is_killed_is_said_and_the_results_before_are_kept(session):
    vars(sys.modules["__main__"]).setdefault("__spec__", None)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pyopnb.map(session, numbers(3), pool)
        with pytest.raises(BrokenExecutor) as raised:
            pyopnb.map(
                session,
                remote_work.numbers_and_then(
                    5, lambda: next(iter(pool._processes.values())).kill()
                ),
                pool,
                in_flight=1,
            )
    error = raised.value
    assert any("which had batches" in note for note in error.__notes__)
    assert len(error.batches.runs) >= 1 and error.batches.unfinished


def ending(count, error):
    yield from numbers(count)
    raise error


def test_what_the_generator_raises_comes_after_the_batches_before_it(session, executor):
    with pytest.raises(LookupError, match="no file 50") as raised:
        pyopnb.map(session, ending(50, LookupError("no file 50")), executor)
    batches = raised.value.batches
    assert [run.result["y"].item() for run in batches.runs] == [2 * n for n in range(50)]
    assert batches.total == 50 and batches.unfinished == []


def test_the_exception_of_a_batch_goes_before_that_of_the_generator(session, executor):
    def failing():
        yield np.float32([-1])
        yield from ending(3, LookupError("no file 4"))

    with pytest.raises(remote_work.BelowZero):
        pyopnb.map(session, failing(), executor)
    with pytest.raises(LookupError) as raised:
        pyopnb.map(session, failing(), executor, errors="keep")
    assert raised.value.batches.unfinished == [0] and len(raised.value.batches.runs) == 4


def test_an_op_that_cannot_be_sent_is_named(processes, run, shell):
    assert run("import threading").ok
    assert run(
        "%%pyop -q -d travel\nclass Kept:\n    def __init__(self):\n        self.lock = threading.Lock()\n    def compute(self, x):\n        return x"
    ).ok
    with pytest.raises(
        pyopnb.errors.DefinitionError, match=r"self\.lock: expected state that can be pickled"
    ):
        pyopnb.map(pyopnb.Session(remote_work.session_model("travel::Kept")), numbers(3), processes)


def test_what_a_profiler_of_the_worker_holds_is_an_error_as_here(processes):
    pyopnb.registry.define(remote_work.Held, "travel::Held", source=class_source(remote_work.Held))
    session = pyopnb.Session(remote_work.session_model("travel::Held"))
    for executor in (None, processes):
        results = pyopnb.map(session, numbers(20), executor, in_flight=1, errors="keep")
        assert {number: type(error) for number, error in results.errors.items()} == {
            5: pyopnb.errors.EscapedInput
        }
    pyopnb.registry.clear()


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


def test_a_batch_that_cannot_be_sent_is_named(session, processes):
    batches = [np.float32([1]), np.float32([2]), {"x": threading.Lock()}]
    with pytest.raises(
        pyopnb.errors.InputError,
        match="map, batch 2: expected batches that can be pickled, as arrays can",
    ) as raised:
        pyopnb.map(session, batches, processes)
    assert [run.result["y"].item() for run in raised.value.batches.runs] == [2, 4]


def test_a_table(session):
    results = pyopnb.map(session, numbers(30))
    assert repr(results).splitlines()[0].split() == [
        "batch",
        "y",
        "ms",
        "worker",
    ] and "and 10 more" in repr(results)
    assert len(pickle.loads(pickle.dumps(results))) == 30


def test_it_is_shown_as_a_table(session):
    results = pyopnb.map(session, [np.float32([n]) for n in (*range(600), -1)], errors="keep")
    page = results._repr_html_()
    assert "<table" in page and "without a result: 1 of 601" in page
    assert len(page) < 60_000
    assert (
        "<table" in pyopnb.map(session, [])._repr_html_()
        or "no batches" in pyopnb.map(session, [])._repr_html_()
    )


@pytest.mark.parametrize(
    "form", [lambda x: x, lambda x: (x,), lambda x: {"x": x}], ids=["array", "tuple", "dict"]
)
def test_a_generator_may_refill_one_buffer(session, executor, form):
    def refilled():
        buffer = np.empty(1, np.float32)
        for n in range(200):
            buffer[:] = n
            yield form(buffer)

    results = pyopnb.map(session, refilled(), executor)
    np.testing.assert_array_equal(results.array("y")[:, 0], np.arange(200) * 2)


class Engine(Executor):
    """An executor that is no pool of threads, so that it gets pickles; the tests say what it does with them."""

    def __init__(self, submit):
        self.submit = submit


def test_a_generator_is_read_as_far_as_the_executor_needs_it(session, processes):
    ahead, waiting = [], [0]

    def numbers_counted():
        for n in range(300):
            waiting[0] += 1
            yield np.float32([n])

    def submit(function, text, names):
        future = Future()
        future.set_result(function(text, names))
        ahead.append(waiting[0])
        waiting[0] = 0
        return future

    assert len(pyopnb.map(session, numbers_counted(), Engine(submit), in_flight=2)) == 300
    assert ahead[0] == 1 and max(ahead) <= 256


def test_a_large_session_goes_to_a_worker_once(processes):
    weight = np.random.default_rng(0).random(100_000, np.float32)
    model = pyopnb.model(
        pyopnb.node("Add", "x w", "y"), {"x": "float32[100000]"}, "y", initializers={"w": weight}
    )
    sent = []

    def submit(function, text, names):
        sent.append(names["session"] is not None)
        return processes.submit(function, text, names)

    session = pyopnb.Session(model)
    for _ in range(2):
        results = pyopnb.map(session, [weight] * 20, Engine(submit), in_flight=8)
        np.testing.assert_array_equal(results[19]["y"], weight * 2)
    assert sum(sent) == 1


def test_an_interrupt_returns_what_is_done_and_cancels_the_rest(session):
    given = []

    def submit(function, text, names):
        if len(given) == 4:
            raise KeyboardInterrupt
        given.append(Future())
        if len(given) <= 2:
            given[-1].set_result(function(text, names))
        return given[-1]

    results = pyopnb.map(session, numbers(100), Engine(submit))
    assert [run.number for run in results.runs] == [0, 1]
    assert [future.cancelled() for future in given] == [False, False, True, True]


def test_a_worker_without_pyopnb_is_named(session, processes):
    def submit(function, text, names):
        return processes.submit(remote_work.without_pyopnb, function, text, names)

    with pytest.raises(
        pyopnb.errors.InputError, match=r"map, executor: .* process \d+ of .*no pyopnb.*pip install"
    ) as raised:
        pyopnb.map(session, numbers(1000), Engine(submit), in_flight=8)
    assert raised.value.batches.unfinished == list(range(8))
    with pytest.raises(pyopnb.errors.InputError, match="sweep, executor: .*no pyopnb") as raised:
        pyopnb.sweep(session, x=[np.float32([n]) for n in range(50)], executor=Engine(submit))
    assert len(raised.value.sweep) == 0


def engine_that_fails(*numbers):
    """Return an executor that runs what is submitted, except for the submissions of these numbers."""
    counter = itertools.count()

    def submit(function, text, names):
        future = Future()
        if next(counter) in numbers:
            future.set_exception(OSError("no route"))
        else:
            future.set_result(function(text, names))
        return future

    return Engine(submit)


def test_batches_that_an_engine_loses_run_again(session):
    results = pyopnb.map(session, numbers(100), engine_that_fails(3), in_flight=1)
    assert results.unfinished == []
    assert [run.result["y"].item() for run in results.runs] == [2 * n for n in range(100)]


def test_an_exception_of_the_engine_names_its_batches_and_keeps_those_before(session):
    with pytest.raises(OSError, match="no route") as raised:
        pyopnb.map(session, numbers(100), engine_that_fails(3, 4), in_flight=1)
    batches = raised.value.batches
    first = len(batches.runs)
    assert first and any(f"batches {first} to" in note for note in raised.value.__notes__)
    assert [run.result["y"].item() for run in batches.runs] == [2 * n for n in range(first)]


def test_a_session_that_a_worker_cannot_open_says_why(session):
    def submit(function, text, names):
        future = Future()
        future.set_result(
            function(text, {**names, "digest": "x", "session": b"cno_such_module\nx\n."})
        )
        return future

    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised:
        pyopnb.map(session, numbers(3), Engine(submit))
    assert "in a worker, before the runs began" in raised.value.__notes__


def test_an_exception_of_the_notebook_arrives_as_itself(processes, run, shell):
    assert run(
        "class Below(Exception):\n    def __init__(self, value, limit):\n        super().__init__(value, limit)"
    ).ok
    assert run(
        "%%pyop -q -d travel\nclass Refusing:\n    def compute(self, x):\n        raise Below(x[0], 0)"
    ).ok
    with pytest.raises(shell.user_ns["Below"]) as raised:
        pyopnb.map(
            pyopnb.Session(remote_work.session_model("travel::Refusing")), numbers(1), processes
        )
    assert raised.value.args == (0, 0) and "in batch 0" in raised.value.__notes__


def test_every_task_of_an_engine_is_another(session, processes):
    """Dask would give the second the result of the first, for any state of the op."""
    sent = []

    def submit(function, text, names):
        sent.append(pickle.dumps((function, text, names)))
        return processes.submit(function, text, names)

    for _ in range(2):
        pyopnb.map(session, numbers(1), Engine(submit))
    assert len(set(sent)) == 2


@pytest.mark.parametrize("batches", [3, {"x": np.float32([1])}, "x"])
def test_what_is_no_iterable_of_feeds_is_refused(batches):
    model = pyopnb.model(pyopnb.node("Neg", "x", "y"), {"x": "float32[N]"}, "y")
    with pytest.raises(pyopnb.errors.InputError, match="map, batches: expected an iterable"):
        pyopnb.map(pyopnb.Session(model), batches)
