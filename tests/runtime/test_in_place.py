"""A Session where code has an ``onnxruntime.InferenceSession``: arguments and texts that other tests do not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from systems import needs_links

import pyopnb


def identity(dtype=TensorProto.STRING):
    ends = [helper.make_tensor_value_info(name, dtype, ["N"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


class Exported:
    """The result of the torch exporter, as far as it matters."""

    def __init__(self, model: Any) -> None:
        self.model_proto = model


class Written:
    """A function of onnxscript's, as far as it matters."""

    def to_model_proto(self) -> onnx.ModelProto:
        return identity(TensorProto.FLOAT)


@pytest.mark.parametrize("given", [Exported(identity(TensorProto.FLOAT)), Written()])
def test_what_holds_or_writes_a_model(given, tmp_path):
    assert pyopnb.Session(given)(x=[1])["y"].tolist() == [1]
    assert pyopnb.run(given, x=[2])["y"].tolist() == [2]
    assert len(pyopnb.missing(given)) == 0
    pyopnb.save(given, tmp_path / "m.onnx")
    assert pyopnb.Session(tmp_path / "m.onnx")(x=[3])["y"].tolist() == [3]
    assert pyopnb.diff(given, identity(TensorProto.FLOAT)).ok
    assert "Identity" in repr(pyopnb.show(given)) and "Identity" in pyopnb.text(given)


@pytest.mark.parametrize(("given", "got"), [(Exported(None), "Exported"), (Written, "type")])
def test_what_holds_none_is_refused(given, got):
    expected = f"expected a ModelProto, bytes or a path, got {got}"
    with pytest.raises(pyopnb.errors.ModelError, match=expected):
        pyopnb.Session(given)


# Initializers that options of the session have


