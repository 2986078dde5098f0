"""Which ops a session is offered: ONNX Runtime reads each of them, used or not, whenever a session is made."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnxruntime
import pytest

import pyopnb
from pyopnb.engine.runtime import _bridge


class PlusOne:
    def compute(self, x):
        return x + x.dtype.type(1)


class Twice:
    def compute(self, x):
        return x * 2


X = np.float32([1, 2])


def model(*ops):
    names = ["x", *(f"v{n}" for n in range(len(ops) - 1)), "y"]
    nodes = [pyopnb.node(op, a, b) for op, (a, b) in zip(ops, pairwise(names), strict=True)]
    return pyopnb.model(nodes, {"x": "float32[N]"}, "y")


def names_read(make):
    before = _bridge.names_read()
    make()
    return _bridge.names_read() - before


def use_many_names(count):
    for number in range(count):
        pyopnb.registry.define(PlusOne, f"o::PlusOne{number}")
        pyopnb.Session(model(f"o::PlusOne{number}"))


@pytest.mark.parametrize("ops", [["o::PlusOne0"], ["o::PlusOne0", "o::PlusOne1", "p::Twice"]])
def test_a_session_is_offered_just_the_ops_of_its_model(ops):
    pyopnb.registry.define(Twice, "p::Twice")
    use_many_names(2)
    before = names_read(lambda: pyopnb.Session(model(*ops)))
    use_many_names(25)
    assert before > 0
    assert names_read(lambda: pyopnb.Session(model(*ops))) == before


def test_a_trace_is_offered_just_the_ops_of_its_model():
    use_many_names(1)
    session = pyopnb.Session(model("o::PlusOne0"))
    before = names_read(lambda: session.trace(x=X))
    use_many_names(25)
    assert before > 0
    assert names_read(lambda: session.trace(x=X)) == before


def test_options_of_several_sessions_have_the_ops_of_all_and_lend_them_to_no_others():
    pyopnb.registry.define(PlusOne, "o::PlusOne")
    pyopnb.registry.define(Twice, "o::Twice")
    alone = names_read(lambda: pyopnb.Session(model("o::PlusOne")))
    options = onnxruntime.SessionOptions()
    first = pyopnb.Session(model("o::PlusOne"), options)
    second = pyopnb.Session(model("o::Twice"), options)
    both = pyopnb.Session(model("o::PlusOne", "o::Twice"), options)
    again = pyopnb.Session(model("o::PlusOne"), options)
    results = [session(x=X)["y"].tolist() for session in (first, second, both, again)]
    assert results == [[2, 3], [2, 4], [4, 6], [2, 3]]
    assert names_read(lambda: pyopnb.Session(model("o::PlusOne"))) == alone


def test_a_rebuilt_session_keeps_the_options_that_it_was_given():
    pyopnb.registry.define(Twice, "o::Op")
    session = pyopnb.Session(model("o::Op"), onnxruntime.SessionOptions())

    class Op:
        def compute(self, x) -> "int64[...]":
            return x.astype(np.int64)

    pyopnb.registry.define(Op, "o::Op")
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        assert session(x=X)["y"].dtype == np.int64


def test_a_bare_session_is_offered_the_ops_of_the_registry():
    pyopnb.registry.define(Twice, "o::Twice")
    proto = model("o::Twice").SerializeToString()

    def make():
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(pyopnb.get_library_path())
        return onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])

    one = names_read(make)
    use_many_names(25)
    assert names_read(make) > 20 * one
    for op in list(pyopnb.registry):
        if op.name != "o::Twice":
            pyopnb.registry.remove(op.name)
    assert names_read(make) == one
