"""Forty small networks of eight kinds, each with one fault, which is named whatever fits into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

import pyopnb
from pyopnb import first_divergence
from pyopnb.engine import protos

WIDTH = 8
BENDS = ("Tanh", "Sigmoid", "Softplus", "Elu", "LeakyRelu", "Gelu")


class Limit:
    """Stay within a limit."""

    def __init__(self, limit: float = 1.0) -> None:
        self.limit = limit

    def compute(self, x: Any) -> Any:
        return (self.limit * np.tanh(x / self.limit)).astype(x.dtype)


class Bow:
    """Bend in another way than a limit."""

    def __init__(self, limit: float = 1.0) -> None:
        self.limit = limit

    def compute(self, x: Any) -> Any:
        return (x / (self.limit + np.abs(x))).astype(x.dtype)


# ---- networks ------------------------------------------------------------------------------------


class Network:
    """A graph in the making."""

    def __init__(self, seed: int) -> None:
        self.drawn = np.random.default_rng(seed)
        self.dtype: Any = np.float32
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def weight(self, *shape: int) -> str:
        values = self.drawn.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return self.constant(values.astype(self.dtype))

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attrs: Any) -> str:
        number = len(self.nodes)
        names = [f"t{number}" + "abc"[:n] for n in range(outputs)]
        self.nodes.append(pyopnb.node(op_type, list(inputs), names, f"n{number}", **attrs))
        return names[0]

    def bend(self, x: str) -> str:
        return self.node(str(self.drawn.choice(BENDS)), x)

    def linear(self, x: str) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(WIDTH, WIDTH)), self.weight(1))

    def residual(self, x: str) -> str:
        return self.node("Add", x, self.bend(self.linear(x)))

    def body(self, x: str, *state: ValueInfoProto) -> GraphProto:
        """Return a body that reads a tensor from outside, or its last input."""
        name = f"b{len(self.weights)}"
        bends = map(str, self.drawn.choice(BENDS, 2))
        nodes = [pyopnb.node("Mul", [x, self.weight(WIDTH)], f"{name}_m")]
        nodes += [
            pyopnb.node(bend, f"{name}_{read}", f"{name}_{made}")
            for bend, read, made in zip(bends, "mp", "pq", strict=True)
        ]
        made = [helper.make_tensor_value_info(f"{name}_q", TensorProto.FLOAT, None)]
        if len(state) == 3:  # of a Loop
            nodes.append(pyopnb.node("Identity", state[1].name, f"{name}_again"))
            made.insert(0, helper.make_tensor_value_info(f"{name}_again", TensorProto.BOOL, []))
        return helper.make_graph(nodes, name, state, made)


def conv(net: Network) -> tuple[str, tuple[int, ...]]:
    x = "x"
    for channels in (3, WIDTH, WIDTH):
        x = net.node("Conv", x, net.weight(WIDTH, channels, 3, 3), pads=[1, 1, 1, 1])
        x = net.bend(x)
    x = net.node("MaxPool", x, kernel_shape=[2, 2])
    x = net.node("Flatten", net.node("GlobalAveragePool", net.bend(x)))
    return net.linear(x), (1, 3, 8, WIDTH)


def transformer(net: Network) -> tuple[str, tuple[int, ...]]:
    x = "x"
    for _ in range(2):
        q, k, v = (net.linear(x) for _ in "qkv")
        scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 2, 1]))
        mixed = net.node("MatMul", net.node("Softmax", scores), v)
        x = net.residual(net.node("Add", x, net.linear(mixed)))
        x = net.node("LayerNormalization", x, net.weight(WIDTH))
    return x, (1, 5, WIDTH)


def recurrent(net: Network) -> tuple[str, tuple[int, ...]]:
    x = net.residual("x")
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        weights = net.weight(1, gates * WIDTH, WIDTH), net.weight(1, gates * WIDTH, WIDTH)
        x = net.node(op, x, *weights, hidden_size=WIDTH)
        x = net.residual(net.node("Squeeze", x, net.constant(np.array([1]))))
    return x, (5, 1, WIDTH)


def branches(net: Network) -> tuple[str, tuple[int, ...]]:
    x = "x"
    for taken in (True, False):
        x = net.residual(x)
        bodies = {"then_branch": net.body(x), "else_branch": net.body(x)}
        x = net.node("If", net.constant(np.array(taken)), **bodies)
    return net.residual(x), (3, WIDTH)


def loops(net: Network) -> tuple[str, tuple[int, ...]]:
    x = net.residual("x")
    n, again = net.constant(np.array(3)), net.constant(np.array(True))
    infos = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("again", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
    ]
    x = net.node("Loop", n, again, x, body=net.body("s", *infos))
    x = net.residual(x)
    x = net.node("Scan", x, body=net.body("r", _info("r")), num_scan_inputs=1)
    return net.residual(x), (3, WIDTH)


def _info(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH])


def python_ops(net: Network) -> tuple[str, tuple[int, ...]]:
    x = "x"
    for op in ("Limit", "Bow", "Limit"):
        x = net.residual(net.node(f"planted::{op}", net.linear(x), limit=0.75))
    return x, (3, WIDTH)


def float16(net: Network) -> tuple[str, tuple[int, ...]]:
    net.dtype = np.float16
    x = "x"
    for _ in range(4):
        x = net.node("LayerNormalization", net.residual(x), net.weight(WIDTH))
    return x, (3, WIDTH)


def deep(net: Network) -> tuple[str, tuple[int, ...]]:
    x = "x"
    for _ in range(12):
        x = net.residual(x)
    return x, (3, WIDTH)


KINDS = conv, transformer, recurrent, branches, loops, python_ops, float16, deep


# ---- faults --------------------------------------------------------------------------------------


def faults(model: ModelProto, drawn: np.random.Generator) -> Iterator[tuple[ModelProto, str]]:
    """Yield copies with one fault, in a random order, each with the output of the node at fault."""
    for choice in drawn.permutation(1000):
        other = ModelProto()
        other.CopyFrom(model)
        top = other.graph.node[choice % len(other.graph.node)]
        inner = [node for body in protos.bodies(top) for node in protos.nodes_in(body)]
        node = inner[choice % len(inner)] if inner else top
        if spoil(other, node, choice % 3):
            yield other, top.output[0]


def spoil(model: ModelProto, node: NodeProto, way: int) -> bool:
    """Change an attribute, a weight or the op of a node, if it has one to change."""
    ops = ("Limit", "Bow")
    if way == 0:
        values = {"Elu": ("alpha", 2.5), "LeakyRelu": ("alpha", 0.75), "Softmax": ("axis", 1)}
        values |= dict.fromkeys(ops, ("limit", 0.25))
        if node.op_type in values:
            del node.attribute[:]
            node.attribute.append(helper.make_attribute(*values[node.op_type]))
        return node.op_type in values
    if way == 1:
        weights = {tensor.name: tensor for tensor in model.graph.initializer}
        read = [weights[name] for name in node.input if name in weights]
        array = numpy_helper.to_array(read[0]) if read else np.zeros(0, np.int64)
        if array.dtype.kind == "f":
            # A sign that is wrong, as after a wrong conversion.
            read[0].CopyFrom(numpy_helper.from_array(-array, read[0].name))
        return array.dtype.kind == "f"
    for kinds in (BENDS, ops):
        if node.op_type in kinds:
            del node.attribute[:]
            node.op_type = kinds[kinds.index(node.op_type) - 1]
            return True
    return False


def planted(number: int) -> tuple[ModelProto, ModelProto, dict[str, np.ndarray], str]:
    """Make a network and a copy with a fault that its output shows; name the node's output."""
    net = Network(number)
    y, shape = KINDS[number % len(KINDS)](net)
    kind = np.dtype(net.dtype).name
    declared = f"{kind}[{','.join(map(str, shape))}]"
    model = pyopnb.model(net.nodes, {"x": declared}, {y: kind}, initializers=net.weights, opset=20)
    feeds = {"x": net.drawn.standard_normal(shape).astype(net.dtype)}
    right = pyopnb.run(model, feeds)[y].astype(np.float64)
    for other, output in faults(model, net.drawn):
        wrong = pyopnb.run(other, feeds)[y].astype(np.float64)
        if np.abs(wrong - right).max() > 0.01 * np.abs(right).max():
            return model, other, feeds, output
    raise AssertionError("no fault shows")


@pytest.mark.one_python  # long
@pytest.mark.parametrize("number", range(40))
def test_the_node_at_fault_is_named(number: int) -> None:
    for op in (Limit, Bow):
        pyopnb.registry.define(op, f"planted::{op.__name__}")
    model, other, feeds, output = planted(number)
    runs = []
    for memory in (None, 6 * feeds["x"].nbytes, 1):
        found = first_divergence(model, other, feeds, memory=memory)
        assert [step.outputs[0].b for step in found.origins] == [output], str(found)
        assert found.origin is not None and found.origin.changes
        runs.append(found.runs)
    assert runs[0] <= 2 < runs[2], runs
