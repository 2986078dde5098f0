"""ONNX Runtime calls ops on threads of its own (ORT_PARALLEL), and a session runs on threads of pyopnb's (run_async)."""

import threading
import time
import traceback
import warnings

import numpy as np
import onnxruntime
import pytest
from limits import LIMIT
from small_ops import Scale
from together import together

import pyopnb
from pyopnb.runtime import _bridge

X = np.arange(3, dtype=np.float32)
BRANCHES = ["y0", "y1", "y2"]


def branches(op, **attrs):
    """Branches in which the op comes first and last, with nodes of ONNX Runtime's own between."""
    nodes = []
    for y in BRANCHES:
        nodes += [
            pyopnb.node(op, "x", f"{y}a", **attrs),
            pyopnb.node("Neg", f"{y}a", f"{y}b"),
            pyopnb.node("Neg", f"{y}b", f"{y}c"),
            pyopnb.node(op, f"{y}c", y, **attrs),
        ]
    return pyopnb.model(nodes, {"x": "float32[N]"}, BRANCHES)


def parallel(model):
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 4
    options.log_severity_level = 4
    return pyopnb.Session(model, options)


def define_number(number, kind="float32"):
    class Number:
        def compute(self, x):
            return (x * 1000 + number).astype(kind)

    Number.compute.__annotations__["return"] = f"{kind}[N]"
    pyopnb.registry.define(Number, "parallel::Number")


@pytest.fixture
def bad():
    """An op that raises for odd inputs, and the threads that called it."""
    callers = set()

    @pyopnb.pyop("parallel::Odd")
    class Odd:
        def compute(self, x):
            callers.add(threading.get_ident())
            if x[0] % 2:
                raise ValueError(f"{x[0]:g} is odd")
            return x

    return callers


def test_an_op_s_exception_arrives_as_itself_from_another_thread(bad):
    session = parallel(branches("parallel::Odd"))
    for _ in range(5):
        with pytest.raises(ValueError, match="^1 is odd") as caught:
            session(x=X + 1)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "compute"
        assert "parallel::Odd" in caught.value.__notes__[0]
    assert threading.get_ident() not in bad  # else this tests nothing
    assert _bridge.counters()["runs"] == 0


def test_every_run_gets_its_own_exception(bad):
    session = parallel(branches("parallel::Odd"))

    def job(number):
        def runs():
            for _ in range(20):
                if number % 2:
                    with pytest.raises(ValueError, match=f"^{number} is odd"):
                        session(x=X + number)
                else:
                    np.testing.assert_array_equal(session(x=X + number)["y1"], X + number)

        return runs

    together(*map(job, range(4)))
    assert _bridge.counters()["runs"] == 0


