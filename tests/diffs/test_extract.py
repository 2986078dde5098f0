"""The part of a model between some of its tensors computes what the model does there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import pyopnb

X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def network() -> ModelProto:
    generator = np.random.default_rng(1)
    weights = []
    for name in ("w1", "w2"):
        array = generator.standard_normal((64, 64)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, name))
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["m"]),
        helper.make_node("Add", ["m", "x"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 64]) for n in "xyz"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(
    ("inputs", "outputs", "op_types", "names"),
    [
        ("r", "m", ["MatMul"], ["r"]),
        ("r", "y", ["MatMul", "Add"], ["r", "x"]),
        (["x", "r"], ["z", "m"], ["MatMul", "Neg"], ["r"]),
        (None, "h", ["MatMul"], ["x"]),
        ("m", None, ["MatMul", "Relu", "Add", "Neg"], ["m", "x"]),
    ],
)
def test_a_cut_gives_the_numbers_of_the_whole(inputs, outputs, op_types, names) -> None:
    trace = pyopnb.trace(network(), X)
    before = trace.model.SerializeToString()
    cut, feeds = pyopnb.extract(trace, inputs, outputs)
    onnx.checker.check_model(cut)
    assert [node.op_type for node in cut.graph.node] == op_types
    assert list(feeds) == [info.name for info in cut.graph.input] == names
    for name, array in pyopnb.run(cut, feeds).items():
        assert np.allclose(array, trace[name], rtol=1e-5, atol=1e-5)
    assert trace.model.SerializeToString() == before
    # Without a trace, the same model is cut.
    again = pyopnb.extract(network(), inputs, outputs)
    assert again.feeds == {}
    assert [node.op_type for node in again.model.graph.node] == op_types
    assert pyopnb.run(again.model, feeds).keys() == pyopnb.run(cut, feeds).keys()


def test_weights_in_a_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(), path, save_as_external_data=True, size_threshold=0)
    trace = pyopnb.trace(path, X)
    for whole in (path, trace):
        cut = pyopnb.extract(whole, "r", "m").model
        assert np.allclose(pyopnb.run(cut, trace["r"])["m"], trace["m"], rtol=1e-5, atol=1e-5)


def sparse_network() -> ModelProto:
    model = network()
    weight = numpy_helper.to_array(model.graph.initializer.pop(1))
    rows, columns = np.nonzero(weight > 1)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(weight[rows, columns], "w2"),
        numpy_helper.from_array(rows * 64 + columns, "indices"),
        weight.shape,
    )
    model.graph.sparse_initializer.append(sparse)
    return model


def test_sparse_weights_are_taken_along() -> None:
    trace = pyopnb.trace(sparse_network(), X)
    for whole in (sparse_network(), trace):
        cut = pyopnb.extract(whole, "r", "m").model
        assert np.array_equal(pyopnb.run(cut, trace["r"])["m"], trace["m"])
        assert not pyopnb.extract(whole, "x", "h").model.graph.sparse_initializer


def test_nodes_that_read_sparse_weights_run_alone() -> None:
    other = sparse_network()
    other.graph.node[1].op_type = "Abs"
    found = pyopnb.diff(pyopnb.trace(other, X), pyopnb.trace(sparse_network(), X))
    assert "r (Relu)" in str(found) and "not run in isolation" not in str(found)
    with pytest.raises(pyopnb.errors.ModelError, match="initializer w2: expected a dense one"):
        pyopnb.trace(other, X, on="reference")


def test_what_bodies_read_is_taken_along() -> None:
    model = pyopnb.parse("""(float[N] x, bool c) => (float[N] y) {
        a = Abs(x)
        b = Neg(x)
        y = If(c) <
            then_branch = t () => (float[N] u) { u = Exp(a) },
            else_branch = e () => (float[N] v) { v = Identity(b) }
        >
    }""")
    model.ir_version, model.opset_import[0].version = 10, 21
    trace = pyopnb.trace(model, np.float32([1, -2]), np.array(True))
    cut, feeds = pyopnb.extract(trace, "a", "y")
    assert set(feeds) == {"a", "c", "x"}
    assert np.array_equal(pyopnb.run(cut, feeds)["y"], trace["y"])


def test_wrong_names_are_refused() -> None:
    model = network()
    with pytest.raises(pyopnb.errors.InputError, match="outputs: .* got 'x'"):
        pyopnb.extract(model, "x", "x")
    with pytest.raises(pyopnb.errors.InputError, match="inputs: .* got 'q'"):
        pyopnb.extract(model, "q", "y")
    with pytest.raises(pyopnb.errors.InputError, match="at least one name"):
        pyopnb.extract(model, "r", [])
    summaries = pyopnb.trace(model, X, level="summaries")
    with pytest.raises(pyopnb.errors.InputError, match="a trace with it"):
        pyopnb.extract(summaries, "r", "m")


@pytest.mark.parametrize("cut_at", ["q", "s", ["q", "z"]])
def test_a_node_that_is_needed_for_another_of_its_outputs(cut_at: str | list[str]) -> None:
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 20]> g (float[4] x) => (float[4] y)
        { q, s, z = DynamicQuantizeLinear(x)  q_unread = Cast<to = 1>(q)  y = DequantizeLinear(q, s, z) }""")
    trace = pyopnb.trace(model, x=np.float32([1, 2, 3, 4]))
    cut = pyopnb.extract(trace, cut_at, "y")
    onnx.checker.check_model(cut.model)
    assert sorted(cut.feeds) == sorted(["x", *cut_at])
    np.testing.assert_array_equal(pyopnb.run(*cut)["y"], trace["y"])
    assert (
        pyopnb.run(*pyopnb.extract(trace, "q", ["y", "q_unread"]))["q_unread"].dtype == np.float32
    )


def test_a_session_and_a_model_in_memory_whose_weights_are_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(), path, save_as_external_data=True, size_threshold=0)
    trace = pyopnb.trace(path, X)
    read = onnx.load(path, load_external_data=False)
    for cut in (
        pyopnb.extract(pyopnb.Session(path), "r", "m"),
        pyopnb.extract(read, "r", "m", base_dir=tmp_path),
        pyopnb.extract(path.read_bytes(), "r", "m", base_dir=tmp_path),
    ):
        assert np.allclose(pyopnb.run(cut.model, trace["r"])["m"], trace["m"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["inner", "z/then_branch/inner"])
def test_a_tensor_of_a_body_is_refused_with_the_node_around_it(name: str) -> None:
    model = pyopnb.parse("""(float[2] x, bool c) => (float[2] y) { a = Abs(x)
        z = If(c) <then_branch = t () => (float[2] p) { inner = Exp(a)  p = Neg(inner) },
                   else_branch = e () => (float[2] q) { q = Identity(a) }>
        y = Neg(z) }""")
    message = f"^extract, outputs: expected a tensor of the main graph, got '{name}', in a body of the node of output 'z'. Try: 'z'$"
    with pytest.raises(pyopnb.errors.InputError, match=message):
        pyopnb.extract(model, "a", name)


def test_an_unread_output_keeps_the_type_that_the_model_declares() -> None:
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 20]> g (float[4] x) => (float[2] y, float[4] rest)
        { y, rest = test.Halves(x) }""")
    cut = pyopnb.extract(model, None, "y").model
    assert [info.name for info in cut.graph.output] == ["y"]
    assert [info.name for info in cut.graph.value_info] == ["rest"]
