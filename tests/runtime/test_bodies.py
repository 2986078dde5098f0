"""Ops wherever a node can stand: main graph, bodies, functions, inside each other; one instance a node a session."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnxruntime
import pytest

import pyopnb

X = np.float32([1, 2])


class Counted:
    """Adds how often this instance ran, and remembers all instances."""

    all: ClassVar[list[Counted]] = []

    def __init__(self, step: float = 1.0):
        self.step, self.runs = step, 0
        Counted.all.append(self)

    def compute(self, x):
        self.runs += 1
        return x + np.float32(self.step * self.runs)


@pytest.fixture(autouse=True)
def counting():
    Counted.all = []
    return pyopnb.pyop("t::Counted")(Counted)


def session_of(text):
    return pyopnb.Session(pyopnb.parse(text))


def test_in_the_branches_of_if():
    session = session_of("""(bool c, float[N] x) => (float[...] y) {
        y = If(c) <then_branch = t () => (float[N] a) { a = t.Counted<step = 1.0>(x) },
                   else_branch = e () => (float[N] b) { b = t.Counted<step = 10.0>(x) }> }""")
    assert session(c=np.array(True), x=X)["y"].tolist() == [2, 3]
    assert session(c=np.array(False), x=X)["y"].tolist() == [11, 12]
    assert session(c=np.array(True), x=X)["y"].tolist() == [3, 4]
    assert sorted((i.step, i.runs) for i in Counted.all) == [(1.0, 2), (10.0, 1)]


LOOP = """(int64 n, {kind} x) => ({kind} y) {{ y = Loop(n, "", x) <
    body = turn (int64 i, bool c, {kind} s) => (bool again, {kind} next) {{ again = Identity(c)  {body} }}> }}"""


def test_in_a_loop_body_whose_state_goes_on():
    session = session_of(LOOP.format(kind="float[N]", body="next = t.Counted(s)"))
    assert session(n=np.array(3), x=X)["y"].tolist() == [7, 8]
    assert [i.runs for i in Counted.all] == [3]
    assert session(n=np.array(0), x=X)["y"].tolist() == [1, 2]


def test_in_a_scan_body_in_a_loop_body():
    scan = """next = Scan<num_scan_inputs = 1,
        body = inner (float[2] row) => (float[2] out) { out = t.Counted(row) }>(s)"""
    session = session_of(LOOP.format(kind="float[M,2]", body=scan))
    got = session(n=np.array(2), x=np.zeros((3, 2), np.float32))["y"]
    assert got[:, 0].tolist() == [1 + 4, 2 + 5, 3 + 6]


# Functions

FUNCTION = '\n<domain: "local", opset_import: ["" : {opset}, "t" : {version}]> F <{attrs}> (u) => (v) {{ {body} }}'


def with_function(text, body, opset=20, version=1, attrs=""):
    head = '<opset_import: ["" : 20, "local" : 1]> '
    function = FUNCTION.format(body=body, opset=opset, version=version, attrs=attrs)
    return head + text + function.replace("<>", "")


def test_a_function_called_twice_has_two_instances():
    graph = "(float[N] x) => (float[...] y) { m = local.F(x)  y = local.F(m) }"
    session = session_of(with_function(graph, "v = t.Counted(u)"))
    assert session(X)["y"].tolist() == [3, 4]
    assert session(X)["y"].tolist() == [5, 6]
    assert [i.runs for i in Counted.all if i.runs] == [2, 2]


def test_a_function_of_another_opset_runs_where_its_types_are_declared():
    graph = "(float[N] x) => (float[...] y) { y = local.F(x) }"
    session = session_of(with_function(graph, "v = t.Counted(u)", opset=17, version=7))
    assert session(X)["y"].tolist() == [2, 3]


def test_an_op_in_an_if_in_a_function():
    body = """sum = ReduceSum<keepdims = 0>(u)  zero = Constant<value_float = 0.0>()  c = Greater(sum, zero)
        v = If(c) <then_branch = t () => (float[N] a) { a = t.Counted(u) },
                   else_branch = e () => (float[N] b) { b = Neg(u) }>"""
    session = session_of(with_function("(float[N] x) => (float[...] y) { y = local.F(x) }", body))
    assert session(X)["y"].tolist() == [2, 3]
    assert session(-X)["y"].tolist() == [1, 2]


def test_an_op_with_infer_in_a_function_called_twice():
    class Grows:
        def __init__(self, by: int):
            self.by = by

        def infer(self, x):
            return x.like(shape=[x.shape[0] * self.by])

        def compute(self, x):
            return np.tile(x, self.by)

    pyopnb.registry.define(Grows, "t::Grows")
    graph = "(float[2] x) => (y) { m = local.F<by = 2>(x)  y = local.F<by = 3>(m) }"
    session = session_of(with_function(graph, "v = t.Grows<by: int = @by>(u)", attrs="by"))
    assert session.get_outputs()[0].shape == [12]
    assert session(X)["y"].shape == (12,)


# Runs inside compute


def single(op="t::Counted"):
    node = pyopnb.node(op, "x", "y", name="n")
    return pyopnb.model([node], {"x": "float32[N]"}, {"y": "float32[...]"})


def fails(self, x):
    raise KeyError("inner")


def test_a_session_that_is_running_can_be_run_by_its_op():
    sessions: list[pyopnb.Session] = []

    class Again:
        def compute(self, x):
            return sessions[0](x - np.float32(1))["y"] if x[0] > 0 else x

    pyopnb.registry.define(Again, "t::Again")
    sessions.append(pyopnb.Session(single("t::Again")))
    assert sessions[0](np.float32([3]))["y"].tolist() == [0]


def test_an_error_of_a_session_in_compute_passes_through_both():
    class Outer:
        def __init__(self):
            self.inner = pyopnb.Session(single("t::Fails"))

        def compute(self, x):
            return self.inner(x)["y"]

    pyopnb.registry.define(type("Fails", (), {"compute": fails}), "t::Fails")
    pyopnb.registry.define(Outer, "t::Outer")
    with pytest.raises(KeyError, match="inner") as caught:
        pyopnb.Session(single("t::Outer"))(X)
    notes = "\n".join(caught.value.__notes__)
    assert "t::Fails" in notes and "t::Outer" in notes


def bare_session(op):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(pyopnb.get_library_path())
    model = single(op).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("op", ["t::Counted", "t::Fails"])
def test_a_bare_session_in_compute(op):
    class Bare:
        def __init__(self):
            self.inner = bare_session(op)

        def compute(self, x):
            quiet = onnxruntime.RunOptions()
            quiet.log_severity_level = 4
            return self.inner.run(None, {"x": x}, quiet)[0]

    pyopnb.registry.define(type("Fails", (), {"compute": fails}), "t::Fails")
    pyopnb.registry.define(Bare, "t::Bare")
    session = pyopnb.Session(single("t::Bare"))
    if op == "t::Counted":
        assert [session(X)["y"].tolist() for _ in range(2)] == [[2, 3], [3, 4]]
        return
    with pytest.raises(Exception, match="KeyError: 'inner'") as caught:
        session(X)
    assert type(caught.value).__name__ == "Fail"  # it is an error of the runtime


# Instances


def test_one_instance_a_node_a_session():
    model = pyopnb.parse("(float[N] x) => (float[...] y) { m = t.Counted(x)  y = t.Counted(m) }")
    first, second = pyopnb.Session(model), pyopnb.Session(model)
    assert len(Counted.all) == 4
    assert [s(X)["y"].tolist() for s in (first, first, second)] == [[3, 4], [5, 6], [3, 4]]
