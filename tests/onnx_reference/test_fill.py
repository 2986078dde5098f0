"""Models that the runtime cannot run, filled: the stand-ins, their results, the warnings, and the ONNX node tests."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import node_tests as ways
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.backend.test.case.test_case import TestCase
from systems import needs_getrusage

import pyopnb
from pyopnb.engine.models import opset_versions as versions
from pyopnb.engine.models import ort_capabilities
from pyopnb.engine.models.filled_node import FilledNode
from pyopnb.engine.models.opset_versions import changed_in
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset
from pyopnb.errors import Filled

ROOT = Path(pyopnb.__file__).parents[
    1
]  # where Python that is started anew finds the pyopnb under test

F = np.float32


def filled(model: Any, *arguments: Any, **named: Any) -> tuple[ModelProto, tuple[FilledNode, ...]]:
    """The filled model, and what was said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        whole = pyopnb.fill(model, *arguments, **named)
    nodes = tuple(node for one in said for node in one.message.nodes)
    assert len(said) == bool(nodes)
    return whole, nodes


def celu(alpha: float = 2.0, **named: Any) -> ModelProto:
    """A model that the runtime lacks a kernel for: its Celu takes float32 alone."""
    return pyopnb.model(
        pyopnb.node("Celu", "x", "y", name="act", alpha=alpha),
        {"x": "float64[N]"},
        {"y": "float64[N]"},
        **{"opset": 12, **named},
    )


CELU = [-2 * (1 - np.exp(-0.5)), 2.0]


# ---- stand-ins ----------------------------------------------------------------------------------------------------------


def test_what_is_said() -> None:
    with pytest.warns(Filled) as said:
        pyopnb.fill(celu())
    assert said[0].filename == __file__  # it points at the line that asked
    text = str(said[0].message)
    assert text.startswith(
        "1 Python node, run by the ONNX reference implementation:\n  node 'act' (::Celu): X is float64;"
    )
    assert str(pickle.loads(pickle.dumps(said[0].message))) == text


def test_two_versions_in_one_model() -> None:
    model = pyopnb.parse("""<opset_import: ["" : 13, "local" : 1]>
        (double[N] x) => (double[N] y) { z = Celu<alpha = 2.0>(x)  y = local.Old(z) }
        <domain: "local", opset_import: ["" : 12]> Old (a) => (b) { b = Celu<alpha = 2.0>(a) }""")
    whole, nodes = filled(model)
    assert len(nodes) == 2 and "function local::Old" in nodes[1].where
    np.testing.assert_allclose(pyopnb.Session(whole)(x=np.float64([2]))["y"], [2.0])


def test_nodes_in_a_body_that_read_from_outside() -> None:
    model = pyopnb.parse("""<opset_import: ["" : 13]> (bool c, double[N] x) => (double[N] y) {
        y = If(c) <then_branch = t () => (double[N] b) { b = Celu<alpha = 2.0>(x) },
                   else_branch = e () => (double[N] d) { d = Neg(x) }> }""")
    session = pyopnb.Session(filled(model)[0])
    np.testing.assert_allclose(session(c=np.array(True), x=np.float64([-1, 2]))["y"], CELU)
    assert session(c=np.array(False), x=np.float64([-1, 2]))["y"].tolist() == [1, -2]


def test_nodes_that_are_asked_for() -> None:
    model = pyopnb.model(
        [pyopnb.node("Softmax", "x", "a"), pyopnb.node("Neg", "a", "y")],
        {"x": "float32[2,2]"},
        {"y": "float32[2,2]"},
        opset=13,
    )
    whole, nodes = filled(model, nodes="Softmax")
    assert [(n.op, n.reason) for n in nodes] == [("onnx.reference::Softmax_13", "asked for")]
    x = F([[1, 2], [3, 5]])
    np.testing.assert_allclose(
        pyopnb.Session(whole)(x)["y"], pyopnb.Session(model)(x)["y"], rtol=1e-6
    )
    with pytest.raises(pyopnb.errors.ModelError, match="got none of these"):
        pyopnb.fill(model, nodes="Sotfmax")


# ---- newer than the runtime --------------------------------------------------------------------------------------------------


