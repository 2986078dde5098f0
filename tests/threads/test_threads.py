"""Many threads in one op, one session, several sessions; redefinition while they run."""

import threading
import time
import warnings

import numpy as np
import pytest
from limits import LIMIT
from small_ops import chain
from together import together

import pyopnb
from pyopnb.engine.runtime import _bridge

THREADS, RUNS = 4, 60
X = np.arange(6, dtype=np.float32)


def repeated(session, number):
    feed = X + number

    def job():
        for _ in range(RUNS):
            np.testing.assert_array_equal(session(x=feed)["y"], (np.abs(feed) * 2 + 1))

    return job


@pytest.fixture
def model():
    @pyopnb.pyop("threads::Twice")
    class Twice:
        def compute(self, x):
            return x * 2

    @pyopnb.pyop("threads::Next")
    class Next:
        def compute(self, x):
            return x + 1

    return chain("::Abs", "threads::Twice", "threads::Next")


def test_threads_in_one_session(model):
    session = pyopnb.Session(model)
    together(*[repeated(session, number) for number in range(THREADS)])
    assert _bridge.counters()["runs"] == 0


def test_sessions_are_made_and_dropped_on_threads(model):
    before = _bridge.counters()["kernels"]

    def job():
        for _ in range(10):
            np.testing.assert_array_equal(pyopnb.Session(model)(x=X)["y"], X * 2 + 1)

    together(*[job] * THREADS)
    assert _bridge.counters()["kernels"] == before


def test_every_thread_gets_its_own_exception():
    @pyopnb.pyop("threads::Odd")
    class Odd:
        def compute(self, x):
            if x[0] % 2:
                raise ValueError(f"{x[0]:g} is odd")
            return x

    session = pyopnb.Session(chain("threads::Odd", "::Abs"))

    def job(number):
        def runs():
            for _ in range(RUNS):
                if number % 2:
                    with pytest.raises(ValueError, match=f"^{number} is odd\n?"):
                        session(x=X + number)
                else:
                    np.testing.assert_array_equal(session(x=X + number)["y"], X + number)

        return runs

    together(*map(job, range(THREADS)))
    assert _bridge.counters()["runs"] == 0


def test_a_thread_raises_while_the_main_thread_runs():
    inside, go = threading.Event(), threading.Event()

    @pyopnb.pyop("threads::Wait")
    class Wait:
        def compute(self, x):
            if x[0] < 0:
                raise ValueError("negative")
            inside.set()
            assert go.wait(LIMIT)
            return x

    session = pyopnb.Session(chain("threads::Wait"))

    def bad():
        assert inside.wait(LIMIT)
        try:
            with pytest.raises(ValueError, match="negative"):
                session(x=X - 1)
        finally:
            go.set()

    results = together(lambda: session(x=X)["y"], bad)
    np.testing.assert_array_equal(results[0], X)


def test_threads_meet_inside_compute():
    meeting = threading.Barrier(2)

    @pyopnb.pyop("threads::Meet")
    class Meet:
        def compute(self, x):
            meeting.wait(
                LIMIT
            )  # raises BrokenBarrierError where only one thread at a time is let in
            return x

    session = pyopnb.Session(chain("threads::Meet"))
    for result in together(*[lambda: session(x=X)["y"]] * 2):
        np.testing.assert_array_equal(result, X)


def overlaps(serial):
    inside = most = 0
    counting = threading.Lock()

    class Count:
        def compute(self, x):
            nonlocal inside, most
            with counting:
                inside += 1
                most = max(most, inside)
            time.sleep(0.005)
            with counting:
                inside -= 1
            return x

    Count.serial = serial
    pyopnb.registry.define(Count, "threads::Count")
    sessions = [pyopnb.Session(chain("threads::Count")) for _ in range(2)]

    def job(session):
        def runs():
            for _ in range(8):
                session(x=X)

        return runs

    together(*[job(sessions[number % 2]) for number in range(THREADS)])
    return most


def test_serial_ops_never_overlap():
    assert overlaps(serial=True) == 1
    assert overlaps(serial=False) > 1  # the same measure, so that it can fail


