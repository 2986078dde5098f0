"""In which ways a model gives other numbers: each row is what runs by hand give."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from light import feeds, light
from onnx import ModelProto, TensorProto, helper, numpy_helper
from transformer import transformer

import pyopnb

ROWS = [
    "run to run",
    "1 thread",
    "no optimizations",
    "basic optimizations",
    "sample alone",
    "inputs + 1 ULP",
    "float64",
]
X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
REQUANTIZED = """(float[N,8] x) => (float[N,8] y) {
    s1 = Constant<value_float = 0.1>()
    s2 = Constant<value_float = 0.07>()
    z = Constant<value = uint8 {100}>()
    q = QuantizeLinear(x, s1, z)
    d = DequantizeLinear(q, s1, z)
    p = QuantizeLinear(d, s2, z)
    e = DequantizeLinear(p, s2, z)
    y = Relu(e)
}"""
ACROSS_SAMPLES = "(float[N,8] x) => (float[N,8] y) { a = Abs(x)  y = Softmax<axis = 0>(a) }"


def parsed(text: str) -> ModelProto:
    model = pyopnb.parse(text)
    model.ir_version, model.opset_import[0].version = 10, 21
    return model


def network(batch: str | int = "N") -> ModelProto:
    """Two layers whose sums are long enough to be rounded in several orders."""
    generator = np.random.default_rng(1)
    weights = []
    for name, shape in (("w1", (8, 300)), ("w2", (300, 5))):
        weights.append(
            numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        )
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Gelu", ["h"], ["g"]),
        helper.make_node("MatMul", ["g", "w2"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def plain(model: ModelProto, x: np.ndarray, level: str = "ORT_ENABLE_ALL", threads: int = 0):
    return outputs(model, {"x": x}, level, threads)[0]


def largest(row: pyopnb.diffs.run_stability.StabilityRow) -> float:
    facts = row.diff.worst.facts
    return float(facts.largest or 0.0)


def test_every_row_is_what_runs_by_hand_give() -> None:
    model = network()
    table = pyopnb.stability(model, X, yardstick=True)
    usual = plain(model, X)
    assert [row.name for row in table.rows] == ROWS
    ways = {
        "run to run": usual,
        "1 thread": plain(model, X, threads=1),
        "no optimizations": plain(model, X, "ORT_DISABLE_ALL"),
        "basic optimizations": plain(model, X, "ORT_ENABLE_BASIC"),
        "sample alone": np.concatenate([plain(model, X[i : i + 1]) for i in range(4)]),
    }
    for name, outputs in ways.items():
        assert largest(table[name]) == np.abs(outputs - usual).max(initial=0), name
    weights = [numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer]
    erf = np.vectorize(__import__("math").erf)
    hidden = X.astype(np.float64) @ weights[0]
    exact = (hidden / 2 * (1 + erf(hidden / 2**0.5))) @ weights[1]
    assert largest(table["float64"]) == np.abs(exact.astype(np.float32) - usual).max()
    # One unit in the last place of the inputs changes the outputs, but not by more than
    # their condition allows.
    assert 0 < largest(table["inputs + 1 ULP"]) < 1e-3
    assert table.ok and "steady in 7 ways" in str(table)


@pytest.mark.everywhere
@pytest.mark.parametrize("name", ["transformer", "squeezenet", "shufflenet", "inception_v1"])
def test_rows_of_networks_are_what_runs_by_hand_give(name: str) -> None:
    if name == "transformer":
        model = transformer(blocks=2)
        arrays = {"x": np.random.default_rng(0).standard_normal((3, 8, 32)).astype(np.float32)}
    else:
        model = light(name)
        arrays = feeds(model)
    table = pyopnb.stability(model, arrays)
    usual = outputs(model, arrays)
    ways = {
        "run to run": usual,
        "1 thread": outputs(model, arrays, threads=1),
        "no optimizations": outputs(model, arrays, "ORT_DISABLE_ALL"),
        "basic optimizations": outputs(model, arrays, "ORT_ENABLE_BASIC"),
    }
    if name == "transformer":
        alone = [outputs(model, {"x": arrays["x"][i : i + 1]}) for i in range(3)]
        ways["sample alone"] = [np.concatenate(parts) for parts in zip(*alone, strict=True)]
    else:
        assert table["sample alone"].reason == "the batch is fixed at 1"
    for way, results in ways.items():
        pairs = list(zip(results, usual, strict=True))
        error = max(np.abs(a.astype(float) - b).max() for a, b in pairs)
        sizes = [part.facts.largest or 0 for part in table[way].diff.parts if part.facts]
        assert max(sizes) == error, way
        axes = [1 if a.ndim >= 4 else -1 for a, _ in pairs]
        changed = [
            int((a.argmax(axis) != b.argmax(axis)).sum())
            for (a, b), axis in zip(pairs, axes, strict=True)
        ]
        assert [count for count, _ in table[way].argmax.values()] == changed, way


def test_zeros_stay_where_inputs_move() -> None:
    """They are padding more often than results, and below 0 a Log is NaN."""
    model = pyopnb.parse("(float[N,2] x) => (float[N,2] y) { y = Log(x) }")
    row = pyopnb.stability(model, np.float32([[0, 0], [0, 1]]))["inputs + 1 ULP"]
    assert row.diff is not None and row.ok and row.diff.worst.facts.differing == 1


def outputs(model: ModelProto, arrays: dict, level: str = "ORT_ENABLE_ALL", threads: int = 0):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def test_what_a_fusion_hides_says_what_finds_it() -> None:
    x = np.linspace(-5, 5, 48, dtype=np.float32).reshape(6, 8)
    table = pyopnb.stability(parsed(REQUANTIZED), x, search=True, yardstick=True)
    row = table["no optimizations"]
    assert not row.ok and not row.node and 'over="optimizers"' in row.reason
    assert table["basic optimizations"].diff.verdict == "bit-identical"
    assert "unsteady in 2 of 7 ways" in str(table)


@pytest.mark.parametrize("count", [1, 4])
def test_a_sample_that_depends_on_its_batch_leads_to_the_node(count: int) -> None:
    row = pyopnb.stability(parsed(ACROSS_SAMPLES), X[:count], search=True)["sample alone"]
    assert row.diff.verdict == "different" and row.node == "y (Softmax)"


def test_random_numbers_are_named_and_spoil_no_other_row() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("RandomNormalLike", ["a"], ["r"], name="noise"),
        helper.make_node("Add", ["a", "r"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    table = pyopnb.stability(model, X, search=True, yardstick=True)
    assert table["run to run"].node == "noise (RandomNormalLike)"
    assert table.headline.startswith("other numbers from run to run")
    assert all(row.node == "" for row in table.rows[1:])
    assert "differences between runs" in table["float64"].reason


def test_a_changed_argmax_is_counted() -> None:
    # Two classes that are apart by less than the rounding of their sums.
    model = parsed(
        "(float[N,2] x) => (float[N,2] y) { b = Constant<value_floats = [1.0e6, 1.0e6]>()  y = Add(x, b) }"
    )
    x = np.float32([[0.01, 0.02], [2, 1]])
    row = pyopnb.stability(model, x, yardstick=True)["float64"]
    exact = (x.astype(np.float64) + 1e6).astype(np.float32)
    changed = np.count_nonzero(exact.argmax(1) != (x + np.float32(1e6)).argmax(1))
    assert row.argmax["y"] == (changed, 2)
    swap = parsed("(float[N,2] x) => (float[N,2] y) { y = Softmax<axis = 0>(x) }")
    x = np.float32([[3, 1], [2, 5]])
    row = pyopnb.stability(swap, x)["sample alone"]
    usual = plain(swap, x)
    alone = np.concatenate([plain(swap, x[:1]), plain(swap, x[1:])])
    changed = np.count_nonzero(usual.argmax(1) != alone.argmax(1))
    assert row.argmax["y"] == (changed, 2) and changed > 0


def test_rows_that_cannot_be_say_why() -> None:
    table = pyopnb.stability(network(4), X)
    assert table["sample alone"].reason == "the batch is fixed at 4"
    integers = parsed("(int64[N] x) => (int64[N] y) { y = Neg(x) }")
    table = pyopnb.stability(integers, np.int64([1, 2]))
    assert table["inputs + 1 ULP"].reason == "no input has floats"
    assert "no axis of samples" in table["sample alone"].reason
    mean = parsed(
        "(float[N,8] x) => (float[1,8] y) { a = Constant<value_ints = [0]>()  y = ReduceMax(x, a) }"
    )
    assert "no output has a row" in pyopnb.stability(mean, X)["sample alone"].reason


def test_a_yardstick_in_another_precision_is_none() -> None:
    @pyopnb.pyop("stable::Half")
    class Half:
        def compute(self, x) -> "float32[N,8]":  # a type of pyopnb's
            return (x * 0.5).astype(np.float32)

    node = pyopnb.node("stable::Half", "x", "y")
    model = pyopnb.model([node], {"x": "float32[N,8]"}, "y")
    table = pyopnb.stability(model, X, yardstick=True)
    assert "computes in float32" in table["float64"].reason


def test_what_costs_most_waits_until_it_is_asked_for() -> None:
    """By default there are four sessions and thirteen runs, and what is left out says what to type."""
    calls = []

    @pyopnb.pyop("stable::Counted")
    class Counted:
        def compute(self, x):
            calls.append(x.dtype)
            return x + np.float32(len(x))

    node = pyopnb.node("stable::Counted", "x", "y")
    model = pyopnb.model([node], {"x": "float32[N,8]"}, "y")
    table = pyopnb.stability(model, X, rtol=0.0)
    # One run, 3 more, 3 other sessions, 4 samples and moved inputs, and none of them in float64.
    assert calls == [np.dtype(np.float32)] * 12
    row = table["sample alone"]
    assert not row.ok and row.node == "" and row.reason == "search=True finds the first node"
    assert table["float64"].diff is None and "float64: not run: yardstick=True" in str(table)
    assert "yardstick=True" in pyopnb.show(table)._repr_html_()
    table = pyopnb.stability(model, X, rtol=0.0, search=True, yardstick=True)
    assert table["sample alone"].node == "y (stable::Counted)"
    assert table["float64"].diff is not None and len(calls) > 24


def test_nodes_that_onnxruntime_lacks_are_filled() -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3, size, size])
        for name, size in (("x", 4), ("y", 2))
    ]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)], ir_version=3)
    x = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)
    with pytest.raises(pyopnb.errors.ModelError, match=r"Try: fill=True$"):
        pyopnb.stability(model, x)
    with pytest.warns(pyopnb.errors.Filled):
        table = pyopnb.stability(model, x, fill=True, yardstick=True)
    assert table.ok and table["float64"].diff is not None and table["sample alone"].diff is not None


def test_a_model_is_in_memory_once(open_sessions):
    model = pyopnb.model([pyopnb.node("Exp", "x", "y")], {"x": "float32[N,2]"}, "y")
    found = pyopnb.stability(model, np.float32([[0, 1], [2, 3]]))
    assert [row.name for row in found.rows][:2] == ["run to run", "1 thread"]
    assert (open_sessions.made, open_sessions.most) == (4, 1)