@pytest.fixture
def older_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The installed onnxruntime as if it loaded ONNX operators up to a version that every supported onnx is past."""
    loads, newest = ort_capabilities._loads, 22
    lists = newest_opset, ort_capabilities.newest_version

    def load(opset: int, ir_version: int, domain: str = "") -> bool:
        return (bool(domain) or opset <= newest) and loads(opset, ir_version, domain)

    monkeypatch.setattr(ort_capabilities, "_loads", load)
    monkeypatch.setitem(versions._TAKEN, "", newest)
    for each in lists:
        each.cache_clear()
    yield newest
    for each in lists:
        each.cache_clear()


def test_a_newer_opset_is_brought_down(older_runtime: int) -> None:
    model = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
    model.opset_import[0].version, model.ir_version = (
        onnx.defs.onnx_opset_version(),
        onnx.IR_VERSION,
    )
    whole, nodes = filled(model)
    assert (whole.opset_import[0].version, whole.ir_version, nodes) == (
        older_runtime,
        newest_ir_version(),
        (),
    )
    assert pyopnb.Session(whole)(x=F([-1]))["y"].tolist() == [1]


def test_an_operator_of_a_newer_opset_runs_in_its_own_version(older_runtime: int) -> None:
    since = onnx.defs.get_schema("Squeeze", onnx.defs.onnx_opset_version()).since_version
    assert changed_in("", "Squeeze", onnx.defs.onnx_opset_version(), older_runtime)
    model = pyopnb.model(pyopnb.node("Squeeze", "x", "y"), {"x": "float32[N,2,3]"}, "y")
    model.opset_import[0].version = onnx.defs.onnx_opset_version()
    whole, nodes = filled(model)
    assert [n.op for n in nodes] == [f"onnx.reference::Squeeze_{since}"]
    assert pyopnb.Session(whole)(F(np.arange(6).reshape(1, 2, 3)))["y"].tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]


# ---- what cannot be filled ---------------------------------------------------------------------------------------------------


def test_what_nobody_knows_is_left_and_named() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 12, "com.example" : 1]>
        g (double[N] x) => (double[N] z) { y = Celu<alpha = 2.0>(x)  [s] z = com.example.Scale(y) }""")
    whole, nodes = filled(model)
    left = [n for n in nodes if not n.op]
    assert (
        len(nodes) == 2
        and "node 's' (com.example::Scale)" in str(left[0])
        and "nor the catalog has it" in left[0].reason
    )

    class Scale:
        def compute(self, x):
            return 10 * x

    pyopnb.pyop("com.example::Scale")(Scale)  # by skeleton, for instance; before fill or after it
    np.testing.assert_allclose(pyopnb.Session(whole)(x=np.float64([2]))["z"], [20])
    assert [bool(n.op) for n in filled(model)[1]] == [True]


def test_an_op_of_the_user_s_own_stays() -> None:
    class Celu:
        def __init__(self, alpha: float):
            self.alpha = alpha

        def compute(self, x):
            return x + self.alpha

    pyopnb.pyop("::Celu")(Celu)
    model = celu()
    model.opset_import[0].version = onnx.defs.onnx_opset_version()
    whole, nodes = filled(model)
    assert nodes == () and pyopnb.Session(whole)(x=np.float64([1]))["y"].tolist() == [3]


# ---- sessions ----------------------------------------------------------------------------------------------------------------


def test_a_session_that_fills() -> None:
    with pytest.warns(Filled) as said:
        session = pyopnb.Session(celu(), fill=True)
    assert said[0].filename == __file__
    assert [node.op for node in session.filled] == ["onnx.reference::Celu_12"] and pyopnb.Session(
        filled(celu())[0]
    ).filled == ()
    np.testing.assert_allclose(session(x=np.float64([-1, 2]))["y"], CELU)


@pytest.mark.one_python  # long
def test_a_saved_model_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "filled.onnx"
    path.write_bytes(filled(celu())[0].SerializeToString())
    code = "import numpy, pyopnb, sys; print(pyopnb.Session(sys.argv[1], fill=True)(x=numpy.float64([-1, 2]))['y'])"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.stdout == f"{np.array(CELU)}\n", run.stderr


def test_rebuilding_a_session_keeps_what_was_filled() -> None:
    class More:
        def compute(self, x):
            return x + 1

    pyopnb.pyop("demo::More")(More)
    model = pyopnb.parse("""<opset_import: ["" : 12, "demo" : 1]>
        (double[N] x) => (y) { a = Celu<alpha = 2.0>(x)  y = demo.More(a) }""")
    with pytest.warns(Filled):
        session = pyopnb.Session(model, fill=True)
    np.testing.assert_allclose(session(x=np.float64([2]))["y"], [3])

    class Other:
        def compute(self, x) -> "float32[N]":
            return x.astype(F)

    pyopnb.pyop("demo::More")(Other)
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        assert session(x=np.float64([2]))["y"].dtype == F


