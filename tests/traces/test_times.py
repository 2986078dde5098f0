"""Times of whole networks: every microsecond belongs to a node, or is reported as unattributed."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from light import LIGHT, feeds, light
from onnx import ModelProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from transformer import transformer

import pyopnb
from pyopnb.engine.models.protos import first_output
from pyopnb.traces import run as run_module
from pyopnb.traces import shadow_session
from pyopnb.traces.times import Times

Network = tuple[ModelProto, dict[str, np.ndarray]]

_NOISE = 30  # attempts: other processes can have the processor just before a run's first node


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def convolutions() -> Network:
    """The issue's: two convolutions with activations."""
    nodes = [
        pyopnb.node("Conv", ["x", "w", "b"], "c", pads=[1, 1, 1, 1], name="conv1"),
        pyopnb.node("Relu", "c", "r", name="relu1"),
        pyopnb.node("Conv", ["r", "v", "d"], "e", pads=[1, 1, 1, 1]),
        pyopnb.node("Sigmoid", "e", "y"),
    ]
    weights = {"w": drawn(16, 3, 3, 3), "b": drawn(16), "v": drawn(32, 16, 3, 3), "d": drawn(32)}
    # Not the newest opset: a runtime may know one before it has kernels for what
    # quantization puts into it.
    return pyopnb.model(nodes, {"x": "float32[N,3,64,64]"}, "y", opset=21, initializers=weights), {
        "x": drawn(2, 3, 64, 64)
    }


def attention() -> Network:
    return transformer(blocks=2), {"x": drawn(4, 64, 32)}


