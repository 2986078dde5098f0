"""A transformer block of 31 nodes with seeded weights, and the same model under other names in another order."""

from __future__ import annotations

import random

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

__all__ = ["renamed", "transformer"]

_HEADS, _WORDS = 4, 50


def transformer(
    approximate: str = "none", *, blocks: int = 1, seed: int = 0, width: int = 32
) -> ModelProto:
    """Make attention and feed-forward networks with residuals; ``x: float32[N,S,width]`` to ``logits`` and ``probs``.

    A block has 29 nodes; a last LayerNormalization and the MatMul of the logits follow. ``probs``
    are the attention's weights of the last block.
    """
    drawn = np.random.default_rng(seed)
    nodes: list[NodeProto] = []
    weights: list[TensorProto] = []

    def weight(name: str, *shape: int, around: float = 0.0) -> str:
        values = around + drawn.normal(0, 1 / np.sqrt(shape[0]), shape)
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(op_type: str, inputs: list[str], output: str, **attrs: object) -> str:
        nodes.append(
            helper.make_node(
                op_type, inputs, [output], name=f"/{output}/{op_type}_{len(nodes)}", **attrs
            )
        )
        return output

    def norm(x: str, output: str) -> str:
        scale, bias = (
            weight(f"{output}.scale", width, around=1.0),
            weight(f"{output}.bias", width),
        )
        return node("LayerNormalization", [x, scale, bias], output, axis=-1, epsilon=1e-5)

    def linear(x: str, output: str, rows: int, columns: int) -> str:
        product = node(
            "MatMul", [x, weight(f"{output}.weight", rows, columns)], f"{output}.product"
        )
        return node("Add", [product, weight(f"{output}.bias", columns)], output)

    weights.append(numpy_helper.from_array(np.int64([0, 0, _HEADS, width // _HEADS]), "split"))
    weights.append(numpy_helper.from_array(np.int64([0, 0, width]), "joined"))
    weights.append(numpy_helper.from_array(np.float32((width // _HEADS) ** -0.5), "scale"))
    x = "x"
    for number in range(blocks):
        p = f"b{number}."
        normed = norm(x, f"{p}norm1")
        heads = {}
        for letter, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            shaped = node(
                "Reshape",
                [linear(normed, p + letter, width, width), "split"],
                f"{p}{letter}.heads",
            )
            heads[letter] = node("Transpose", [shaped], f"{p}{letter}.turned", perm=perm)
        scores = node(
            "Mul", [node("MatMul", [heads["q"], heads["k"]], f"{p}scores"), "scale"], f"{p}scaled"
        )
        probs = node("Softmax", [scores], "probs" if number == blocks - 1 else f"{p}probs", axis=-1)
        mixed = node(
            "Transpose",
            [node("MatMul", [probs, heads["v"]], f"{p}mixed")],
            f"{p}mixed.turned",
            perm=[0, 2, 1, 3],
        )
        attended = linear(
            node("Reshape", [mixed, "joined"], f"{p}mixed.joined"), f"{p}attended", width, width
        )
        middle = node("Add", [x, attended], f"{p}middle")
        wide = linear(norm(middle, f"{p}norm2"), f"{p}wide", width, 2 * width)
        bent = node("Gelu", [wide], f"{p}bent", approximate=approximate)
        x = node("Add", [middle, linear(bent, f"{p}narrow", 2 * width, width)], f"{p}end")
    node("MatMul", [norm(x, "last"), weight("head", width, _WORDS)], "logits")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "S", width])]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", "S", _WORDS]),
        helper.make_tensor_value_info("probs", TensorProto.FLOAT, ["N", _HEADS, "S", "S"]),
    ]
    graph = helper.make_graph(nodes, "transformer", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def renamed(model: ModelProto, seed: int = 0) -> ModelProto:
    """The same model: every node and tensor of the main graph under another name, the nodes in another valid order."""
    drawn = random.Random(seed)
    other = ModelProto()
    other.CopyFrom(model)
    graph = other.graph
    tensors = {name for node in graph.node for name in (*node.input, *node.output) if name}
    tensors |= {x.name for x in (*graph.input, *graph.output, *graph.initializer)}
    numbers = list(range(len(tensors)))
    drawn.shuffle(numbers)
    names = {
        name: f"renamed{number}" for name, number in zip(sorted(tensors), numbers, strict=True)
    }
    for held in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        held.name = names.get(held.name, held.name)
    places = list(range(len(graph.node)))
    drawn.shuffle(places)
    for node, place in zip(graph.node, places, strict=True):
        node.name = f"n{place}"
        for field in (node.input, node.output):
            field[:] = [names[name] if name else "" for name in field]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_captured(attribute.g, names)
    nodes = _shuffled(list(graph.node), drawn)
    weights = list(graph.initializer)
    drawn.shuffle(weights)
    for field, held in ((graph.node, nodes), (graph.initializer, weights)):
        copies = [type(one).FromString(one.SerializeToString()) for one in held]
        del field[:]
        field.extend(copies)
    return other


def _rename_captured(body: object, names: dict[str, str]) -> None:
    """Follow the new names where a body uses what is outside."""
    own = {x.name for x in (*body.input, *body.initializer)} | {
        name for node in body.node for name in node.output
    }
    outside = {name: new for name, new in names.items() if name not in own}
    for node in body.node:
        node.input[:] = [outside.get(name, name) for name in node.input]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_captured(attribute.g, outside)
    for held in body.output:
        held.name = outside.get(held.name, held.name)


def _shuffled(nodes: list[NodeProto], drawn: random.Random) -> list[NodeProto]:
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits = [{makers[name] for name in _read(node) if name in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for place, before in enumerate(waits):
        for maker in before:
            readers.setdefault(maker, []).append(place)
    missing = [len(before) for before in waits]
    ready = [place for place, count in enumerate(missing) if not count]
    order = []
    while ready:
        at = drawn.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        order.append(ready.pop())
        for reader in readers.get(order[-1], ()):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return [nodes[place] for place in order]


def _read(node: NodeProto) -> set[str]:
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return {*node.input, *(name for body in bodies for inner in body.node for name in _read(inner))}
