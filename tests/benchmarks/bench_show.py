"""The time of ``show`` of a model, with all its HTML: at most 60 ms for 300 nodes, and 1 s for 3,000."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from table import Row, milli, show, timed

import pyopnb

WIDTH = 64


class Network:
    """Blocks of a transformer, of 30 nodes each."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, inputs, [name], name=f"{op}_{len(self.nodes)}", **attrs)
        )
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(np.zeros(shape, np.float32))

    def constant(self, array: object) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def dense(self, x: str, takes: int, gives: int) -> str:
        return self.node(
            "Add", self.node("MatMul", x, self.weight(takes, gives)), self.weight(gives)
        )

    def heads(self, x: str, order: list[int]) -> str:
        split = self.node(
            "Reshape", self.dense(x, WIDTH, WIDTH), self.constant(np.array([0, 0, 4, 16]))
        )
        return self.node("Transpose", split, perm=order)

    def normal(self, x: str) -> str:
        return self.node("LayerNormalization", x, self.weight(WIDTH), self.weight(WIDTH), axis=-1)

    def block(self, x: str) -> str:
        inside = self.normal(x)
        q, k, v = (
            self.heads(inside, order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scaled = self.node("Div", self.node("MatMul", q, k), self.constant(np.float32(4)))
        mixed = self.node(
            "MatMul", self.node("Softmax", self.node("Add", scaled, "mask"), axis=-1), v
        )
        joined = self.node(
            "Reshape",
            self.node("Transpose", mixed, perm=[0, 2, 1, 3]),
            self.constant(np.array([0, 0, WIDTH])),
        )
        x = self.node("Add", x, self.dense(joined, WIDTH, WIDTH))
        wide = self.node("Gelu", self.dense(self.normal(x), WIDTH, 4 * WIDTH))
        return self.node("Add", x, self.dense(wide, 4 * WIDTH, WIDTH))


def network(blocks: int) -> onnx.ModelProto:
    """A transformer of that many blocks."""
    network, x = Network(), "x"
    for _ in range(blocks):
        x = network.block(x)
    inputs = [
        helper.make_tensor_value_info("x", 1, ["B", "S", WIDTH]),
        helper.make_tensor_value_info("mask", 1, ["B", 1, 1, "S"]),
    ]
    graph = helper.make_graph(
        network.nodes,
        "network",
        inputs,
        [helper.make_tensor_value_info(x, 1, ["B", "S", WIDTH])],
        network.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def rows() -> Iterator[Row]:
    for blocks, repeats, bar in ((1, 20, None), (10, 20, 60.0), (100, 3, 1000.0)):
        model = network(blocks)
        pyopnb.show(model)  # the first call imports the display
        best = timed({"show": lambda m=model: pyopnb.show(m)}, repeats)["show"]
        size = f"{len(pyopnb.show(model).body) / 1000:.0f} KB of HTML"
        yield Row(
            f"show, {30 * blocks:,} nodes of a transformer, milliseconds",
            milli(best),
            size,
            best * 1e3,
            bar,
        )
    for blocks in (32, 100):
        trace = pyopnb.Session(network(blocks)).trace(
            x=np.ones((1, 4, WIDTH), np.float32), mask=np.zeros((1, 1, 1, 4), np.float32)
        )
        best = timed({"show": lambda t=trace: pyopnb.show(t)}, 3)["show"]
        size = f"{len(pyopnb.show(trace).body) / 1000:.0f} KB of HTML"
        yield Row(
            f"show, a trace of {30 * blocks:,} nodes, milliseconds",
            milli(best),
            size,
            best * 1e3,
            1000.0,
        )
    view = pyopnb.show(network(11))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.png"
        best = timed({"save": lambda: view.save(path)}, 3)["save"]
        size = f"{path.stat().st_size / 1000:.0f} KB"
    yield Row("save a PNG of 330 nodes, milliseconds", milli(best), size, best * 1e3, 2000.0)


if __name__ == "__main__":
    show(rows())
