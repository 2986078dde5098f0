"""Everything at once: runs, definitions, rollbacks, removals, new sessions, pickles, traces and attrs, on many threads.

What each thread sees must be right by itself: every result comes from one version, and no other.
Set PYOPNB_STRESS_SECONDS to go on for longer: without the GIL, minutes tell more than seconds.
"""

import os
import pickle
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import onnxruntime
import pytest
from limits import LIMIT
from small_ops import chain

import pyopnb
from pyopnb.engine.runtime import _bridge

THREADS = 8
SECONDS = float(os.environ.get("PYOPNB_STRESS_SECONDS", "2"))
X = np.arange(1, 9, dtype=np.float32)
STEPS = range(1, 8)


def make_plus(step):
    class Plus:
        """Add a number, in a Python loop."""

        def __init__(self, by: float = 0.0):
            self.by = by

        def compute(self, x):
            assert not x.flags.writeable
            return np.float32([value + step + self.by for value in x.tolist()])

    return Plus


def make_keeper(kept):
    class Keep:
        def compute(self, x):
            if len(kept) < 50 or random.random() < 0.02:
                kept.append((x, x.tolist()))
            return x + 1

    return Keep


class Pooled:
    """Lends its input to threads that it waits for."""

    pool = ThreadPoolExecutor(2)

    def compute(self, x):
        return np.concatenate(list(self.pool.map(np.negative, (x[:4], x[4:]))))


class Odd:
    def compute(self, x):
        if x[0] % 2:
            raise ValueError(f"{x[0]:g} is odd")
        return x


def options_of(mode):
    options = onnxruntime.SessionOptions()
    options.execution_mode = mode
    options.inter_op_num_threads = 2
    options.log_severity_level = 4
    return options


def check_twice(result, x, by=0.0):
    """Two nodes of one run, in one version."""
    step = (result[0] - x[0]) / 2 - by
    assert step in STEPS, (step, result)
    np.testing.assert_array_equal(result, x + 2 * (step + by))


class Jobs:
    """What the threads do, each job again and again until the time is over."""

    def __init__(self):
        self.kept = []
        for cls in (make_plus(1), make_plus(2)):
            pyopnb.registry.define(cls, "stress::Plus")
            pyopnb.registry.define(cls, "stress::Gone")
        pyopnb.registry.define(make_keeper(self.kept), "stress::Keep")
        pyopnb.registry.define(Pooled, "stress::Pooled")
        pyopnb.registry.define(Odd, "stress::Odd")
        self.model = chain("stress::Plus", "stress::Plus")
        self.session = pyopnb.Session(self.model)
        self.gone = pyopnb.Session(chain("stress::Gone", "stress::Gone"))
        self.keeping, self.pooled, self.odd = (
            pyopnb.Session(chain(f"stress::{op}")) for op in ("Keep", "Pooled", "Odd")
        )
        self.packed = pickle.dumps(self.session)

    def run(self, rng):
        x = X + rng.randrange(1000)
        check_twice(self.session(x=x)["y"], x)

    def trace(self, rng):
        x = X + rng.randrange(1000)
        trace = self.session.trace(x=x)
        check_twice(trace["y"], x)
        np.testing.assert_array_equal(trace["t1"] - x, trace["y"] - trace["t1"])

    def define(self, rng):
        pyopnb.registry.define(make_plus(rng.choice(STEPS)), "stress::Plus")

    def roll_back(self, rng):
        pyopnb.registry.rollback("stress::Plus")

    def remove(self, rng):
        if rng.random() < 0.5:
            pyopnb.registry.define(make_plus(rng.choice(STEPS)), "stress::Gone")
            return
        with suppress(pyopnb.errors.UnknownName):  # another thread was faster
            pyopnb.registry.remove("stress::Gone")

    def run_removed(self, rng):
        check_twice(self.gone(x=X)["y"], X)  # sessions keep what they use

    def build(self, rng):
        session = pyopnb.Session(self.model)
        check_twice(session(x=X)["y"], X)

    def build_bare(self, rng):
        options = options_of(onnxruntime.ExecutionMode.ORT_SEQUENTIAL)
        options.register_custom_ops_library(pyopnb.get_library_path())
        session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        step = session.run(None, {"x": X})[0][0] - X[0]
        assert 2 <= step <= 14, step  # a bare session has a version for each call

    def travel(self, rng):
        check_twice(pickle.loads(self.packed)(x=X)["y"], X)

    def set_attrs(self, rng):
        by = float(rng.randrange(100, 1000))
        session = self.session.with_attrs(by=by)
        check_twice(session(x=X)["y"], X, by)
        session.set_attrs(by=by + 1)
        check_twice(session(x=X)["y"], X, by + 1)

    def keep(self, rng):
        x = X + rng.randrange(1000)
        with suppress(pyopnb.errors.EscapedInput):
            np.testing.assert_array_equal(self.keeping(x=x)["y"], x + 1)
        for array, values in self.kept[-20:]:
            assert array.tolist() == values
        del self.kept[:-100]

    def lend(self, rng):
        x = X + rng.randrange(1000)
        np.testing.assert_array_equal(self.pooled(x=x)["y"], -x)

    def fail(self, rng):
        x = X * 0 + rng.randrange(1000)
        if x[0] % 2:
            with pytest.raises(ValueError, match=f"^{x[0]:g} is odd"):
                self.odd(x=x)
        else:
            np.testing.assert_array_equal(self.odd(x=x)["y"], x)

    def infer(self, rng):
        assert chain("stress::Plus", "stress::Odd").graph.output[0].type.tensor_type.elem_type == 1

    def compare(self, rng):
        assert not pyopnb.diff(X, X + 1).ok


JOBS = [name for name, job in vars(Jobs).items() if callable(job) and not name.startswith("_")]


def test_everything_at_once():
    before = _bridge.counters()["runs"]
    jobs, end, seed = Jobs(), time.monotonic() + SECONDS, random.randrange(2**32)
    done = dict.fromkeys(JOBS, 0)
    failed = threading.Event()

    def work(number):
        rng, names = random.Random(seed + number), list(JOBS)
        while time.monotonic() < end and not failed.is_set():
            rng.shuffle(names)
            for name in names:
                try:
                    getattr(jobs, name)(rng)
                except BaseException:
                    failed.set()
                    raise
                done[name] += 1

    with ThreadPoolExecutor(THREADS) as pool:
        for one in [pool.submit(work, number) for number in range(THREADS)]:
            one.result(SECONDS + LIMIT)
    assert min(done.values()) > 0, done
    assert _bridge.counters()["runs"] == before