def elsewhere(location="absent.bin"):
    """x + w, whose w is in a file that is not there."""
    model = identity(TensorProto.FLOAT)
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["y"]))
    w = model.graph.initializer.add(
        name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", location), ("offset", "0"), ("length", "8")):
        w.external_data.add(key=key, value=value)
    return model


def options_with(**arrays):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    return options, values


@pytest.mark.parametrize("kind", ["path", "proto"])
def test_initializers_that_options_have(tmp_path, kind, monkeypatch):
    path = tmp_path / "m.onnx"
    onnx.save(elsewhere(), path)
    model = path if kind == "path" else elsewhere()
    options, _keep = options_with(w=np.float32([10, 20]))
    session = pyopnb.Session(model, options)
    assert session(x=[1, 2])["y"].tolist() == [11, 22]
    # What no options have is still missed, in words, and is not taken from the folder in which the
    # process happens to be.
    monkeypatch.chdir(tmp_path)
    if kind == "proto":
        (tmp_path / "absent.bin").write_bytes(bytes(8))
    got = "a model in memory" if kind == "proto" else "absent.bin, which is no file in"
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    with pytest.raises(pyopnb.errors.ModelError, match=f"initializer w: expected .*, got {got}"):
        pyopnb.Session(model, quiet)
    with pytest.raises(pyopnb.errors.ModelError, match=f"initializer w: expected .*, got {got}"):
        pyopnb.Session(model)


@pytest.mark.parametrize("kind", ["path", "proto"])
@pytest.mark.parametrize("level", ["all", "summaries"])
def test_a_trace_runs_with_the_initializers_that_options_have(tmp_path, kind, level):
    path = tmp_path / "m.onnx"
    onnx.save(elsewhere(), path)
    options, _keep = options_with(w=np.float32([10, 20]))
    level_before = options.graph_optimization_level
    session = pyopnb.Session(path if kind == "path" else elsewhere(), options)
    traces = [session.trace(x=np.float32([n, n]), level=level) for n in (1, 2)]
    assert traces[0]["y"].tolist() == [11, 21]
    assert list(traces[0].summaries) == ["x", "y"]
    # It was no part of the model, so that the trace cannot have it.
    with pytest.raises(pyopnb.errors.ModelError, match="initializer w"):
        traces[0].initializers["w"]
    assert "already in the feeds" in str(pyopnb.diff(*traces)) and "of 1 node" in repr(
        pyopnb.show(traces[0])
    )
    assert session(x=[1, 2])["y"].tolist() == [11, 22]
    assert (options.graph_optimization_level, options.enable_profiling) == (level_before, False)


@pytest.mark.parametrize("folded", [False, True])
def test_an_initializer_of_the_options_replaces_a_weight_wherever_onnxruntime_does(
    folded,
):
    """Where the runtime folds the weight into a constant, it takes the file's: so do sessions."""
    weights = {"w": np.float32([1, 2]), "v": np.float32([0, 0])}
    nodes = [pyopnb.node("Add", ["x", "w"], "s"), pyopnb.node("Neg", "s", "y")]
    if folded:
        nodes = [pyopnb.node("Add", ["w", "v"], "c"), pyopnb.node("Add", ["x", "c"], "s"), nodes[1]]
    else:
        del weights["v"]

    def made(last):
        nodes[-1] = pyopnb.node(last, "s", "y")
        return pyopnb.model(nodes, {"x": "float32[2]"}, {"y": "float32[2]"}, initializers=weights)

    class Minus:
        def compute(self, x):
            return -x

    class TypedMinus:
        def compute(self, x: "float32[N]") -> "float32[N]":
            return -x

    options = onnxruntime.SessionOptions()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.float32([10, 20]))
    options.add_initializer("w", value)
    x = np.float32([0, 0])
    plain = onnxruntime.InferenceSession(
        made("Neg").SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    expected = plain.run(None, {"x": x})[0].tolist()
    assert expected == ([-1, -2] if folded else [-10, -20])
    assert pyopnb.Session(made("Neg"), options)(x=x)["y"].tolist() == expected
    pyopnb.registry.define(Minus, "demo::Minus")
    session = pyopnb.Session(made("demo::Minus"), options)
    assert session(x=x)["y"].tolist() == session.with_attrs()(x=x)["y"].tolist() == expected
    assert session.trace(x=x)["y"].tolist() == expected
    pyopnb.registry.define(TypedMinus, "demo::Minus")
    with pytest.warns(pyopnb.errors.SessionRebuilt):
        assert session(x=x)["y"].tolist() == expected
    trace = session.trace(x=x)
    assert (trace["y"].tolist(), trace.initializers["w"].tolist()) == (expected, [1, 2])


@needs_links
def test_options_open_no_other_files(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(8))
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "m.onnx"
    options, _keep = options_with(w=np.float32([10, 20]))
    for location in ("../secret", "../absent", "/etc/absent"):
        onnx.save(elsewhere(location), path)
        with pytest.raises(pyopnb.errors.ModelError, match="which leads elsewhere"):
            pyopnb.Session(path, options)
    (tmp_path / "model" / "link").symlink_to(tmp_path / "absent")
    onnx.save(elsewhere("link"), path)
    with pytest.raises(pyopnb.errors.ModelError, match="which leads elsewhere"):
        pyopnb.Session(path, options)


def test_the_folder_that_options_name(tmp_path):
    (tmp_path / "absent.bin").write_bytes(np.float32([1, 2]).tobytes())
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(tmp_path)
    )
    assert pyopnb.Session(elsewhere().SerializeToString(), options)(x=[0, 0])["y"].tolist() == [
        1,
        2,
    ]


def test_ops_beside_initializers_that_options_have():
    @pyopnb.pyop("demo::Add3")
    class Add3:
        def compute(self, x: "float32[N]") -> "float32[N]":
            return x + np.float32(3)

    model = elsewhere()
    model.graph.node[0].output[0] = "a"
    model.graph.node.append(helper.make_node("Add3", ["a"], ["y"], domain="demo"))
    model.opset_import.add(domain="demo", version=1)
    options, _keep = options_with(w=np.float32([10, 20]))
    assert pyopnb.Session(model, options)(x=[1, 2])["y"].tolist() == [14, 25]


def test_the_options_that_a_session_gives_back_make_another_session() -> None:
    @pyopnb.pyop("demo::Twice")
    class Twice:
        def compute(self, x):
            return x * 2

    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.Twice(x) }")
    first = pyopnb.Session(model, onnxruntime.SessionOptions())
    again = pyopnb.Session(model, first.get_session_options())
    assert again(x=[1, 2])["y"].tolist() == [2, 4]