def test_a_serial_op_can_run_itself():
    sessions = []

    @pyopnb.pyop("threads::Down")
    class Down:
        serial = True

        def compute(self, x):
            return sessions[0](x=x - 1)["y"] if x[0] > 0 else x

    sessions.append(pyopnb.Session(chain("threads::Down")))
    for result in together(*[lambda: sessions[0](x=np.full(2, 3, np.float32))["y"]] * 2):
        assert result.tolist() == [0, 0]


def test_a_serial_op_that_raises_lets_the_next_in():
    @pyopnb.pyop("threads::Bad")
    class Bad:
        serial = True

        def compute(self, x):
            raise ValueError("bad")

    session = pyopnb.Session(chain("threads::Bad"))

    def job():
        for _ in range(5):
            with pytest.raises(ValueError, match="bad"):
                session(x=X)

    together(job, job)


def test_each_result_belongs_to_one_version():
    def define(number):
        @pyopnb.pyop("threads::Number")
        class Number:
            def compute(self, x):
                return x * 1000 + np.float32(number)

    define(0)
    session = pyopnb.Session(chain("threads::Number", "::Neg", "::Neg", "threads::Number"))
    done, begun = threading.Event(), threading.Event()
    seen = set()

    def redefine():
        try:
            assert begun.wait(LIMIT)  # so that more than the last version is seen
            for number in range(1, 100):
                define(number)
                time.sleep(0.001)
        finally:
            done.set()

    def job():
        last = -1
        while True:
            over = done.is_set()
            y = int(session(x=np.zeros(1, np.float32))["y"][0])
            first, second = divmod(y, 1000)
            assert first == second, "one run was served by two versions"
            assert first >= last, "a thread went back to an older version"
            last = first
            seen.add(first)
            begun.set()
            if over:
                return last

    assert together(redefine, *[job] * (THREADS - 1))[1:] == [99] * (THREADS - 1)
    assert len(seen) > 1


def test_redefinition_with_other_outputs_while_threads_run():
    def define(kind):
        class Kind:
            def compute(self, x):
                return x.astype(kind)

        Kind.compute.__annotations__["return"] = f"{np.dtype(kind).name}[N]"
        pyopnb.registry.define(Kind, "threads::Kind")

    define("float32")
    session = pyopnb.Session(chain("threads::Kind", "::Neg"))
    kinds = ["float64", "int64", "float32", "int32"] * 3
    done = threading.Event()

    def redefine():
        try:
            for kind in kinds:
                define(kind)
                time.sleep(0.01)
        finally:
            done.set()

    def job():
        while True:
            over = done.is_set()
            y = session(x=X)["y"]
            np.testing.assert_array_equal(y, -X)
            if over:
                return y.dtype.name

    with (
        warnings.catch_warnings()
    ):  # its filters belong to the process, so it is set once and not by each thread
        warnings.simplefilter("ignore")
        assert together(redefine, job, job)[1:] == ["int32", "int32"]


def test_ops_are_registered_while_others_run(model):
    session = pyopnb.Session(model)
    before = pyopnb.registry.epoch

    def register():
        for number in range(50):
            pyopnb.pyop(f"threads::New{number}")(type("New", (), {"compute": lambda self, x: x}))

    together(register, repeated(session, 0), repeated(session, 1))
    assert pyopnb.registry.epoch == before + 50


def test_attrs_change_under_runs():
    """Each run has one value of the attr in all its nodes, and it is the newest that was there when the run began."""

    @pyopnb.pyop("demo::Scale")
    class Scale:
        def __init__(self, by: float = 1.0):
            self.by = np.float32(by)

        def compute(self, x):
            time.sleep(0.001)  # so that attrs change between two nodes of a run
            return x * self.by

    nodes = [
        pyopnb.node("demo::Scale", "x", "a"),
        pyopnb.node("demo::Scale", "a", "b"),
        pyopnb.node("demo::Scale", "b", "y"),
    ]
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y"))
    least, wrong, stop = [1], [], threading.Event()

    def runs():
        while not stop.is_set():
            before = least[0]
            got = float(session(x=np.float32([1]))["y"][0])
            if round(got ** (1 / 3)) ** 3 != got or got < before**3:
                wrong.append((before, got))

    threads = [threading.Thread(target=runs) for _ in range(4)]
    for thread in threads:
        thread.start()
    for by in range(2, 60):
        session.set_attrs(by=float(by))
        least[0] = by
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert session(x=np.float32([1]))["y"][0] == 59**3