class Examples(CalibrationDataReader):
    def __init__(self, *feeds: dict[str, np.ndarray]) -> None:
        self.left = list(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantized(make: Callable[[], Network], folder: Any) -> Network:
    """Quantization by ONNX Runtime: QuantizeLinear and DequantizeLinear around every node."""
    model, fed = make()
    path = folder / "quantized.onnx"
    logging.disable()
    try:
        quantize_static(model, path, Examples(fed), quant_format=QuantFormat.QDQ)
    finally:
        logging.disable(logging.NOTSET)
    return onnx.load(path), fed


BODIES = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
bodies (float[N] x, bool c, int64 n, bool go) => (float[N] y, float[N] z) {
    a = Exp(x)
    b = If (c) <then_branch = yes () => (float[N] t) { u = Neg(a)  t = Relu(u) }, else_branch = no () => (float[N] e) { e = Neg(a) }>
    s = local.Wave(b)
    y = Sqrt(s)
    z = Loop(n, go, s) <body = turn (int64 i, bool k, float[N] v) => (bool l, float[N] w) { l = Identity(k)  q = Exp(v)  w = Neg(q) }>
}
<domain: "local", opset_import: ["" : 18]>
Wave (p) => (q) { h = Abs(p)  i = Sin(h)  q = Cos(i) }
"""


def bodies() -> Network:
    fed = {"x": drawn(300_000), "c": np.bool_(True), "n": np.int64(3), "go": np.bool_(True)}
    return onnx.parser.parse_model(BODIES), {name: np.asarray(value) for name, value in fed.items()}


def with_op() -> Network:
    @pyopnb.pyop("demo::Bend")
    class Bend:
        def compute(self, x):
            return np.tanh(x)

    nodes = [
        pyopnb.node("Exp", "x", "a"),
        pyopnb.node("demo::Bend", "a", "b"),
        pyopnb.node("Neg", "b", "y"),
    ]
    return pyopnb.model(nodes, {"x": "float32[N]"}, "y"), {"x": drawn(1_200_000)}


def without_constants(model: ModelProto) -> set[str]:
    """The first outputs of the nodes that a feed goes into."""
    fed = {info.name for info in model.graph.input} - {
        tensor.name for tensor in model.graph.initializer
    }
    for node in model.graph.node:
        if fed & {*node.input} or any(attribute.HasField("g") for attribute in node.attribute):
            fed.update(node.output)
    return {first_output(node) for node in model.graph.node if fed & {*node.output}}


def whole(model: ModelProto, fed: dict[str, np.ndarray], **wanted: Any) -> Times:
    """The times of a run, nearly all of which belongs to some node: every node's, and each node's once."""
    session = pyopnb.Session(model)
    for _ in range(_NOISE):
        times = session.trace(fed, check=False, **wanted).times
        assert times is not None
        assert math.isclose(times.attributed + times.unattributed, times.total, rel_tol=1e-6)
        assert all(
            time.total >= 0 and 0 <= time.kernel <= time.total + 1 for time in times.values()
        )
        listed = [name for key, time in times.items() for name in time.outputs or (key,)]
        assert len(listed) == len(set(listed))
        assert (
            without_constants(model)
            <= set(listed)
            <= {first_output(node) for node in model.graph.node}
        )
        if times.unattributed < 0.05 * times.total:
            return times
    pytest.fail(f"{times} in each of {_NOISE} runs")


def without_classifier(model: ModelProto) -> ModelProto:
    """The network up to the first Reshape, where the matrices of some hundred megabytes begin behind it."""
    if model.ByteSize() > 150_000_000:
        end = next(
            index for index, node in enumerate(model.graph.node) if node.op_type == "Reshape"
        )
        last = model.graph.node[end - 1].output[0]
        del model.graph.node[end:], model.graph.output[:]
        model.graph.output.add(name=last)
        read = {name for node in model.graph.node for name in node.input}
        for tensor in [tensor for tensor in model.graph.initializer if tensor.name not in read]:
            model.graph.initializer.remove(tensor)
        for info in [info for info in model.graph.input if info.name not in read]:
            model.graph.input.remove(info)
    return model


# The others take 4 to 12 s each.
SHORT = "squeezenet"


@pytest.mark.one_python
@pytest.mark.parametrize(
    "name",
    [name if name == SHORT else pytest.param(name, marks=pytest.mark.everywhere) for name in LIGHT],
)
def test_networks_that_come_with_onnx(name: str) -> None:
    model = without_classifier(light(name))
    fused = whole(model, feeds(model), only=model.graph.output[0].name)
    assert any(time.outputs for time in fused.values()), "no node was fused"
    whole(model, feeds(model))


@pytest.mark.parametrize(
    "make", [convolutions, attention, bodies, with_op], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("level", ["all", "summaries"])
def test_networks_of_these_tests(make: Callable[[], Network], level: str) -> None:
    times = whole(*make(), level=level)
    assert (times.looking > 0) == (level == "summaries")


@pytest.mark.parametrize("make", [convolutions, attention], ids=lambda make: make.__name__)
def test_quantized_networks(make: Callable[[], Network], tmp_path: Any) -> None:
    model, fed = quantized(make, tmp_path)
    whole(model, fed)
    times = whole(model, fed, only=model.graph.output[0].name)
    assert (
        "DequantizeLinear + Conv + QuantizeLinear" in {time.op_type for time in times.values()}
        or make is attention
    )
    assert max(len(time.outputs) for time in times.values()) <= 6


def test_convolutions_have_times_by_their_names() -> None:
    model, fed = convolutions()
    times = whole(model, fed)
    assert {name: (time.node, time.op_type) for name, time in times.items()} == {
        "c": ("conv1", "Conv"),
        "r": ("relu1", "Relu"),
        "e": ("e", "Conv"),
        "y": ("y", "Sigmoid"),
    }
    fused = whole(model, fed, only="y")
    assert [time.node for time in fused.values()] == ["conv1 + relu1", "e + y"]
    assert fused["c"] is fused["r"] and fused["c"].outputs == ("c", "r") and "c" not in fused
    text = repr(pyopnb.Session(model).trace(fed, only=["r", "y"]))
    assert "s (conv1 + relu1)" in text and "not attributed to a node" in text


def test_residual_sums_are_where_they_were_fused() -> None:
    model = light("resnet50")
    times = whole(model, feeds(model), only=model.graph.output[0].name)
    groups = [time.op_type for time in times.values()]
    assert (
        groups.count("Conv + BatchNormalization + Sum + Relu") == 16
        and groups.count("Conv + BatchNormalization + Relu") > 20
    )


def test_bodies_and_functions_count_for_their_nodes() -> None:
    model, fed = bodies()
    times = whole(model, fed, only=["y", "z"])
    assert (
        list(times) == ["a", "b", "s", "y", "z"]
        and times["z"].op_type == "Loop"
        and times["s"].op_type == "Wave"
    )
    looked = whole(model, fed, bodies=True)
    assert looked.looking > 0 and list(looked) == list(times)


def test_parallel_execution_shares_the_run() -> None:
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
    names = [f"b{number}" for number in range(4)]
    nodes = [pyopnb.node("Erf", "x", name) for name in names]
    model = pyopnb.model([*nodes, pyopnb.node("Sum", names, "y")], {"x": "float32[N]"}, "y")
    times = pyopnb.Session(model, options).trace(x=drawn(1_000_000)).times
    assert times is not None and list(times) == [*names, "y"]
    assert (
        math.isclose(times.attributed + times.unattributed, times.total)
        and times.attributed <= times.total
    )
    assert sum(time.kernel for time in times.values()) > 0


# ---- what it costs -----------------------------------------------------------------------------------------------------------


def test_nothing_is_measured_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "profiled_runs", None)
    monkeypatch.setattr(shadow_session.onnx, "load", None)
    model, fed = with_op()
    assert pyopnb.Session(model).trace(fed, times=False).times is None
    with pytest.raises(TypeError):
        pyopnb.Session(model).trace(fed)


@pytest.mark.skipif(os.name != "posix", reason="needs a null device that a link can lead to")
def test_the_weights_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, int] = {}

    def load(path: str, **options: Any) -> ModelProto:
        folder = os.path.dirname(path)
        sizes.update(
            {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
        )
        return real(path, **options)

    real = onnx.load
    monkeypatch.setattr(shadow_session.onnx, "load", load)
    nodes = [pyopnb.node("MatMul", ["x", "w"], "a"), pyopnb.node("Relu", "a", "y")]
    model = pyopnb.model(
        nodes, {"x": "float32[N,1000]"}, "y", initializers={"w": drawn(1000, 1000)}
    )
    assert list(whole(model, {"x": drawn(100, 1000)})) == ["a", "y"]
    assert "executed.onnx" in sizes and sum(sizes.values()) < 10_000 < model.ByteSize()