@pytest.mark.parametrize("kinds", [["float32"], ["float32", "float64"]], ids=["in place", "rebuilt"])
def test_each_run_belongs_to_one_version_while_the_op_is_redefined(kinds):
    define_number(0)
    if len(kinds) == 1:
        session = parallel(branches("parallel::Number"))
    else:  # one node in a branch, as the second could not take what the first gives
        nodes = [pyopnb.node("parallel::Number", "x", y) for y in BRANCHES]
        session = parallel(pyopnb.model(nodes, {"x": "float32[N]"}, BRANCHES))
    done, begun, newest, seen = threading.Event(), threading.Event(), [0], set()

    def redefine():
        try:
            assert begun.wait(LIMIT)  # so that more than the last version is seen
            for number in range(1, 25):
                define_number(number, kinds[number % len(kinds)])
                newest[0] = number
                time.sleep(0.004)
        finally:
            done.set()

    def job():
        while True:
            over, least = done.is_set(), newest[0]
            result = session(x=np.zeros(1, np.float32))
            served = {(int(result[y][0]) % 1000, result[y].dtype.name) for y in BRANCHES}
            if len(kinds) == 1:
                served |= {(int(result[y][0]) // 1000, "float32") for y in BRANCHES}
            assert len(served) == 1, "one run was served by two versions"
            [(number, kind)] = served
            assert number >= least, "a run was served by a version that was gone when it began"
            assert kind == (kinds[number % len(kinds)] if number else "float32")
            seen.add(number)
            begun.set()
            if over:
                return

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        together(redefine, job, job, job)
    assert len(seen) > 1
    assert _bridge.counters()["runs"] == 0


def test_sessions_that_share_runs_keep_their_own_attrs():
    pyopnb.registry.define(Scale, "parallel::Scale")
    sessions = [
        session := parallel(branches("parallel::Scale", by=2.0)),
        *(session.with_attrs(by=float(by)) for by in (3, 4, 5)),
    ]
    assert len({id(one._sess) for one in sessions}) == 1

    def job(by, session):
        def runs():
            for _ in range(25):
                assert [float(y[0]) for y in session(x=np.float32([1]))] == [by**2] * 3

        return runs

    together(*[job(by, session) for by, session in enumerate(sessions, 2)])


def test_two_runs_meet_inside_the_op():
    """The second does not wait for the first to end."""
    meeting = threading.Barrier(2)

    @pyopnb.pyop("parallel::Meet")
    class Meet:
        def compute(self, x):
            meeting.wait(LIMIT)
            return x

    session = parallel(pyopnb.model([pyopnb.node("parallel::Meet", "x", "y")], {"x": "float32[N]"}, "y"))
    for result in together(lambda: session(x=X), lambda: session(x=X)):
        np.testing.assert_array_equal(result["y"], X)


def test_runs_that_reach_no_op_let_others_in():
    define_number(7)
    body = "then_branch = g1 () => (float[N] a) { a = parallel.Number(x) }, else_branch = g2 () => (float[N] b) { b = Neg(x) }"
    model = pyopnb.parse(f"(bool c, float[N] x) => (float[N] y) {{ y = If <{body}> (c) }}")
    session = parallel(model)

    def job(c, expected):
        return lambda: [np.testing.assert_array_equal(session(c=np.array(c), x=X)["y"], expected) for _ in range(20)]

    together(job(True, X * 1000 + 7), job(False, -X), job(True, X * 1000 + 7))


def test_all_ways_to_run(bad):
    session = parallel(branches("parallel::Odd"))
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    for feed in (X, X + 1):
        binding = session.io_binding()
        binding.bind_cpu_input("x", feed)
        for y in BRANCHES:
            binding.bind_output(y)
        for run in (
            lambda feed=feed: session.run(None, {"x": feed}),
            lambda feed=feed: session.run_with_ort_values(None, {"x": value(feed)}),
            lambda binding=binding: session.run_with_iobinding(binding),
        ):
            if feed[0]:
                with pytest.raises(ValueError, match="odd"):
                    run()
            else:
                run()


def test_a_session_inside_the_op_of_another():
    define_number(1)
    inner = parallel(branches("parallel::Number"))

    @pyopnb.pyop("parallel::Outer")
    class Outer:
        def compute(self, x):
            return inner(x=x)["y0"]

    outer = parallel(branches("parallel::Outer"))
    for result in together(*[lambda: outer(x=np.zeros(1, np.float32))["y2"]] * 2):
        assert np.isclose(result[0], 1001 * 1000**2 + 1001)


@pytest.mark.parametrize("through", ["directly", "through another session"])
def test_a_session_inside_its_own_op_is_refused_and_does_not_hang(through):
    sessions = []

    @pyopnb.pyop("parallel::Down")
    class Down:
        def compute(self, x):
            return sessions[0](x=x - 1)["y0"]

    @pyopnb.pyop("parallel::Detour")
    class Detour:
        def compute(self, x):
            return sessions[1](x=x)["y0"]

    sessions.append(parallel(branches("parallel::Down" if through == "directly" else "parallel::Detour")))
    sessions.append(parallel(branches("parallel::Down")))
    with pytest.raises(pyopnb.RunRefused, match="inside its own op: expected .*ORT_SEQUENTIAL.*got ORT_PARALLEL"):
        sessions[0](x=X)
    assert _bridge.counters()["runs"] == 0


# ---- run_async ---------------------------------------------------------------------------------------------------------------


def answered(session, feeds, times=1):
    """What the callbacks of so many asynchronous runs got."""
    got, all_there = [], threading.Event()

    def callback(results, data, failure):
        got.append((results, data, failure))
        if len(got) == times:
            all_there.set()

    for number in range(times):
        session.run_async(None, feeds, callback, number)
    assert all_there.wait(LIMIT)
    return got


def test_an_asynchronous_run_gives_the_op_s_own_exception(bad):
    session = pyopnb.Session(branches("parallel::Odd"))
    [(results, data, failure)] = answered(session, {"x": X + 1})
    assert (results, data) == ([], 0)
    assert isinstance(failure, str) and failure.startswith("ValueError: 1 is odd\n") and "parallel::Odd" in failure
    assert type(failure.exception) is ValueError
    assert traceback.extract_tb(failure.exception.__traceback__)[-1].name == "compute"
    [(results, _, failure)] = answered(session, {"x": X})
    assert failure == "" and len(results) == 3
    with pytest.raises(pyopnb.FeedError):
        session.run_async(None, {"z": X}, print, None)


def test_each_asynchronous_run_belongs_to_one_version():
    define_number(0)
    session = pyopnb.Session(branches("parallel::Number"))
    done = threading.Event()

    def redefine():
        number = 0
        while not done.is_set():
            number = (number + 1) % 1000  # a result has three digits for each
            define_number(number)
            time.sleep(0.002)

    def job():
        try:
            for results, _, failure in answered(session, {"x": np.zeros(1, np.float32)}, times=40):
                assert not failure
                assert len({part for y in results for part in divmod(int(y[0]), 1000)}) == 1
        finally:
            done.set()

    together(redefine, job)


def test_an_asynchronous_run_of_a_session_without_ops_is_onnxruntime_s():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2  # it refuses to do it on one
    session = pyopnb.Session(pyopnb.model([pyopnb.node("Neg", "x", "y")], {"x": "float32[N]"}, "y"), options)
    [(results, _, failure)] = answered(session, {"x": X})
    assert failure == ""
    np.testing.assert_array_equal(results[0], -X)
