"""What the tests have done in another process. It imports this module, and pickles carry the rest."""

from __future__ import annotations

import pickle
import sys

import numpy as np

import pyopnb


def forget():
    pyopnb.registry.clear()
    for name in [name for name in sys.modules if name.startswith("ops_of_a_file")]:
        del sys.modules[name]


def outputs(session, *feeds):
    return list(session(*feeds))


class Negative:
    def compute(self, x):
        return -x


class BelowZero(Exception):
    pass


class Checked:
    def compute(self, x):
        if x[0] < 0:
            raise BelowZero("below zero")
        return x * 2


class Held:
    """It keeps one input past the end of compute, as a profiler that looks at its frames does."""

    def compute(self, x):
        if x[0] == 5:
            self.kept = x
        return x * 2


class Slow:
    """It takes long enough for a worker to be killed in it, and for a profiler to look at it."""

    def __init__(self, by: float = 2.0):
        self.by = by

    def compute(self, x):
        import time

        time.sleep(0.003)
        if x[0] < 0:
            raise ValueError("below zero")
        return x * np.float32(self.by)


class Gated:
    """It waits for a file with all but zero."""

    def __init__(self, gate: str):
        self.gate = gate

    def compute(self, x):
        import os
        import time

        end = time.monotonic() + 60
        while x[0] and not os.path.exists(self.gate) and time.monotonic() < end:
            time.sleep(0.01)
        return x


class Limited:
    def __init__(self, limit: float = 1.0, power: int = 1):
        if limit < 0:
            raise BelowZero("below zero")
        self.limit, self.power = limit, power

    def compute(self, x):
        return (np.minimum(x, self.limit) ** self.power).astype(x.dtype)


def numbers_and_then(count, act):
    for n in range(count):
        yield np.float32([n])
    act()
    for n in range(10_000):
        yield np.float32([n])


def versions():
    return {op.name: op.current.number for op in pyopnb.registry}


def numbers(session):
    """The numbers of the versions that a session serves."""
    return {
        kernel.op.name: kernel.op.at(session.state.epoch).number for kernel in session.state.kernels
    }


def modules_of_classes(session):
    return {kernel.op.name: kernel.op.current.cls.__module__ for kernel in session.state.kernels}


def text(thing):
    return repr(thing)


def define_another(name, factor):
    @pyopnb.pyop(name)
    class Another:
        def __init__(self, by: float = 1.0):
            self.by = by

        def compute(self, x):
            return x * np.float32(factor)

    return pyopnb.registry[name].current.number


def beside_another(session, name, factor, x):
    """Run the session, define its op anew, and run it again."""
    before = session(x)["y"], pyopnb.run(session_model(name), x=x)["y"]
    number = define_another(name, factor)
    return *before, session(x)["y"], number


def session_model(name, **attrs):
    return pyopnb.model(
        pyopnb.node(name, "x", "y", **attrs), {"x": "float32[N]"}, {"y": "float32[N]"}
    )


def round_trip(session):
    """The answers of this process to its requests."""
    return pickle.loads(pickle.dumps(session))


def import_path(folder):
    sys.path.insert(0, folder)


def message(data):
    """What unpickling raises here."""
    try:
        pickle.loads(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}", getattr(error, "__notes__", [])
    return None


def without_pyopnb(function, *arguments):
    """Call a function as if this process had no pyopnb."""
    hidden = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.partition(".")[0] == "pyopnb"
    }
    sys.modules["pyopnb"] = None
    try:
        return function(*arguments)
    finally:
        sys.modules.update(hidden)
