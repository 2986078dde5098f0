"""Sessions under ORT_PARALLEL are refused where they have ops, and a session runs on threads of pyopnb's (run_async)."""

import threading
import time
import traceback

import numpy as np
import onnxruntime
import pytest
from limits import LIMIT
from together import together

import pyopnb

X = np.arange(3, dtype=np.float32)
BRANCHES = ["y0", "y1", "y2"]


def branches(op, **attrs):
    """Branches in which the op comes first and last, with ONNX nodes between."""
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


def test_a_session_with_ops_is_refused_under_parallel_execution(bad):
    with pytest.raises(
        pyopnb.errors.RunRefused, match="ORT_PARALLEL: expected a model without Python ops"
    ):
        parallel(branches("parallel::Odd"))
    np.testing.assert_array_equal(parallel(branches("Neg"))(x=X)["y1"], X)


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
    assert (
        isinstance(failure, str)
        and failure.startswith("ValueError: 1 is odd\n")
        and "parallel::Odd" in failure
    )
    assert type(failure.exception) is ValueError
    assert traceback.extract_tb(failure.exception.__traceback__)[-1].name == "compute"
    [(results, _, failure)] = answered(session, {"x": X})
    assert failure == "" and len(results) == 3
    with pytest.raises(pyopnb.errors.InputError):
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
    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("Neg", "x", "y")], {"x": "float32[N]"}, "y"), options
    )
    [(results, _, failure)] = answered(session, {"x": X})
    assert failure == ""
    np.testing.assert_array_equal(results[0], -X)
