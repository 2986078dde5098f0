"""What ``missing`` costs on a model of 100,000 nodes: the bar is two seconds. ONNX's shape inference stands beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx
from onnx import helper
from table import Row, milli, timed

import pyopnb
from pyopnb.models.ort_capabilities import newest_ir_version, newest_opset

NODES = 100_000
KINDS = (
    "Abs",
    "Neg",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Softplus",
    "Erf",
    "Ceil",
    "Floor",
    "Softmax",
    "Add",
    "Mul",
    "Sub",
    "Max",
)


def chain(kinds: tuple[str, ...]) -> onnx.ModelProto:
    """Nodes of these kinds in turn, one after the other; those of two inputs take a constant of their own."""
    nodes, last = [], "x"
    for number, kind in zip(range(NODES), itertools.cycle(kinds), strict=False):
        inputs = [last]
        if kind in ("Add", "Mul", "Sub", "Max"):
            inputs.append(f"c{number}")
            nodes.append(helper.make_node("Constant", [], [f"c{number}"], value_float=1.0))
        last = f"t{number}"
        nodes.append(helper.make_node(kind, inputs, [last]))
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", last)
    )
    imports = [helper.make_opsetid("", newest_opset())]
    return helper.make_model(
        helper.make_graph(nodes[:NODES], "chain", [x], [y]),
        opset_imports=imports,
        ir_version=newest_ir_version(),
    )


def rows() -> Iterator[Row]:
    for what, kinds in (("Relu", ("Relu",)), (f"{len(KINDS)} kinds and Constants", KINDS)):
        model = chain(kinds)
        calls = {
            "ours": lambda m=model: pyopnb.missing(m),
            "onnx": lambda m=model: onnx.shape_inference.infer_shapes(m),
        }
        best = timed(calls, 3)
        peer = f"{milli(best['onnx'])} onnx.shape_inference"
        yield Row(
            f"missing, {NODES:,} nodes of {what}, seconds",
            milli(best["ours"]),
            peer,
            best["ours"],
            2.0,
        )
