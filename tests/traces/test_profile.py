"""Profiles: every microsecond of each run belongs to a node, or is reported as unattributed; and nothing is there without one."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import numpy as np
import onnxruntime
import pytest
from light import feeds, light

import pyopnb
from pyopnb.traces import profiling as run_module
from pyopnb.traces.node_times import Profile

BODIES = """
(float[N,3,16,16] x, float[8,3,3,3] w, int64 n, bool go) => (float[N,8,14,14] y) {
    c = Conv(x, w)
    r = Relu(c)
    s = demo.Burn(r)
    l = Loop(n, go, s) <body = turn (int64 i, bool k, float[N,8,14,14] u) => (bool z, float[N,8,14,14] q) {
        z = Identity(k)  e = Exp(u)  q = demo.Burn(e)
    }>
    y = Neg(l)
}
"""


@pytest.fixture
def burn():
    @pyopnb.pyop("demo::Burn")
    class Burn:
        def compute(self, x):
            end = time.perf_counter() + 0.005
            while time.perf_counter() < end:
                pass
            return np.zeros_like(x)

    return Burn


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def with_bodies() -> tuple[pyopnb.Session, dict[str, Any]]:
    fed = {"x": drawn(1, 3, 16, 16), "w": drawn(8, 3, 3, 3), "n": np.int64(3), "go": np.array(True)}
    return pyopnb.Session(pyopnb.parse(BODIES)), fed


def adds_up(found: Profile) -> None:
    np.testing.assert_allclose(
        sum(node.totals for node in found.nodes) + found.unattributed, found.walls, rtol=1e-9
    )
    # The clocks of Python and ONNX Runtime are two, the latter of whole microseconds.
    assert (found.sessions <= found.walls + 2).all()
    assert (found.unattributed >= -len(found.nodes) - 2).all()
    shares = sum(found.share(node.totals) for node in found.nodes)
    assert abs(shares + found.share(found.unattributed) - 1) < 1e-9
    np.testing.assert_allclose(sum(found.op_types.values()), found.attributed)


def test_python_and_kernels_add_up_to_the_run(burn):
    session, fed = with_bodies()
    found = pyopnb.profile(session, fed, runs=4, warmup=1)
    adds_up(found)
    assert found.runs == found.asked == 4
    assert not [remark for remark in found.remarks if "interrupted" in remark]
    rows = [(node.node, node.op_type) for node in found.nodes]
    assert rows == [("c + r", "Conv + Relu"), ("s", "Burn"), ("l", "Loop"), ("y", "Neg")]
    alone, loop = found["s"], found["l"]
    # An op in a body is part of the time in Python of the node that the body belongs to.
    assert (alone.pythons >= 5_000).all() and (loop.pythons >= 15_000).all()
    assert found["y"].pythons is None
    np.testing.assert_allclose(found.pythons, alone.pythons + loop.pythons)
    assert (alone.kernels >= alone.pythons - 1).all() and (loop.kernels >= loop.pythons - 3).all()
    assert found.share(found.pythons) > 0.5


def test_a_network_of_convolutions_is_fused_as_the_sessions_own():
    model = light("squeezenet")
    session, fed = pyopnb.Session(model), feeds(model)
    found = pyopnb.profile(session, fed, runs=3, warmup=1)
    adds_up(found)
    assert any(node.op_type == "Conv + Relu" for node in found.nodes)
    assert found.share(found.unattributed) < 0.5


def test_an_ops_state_is_left_alone():
    @pyopnb.pyop("demo::Count")
    class Count:
        def __init__(self):
            self.calls = 0

        def compute(self, x):
            self.calls += 1
            return x + self.calls

    session = pyopnb.Session(pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.Count(x) }"))
    x = np.zeros(1, np.float32)
    assert session(x)["y"] == 1
    pyopnb.profile(session, x, runs=3)
    assert session(x)["y"] == 2


def test_the_users_options_and_attrs_hold(tmp_path):
    @pyopnb.pyop("demo::By")
    class By:
        def __init__(self, by: float = 1.0):
            self.by = np.float32(by)

        def compute(self, x):
            if self.by != 3:
                raise ValueError(self.by)
            return x * self.by

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "mine.onnx")
    model = pyopnb.parse(
        "(float[N] x) => (float[N] y) { a = Identity(x)  b = demo.By(a)  y = Identity(b) }"
    )
    session = pyopnb.Session(model, options, ["CPUExecutionProvider"], [{}])
    session.set_attrs(by=3.0)
    written = (tmp_path / "mine.onnx").stat().st_mtime_ns
    found = pyopnb.profile(
        session, onnxruntime.OrtValue.ortvalue_from_numpy(np.float32([1, 2])), runs=2
    )
    assert [node.node for node in found.nodes] == ["a", "b", "y"] and found.runtime.endswith(
        "no optimizations"
    )
    assert (tmp_path / "mine.onnx").stat().st_mtime_ns == written and not options.enable_profiling
    assert found.model.graph.node[1].attribute[0].f == 3


def test_a_parallel_session_is_measured_one_node_after_the_other():
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
    nodes = [
        pyopnb.node("Erf", "x", "a"),
        pyopnb.node("Erf", "x", "b"),
        pyopnb.node("Sum", ["a", "b"], "y"),
    ]
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y"), options)
    profile = pyopnb.profile(session, drawn(200_000), runs=3)
    adds_up(profile)
    assert "ORT_PARALLEL" in profile.remarks[0]
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL


def test_names_that_json_escapes_and_no_names():
    nodes = [
        pyopnb.node("Exp", "x", "a", name='q"\\\n'),
        pyopnb.node("Neg", "a", "b", name="Abs_2"),
        pyopnb.node("Abs", "b", "y"),
    ]
    found = pyopnb.profile(pyopnb.model(nodes, {"x": "float32[N]"}, "y"), drawn(10), runs=2)
    assert [node.node for node in found.nodes] == ['q"\\\n', "Abs_2", "y"]
    assert len(repr(found).splitlines()) == 2 + 1 + 3 + 2


# ---- what goes wrong -----------------------------------------------------------------------------------------------------------


def failing(error: type[BaseException], at: int) -> pyopnb.Session:
    @pyopnb.pyop("demo::Fails")
    class Fails:
        calls = 0

        def compute(self, x):
            type(self).calls += 1
            if type(self).calls == at:
                raise error("enough")
            return x

    return pyopnb.Session(pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.Fails(x) }"))


@pytest.mark.parametrize(("at", "where"), [(2, "in run 2 of 4 before the profile"), (5, "in run 1 of 2 to warm up"), (9, "in run 3 of 4 of the profile")])  # fmt: skip
def test_an_exception_arrives_as_itself(at, where):
    with pytest.raises(ValueError, match="enough") as raised:
        pyopnb.profile(failing(ValueError, at), drawn(2), runs=4, warmup=2)
    assert where in raised.value.__notes__


def test_an_interrupt_keeps_what_was_measured():
    found = pyopnb.profile(failing(KeyboardInterrupt, 9), drawn(2), runs=4, warmup=2)
    assert (found.runs, found.asked) == (2, 4) and found.remarks == [
        "interrupted after 2 of 4 runs"
    ]
    assert repr(found).startswith("Profile of 2 of 4 runs")
    adds_up(found)
    with pytest.raises(KeyboardInterrupt):
        pyopnb.profile(failing(KeyboardInterrupt, 7), drawn(2), runs=4, warmup=2)


def test_a_profile_that_is_full(monkeypatch):
    real = run_module.profiled_runs
    monkeypatch.setattr(
        run_module,
        "profiled_runs",
        lambda *given, **named: list(islice(real(*given, **named), 3)),
    )
    found = pyopnb.profile(
        pyopnb.parse("(float[N] x) => (float[N] y) { y = Neg(x) }"), drawn(2), runs=9, warmup=1
    )
    assert found.runs == 3 and found.remarks == [
        "the ONNX Runtime profile, which holds 1,000,000 events, was full after 3 runs"
    ]
    adds_up(found)
