"""Models in versions newer than the installed runtime takes, as ``onnx.helper.make_model`` writes them by default, in all that takes a model."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pyopnb
from pyopnb.engine.models import opset_versions as versions
from pyopnb.engine.models import ort_capabilities
from pyopnb.engine.models.opset_versions import new_imports
from pyopnb.engine.models.ort_capabilities import (
    newest_ir_version,
    newest_loaded_ir,
    newest_version,
)
from pyopnb.engine.runtime import notices
from pyopnb.errors import Filled

F = np.float32
X = F([1, -2])
RELU = [1, 0]
OPSET = onnx.defs.onnx_opset_version()
LOWERED = (f"IR version {newest_loaded_ir() + 1} → {newest_loaded_ir()}",) + (
    (f"opset {OPSET} → {newest_version('')}",) if newest_version("") < OPSET else ()
)


@pytest.fixture(autouse=True)
def nothing_was_said():
    notices._said.clear()
    yield
    notices._said.clear()


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.errors.VersionsLowered)
        yield


def newer(op_type="Relu", inputs="x", kind=TensorProto.FLOAT, **attrs):
    ends = [helper.make_tensor_value_info(name, kind, [2]) for name in inputs.split()]
    y = helper.make_tensor_value_info("y", kind, [2])
    graph = helper.make_graph(
        [helper.make_node(op_type, inputs.split(), ["y"], name="n", **attrs)], "g", ends, [y]
    )
    return helper.make_model(graph, ir_version=newest_loaded_ir() + 1)


def test_it_is_said_once_and_at_the_line_of_the_user():
    model = newer()
    with pytest.warns(pyopnb.errors.VersionsLowered) as said:
        session = pyopnb.Session(model)
    again = pyopnb.Session(model)  # a warning would be an error here
    session.trace(x=X)
    assert [one.filename for one in said] == [__file__]
    assert session(x=X)["y"].tolist() == RELU
    assert session.lowered == again.lowered == LOWERED
    assert str(said[0].message).startswith("lowered for onnxruntime ") and ", ".join(
        LOWERED
    ) in str(said[0].message)


def test_a_rebuilt_session_says_nothing_more(define, quiet):
    model = onnx.parser.parse_model(f"""<ir_version: {newest_loaded_ir() + 1}, opset_import: ["" : {OPSET}, "demo" : 1]>
        g (float[2] x) => (float[2] y, z) {{ y = Relu(x)  z = demo.Shift(y) }}""")
    text = """
        import pyopnb
        @pyopnb.pyop("demo::Shift")
        class Shift:
            def compute(self, y) -> "{0}[N]":
                return y.astype("{0}") + 1
        """
    define(text.format("float32"))
    session = pyopnb.Session(model)
    assert session(x=X)["z"].tolist() == [2, 1]
    define(text.format("float64"))
    notices._said.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert session(x=X)["z"].dtype == np.float64
    assert [one.category for one in said] == [pyopnb.errors.SessionRebuilt]
    assert session.lowered == LOWERED


def with_weight(size=2):
    model = newer("Add", "x w")
    del model.graph.input[1:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(size, F), "w"))
    return model


def test_bytes_paths_and_external_data(tmp_path, quiet):
    model = with_weight()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    outside = tmp_path / "outside.onnx"
    onnx.save(
        with_weight(), outside, save_as_external_data=True, location="weights", size_threshold=0
    )
    assert (tmp_path / "weights").stat().st_size
    apart = onnx.load(outside, load_external_data=False)
    for given, more in [
        (model, {}),
        (model.SerializeToString(), {}),
        (path, {}),
        (str(path), {}),
        (outside, {}),
        (apart, {"base_dir": tmp_path}),
        (apart.SerializeToString(), {"base_dir": tmp_path}),
    ]:
        session = pyopnb.Session(given, **more)
        assert session(x=X)["y"].tolist() == [2, -1]
        assert session.lowered == LOWERED


def test_run_trace_show_diff_and_missing(quiet):
    model = newer()
    assert pyopnb.run(model, x=X)["y"].tolist() == RELU
    assert pyopnb.trace(model, X)["y"].tolist() == RELU
    assert pyopnb.trace(model, X, on="reference")["y"].tolist() == RELU
    assert "Relu" in str(pyopnb.show(model))
    assert str(pyopnb.show(pyopnb.trace(model, X))).startswith("Trace of 1 node")
    assert not pyopnb.missing(model)
    assert pyopnb.diff(model, newer()).verdict == "identical"
    other = pyopnb.diff(pyopnb.trace(newer("Abs"), X), pyopnb.trace(model, X))
    assert other.first is not None
    assert pyopnb.fill(model).ir_version == newest_ir_version()
    assert pyopnb.Session(model, fill=True)(x=X)["y"].tolist() == RELU


@pytest.fixture
def older_runtime(monkeypatch):
    """A runtime that takes opset 12: the installed onnx always knows operators that changed since."""
    for module in (versions, ort_capabilities):
        monkeypatch.setattr(module, "newest_version", lambda domain: None if domain else 12)
    monkeypatch.setattr(versions, "newest_opset", lambda: 12)
    monkeypatch.setattr(versions, "_TAKEN", {})


def test_an_operator_that_differs_is_named_and_filled(older_runtime):
    model = newer("Softmax")
    wanted = rf"node 'n' \(::Softmax\): expected ai\.onnx up to version 12, .* got version {OPSET}, and Softmax changed in 13"
    with pytest.raises(
        pyopnb.errors.ModelError, match=wanted + r"\. Try: pyopnb\.Session\(model, fill=True\)"
    ):
        pyopnb.Session(model)
    assert [(row.node, row.kind) for row in pyopnb.missing(model)] == [("n", "opset too new")]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        session = pyopnb.Session(model, fill=True)
        again = pyopnb.Session(model, fill=True)
    assert session.lowered == again.lowered and f"opset {OPSET} → 12" in session.lowered
    filled, lowered, filled_again = said
    assert (
        "node 'n' (::Softmax): changed after version 12"
        in str(filled.message)
        == str(filled_again.message)
    )
    assert lowered.category is pyopnb.errors.VersionsLowered and lowered.filename == __file__
    assert str(lowered.message).endswith("session.filled lists those that run in their own version")
    np.testing.assert_allclose(session(x=X)["y"], np.exp(X) / np.exp(X).sum(), rtol=1e-6)


def test_a_dtype_that_only_the_newer_version_allows(older_runtime, quiet):
    model = newer("Relu", kind=TensorProto.INT32)  # from version 14 on
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"node 'n' \(::Relu\).*X is int32.*Try: pyopnb\.Session\(model, fill=True\)",
    ):
        pyopnb.Session(model)
    with pytest.warns(Filled, match=r"node 'n' \(::Relu\): X is int32"):
        assert pyopnb.Session(model, fill=True)(x=np.int32([1, -2]))["y"].tolist() == RELU


@pytest.mark.one_python
def test_onnx_node_tests_give_what_they_should_or_are_refused_by_name(node_tests, quiet):
    """Over the ONNX node tests that are too new for the runtime."""
    import node_tests as ways

    lowered = 0
    for name, case in node_tests.items():
        if not any(new_imports(case.model)):
            continue
        wrong = ways.outcome(
            case, lambda model, feeds: ways.run(pyopnb.Session(model), model, feeds)
        )
        assert wrong is None or wrong.startswith("ModelError: "), (name, wrong)
        lowered += wrong is None
    assert lowered > (100 if len(node_tests) > 1500 else 25) or newest_version("") >= OPSET


def test_the_newest_opset_runs_what_the_runtime_has_kernels_for_in_an_older_one(quiet):
    # onnxruntime 1.32 takes opset 28, and its DequantizeLinear has kernels up to 27.
    node = pyopnb.node("DequantizeLinear", ["x", "s"], "y")
    model = pyopnb.model(node, {"x": "int8[3]"}, "y", initializers={"s": F(0.5)}, opset=OPSET)
    assert not pyopnb.missing(model)
    assert pyopnb.Session(model)(x=np.int8([1, 2, 3]))["y"].tolist() == [0.5, 1.0, 1.5]