# ---- weights -----------------------------------------------------------------------------------------------------------------


@needs_getrusage
def test_external_data_stay_where_they_are(tmp_path: Path) -> None:
    size = 1 << 26  # bytes; 64 MB
    model = celu()
    model.graph.initializer.append(
        TensorProto(name="w", data_type=11, dims=[size // 8], data_location=TensorProto.EXTERNAL)
    )
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(size))):
        model.graph.initializer[0].external_data.add(key=key, value=value)
    model.graph.node.append(helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("s", 11, []))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(size)
    code = """if True:
        import resource, sys, warnings, pyopnb
        warnings.simplefilter("ignore")
        pyopnb.reference("Celu", -1.0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        whole = pyopnb.fill(sys.argv[1])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, whole.ByteSize())
        print(*pyopnb.Session(whole)(x=[2.0]))
    """
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.onnx")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    grown, length = map(int, run.stdout.split("\n")[0].split())
    assert grown < size / 1024 / 4 and length < 10_000 and run.stdout.split("\n")[1] == "[2.] 0.0"


def test_a_kernel_that_refuses_an_attr() -> None:
    rng = np.random.default_rng(0)
    arrays = {"x": (2, 4, 3), "w": (1, 20, 3), "r": (1, 20, 5)}
    feeds = {name: rng.normal(size=shape).astype(F) for name, shape in arrays.items()}
    inputs = {"x": "float32[A,B,3]", "w": "float32[1,20,3]", "r": "float32[1,20,5]"}

    def outputs(layout: int) -> Any:
        node = pyopnb.node("LSTM", "x w r", "y", hidden_size=5, layout=layout)
        model, nodes = filled(pyopnb.model(node, inputs, {"y": "float32[C,D,E,F]"}, opset=14))
        return pyopnb.run(model, feeds)["y"], nodes

    batch_first, nodes = outputs(1)
    assert nodes[0].op == "onnx.reference::LSTM_14" and "layout" in nodes[0].reason
    feeds["x"] = feeds["x"].swapaxes(0, 1).copy()
    found, nodes = outputs(0)
    assert nodes == ()
    np.testing.assert_allclose(batch_first, found.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_float64(op: str, gates: int) -> None:
    # ONNX Runtime has kernels of two of them, which refuse float64 when they run.
    rng = np.random.default_rng(0)
    shapes = {"x": (4, 2, 3), "w": (1, 5 * gates, 3), "r": (1, 5 * gates, 5)}
    feeds = {name: rng.normal(size=shape) for name, shape in shapes.items()}

    def run(dtype: str) -> Any:
        inputs = {name: f"{dtype}{list(shape)}" for name, shape in shapes.items()}
        node = pyopnb.node(op, "x w r", "y", hidden_size=5, clip=0.5)
        model, nodes = filled(pyopnb.model(node, inputs, {"y": f"{dtype}[A,B,C,D]"}, opset=14))
        assert [one.op for one in nodes] == [f"onnx.reference::{op}_14"] * (dtype == "float64")
        return pyopnb.run(model, {name: value.astype(dtype) for name, value in feeds.items()})["y"]

    np.testing.assert_allclose(run("float64"), run("float32"), rtol=1e-4, atol=1e-6)


# ---- the ONNX node tests -------------------------------------------------------------------------------------------------------


@pytest.mark.one_python
def test_onnx_s_node_tests(node_tests: dict[str, TestCase]) -> None:
    report = ways.report(node_tests)
    print(report)
    passed = [sum(wrong is None for wrong in way.values()) for way in (report.plain, report.filled)]
    failing = {name for name, wrong in report.filled.items() if wrong}
    assert report.worse == []
    assert passed[1] > passed[0]
    if (onnx.__version__, onnxruntime.__version__) == ways.WRITTEN_FOR:
        assert len(node_tests) in (len(ways.sample()), 1884) and passed[1] >= len(node_tests) - 21
        assert failing <= ways.EXCEPTIONS.keys()  # a locale can be installed
