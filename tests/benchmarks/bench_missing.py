"""The cost of ``missing`` on a model of 100,000 nodes: the bar is two seconds. The ONNX shape inference is beside it.

A chain of 300,000 nodes is listed in 10 s and written as text in 20 s; pictures, files and diffs of it are beside these.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

import onnx
from onnx import helper
from table import Row, milli, timed

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset

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


LONG = 300_000


def chain(kinds: tuple[str, ...], count: int = NODES) -> onnx.ModelProto:
    """Nodes of these kinds in turn, one after the other; nodes of two inputs take a constant of their own."""
    nodes, last = [], "x"
    for number, kind in zip(range(count), itertools.cycle(kinds), strict=False):
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
        helper.make_graph(nodes[:count], "chain", [x], [y]),
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
    yield from long_chain()


def long_chain() -> Iterator[Row]:
    """What grows faster than a model shows only in a very long one."""
    model = chain(("Abs", "Neg", "Relu", "Tanh"), LONG)
    with tempfile.TemporaryDirectory() as folder:
        calls = {
            "missing": lambda: pyopnb.missing(model),
            "text": lambda: pyopnb.text(model),
            "show": lambda: str(pyopnb.show(model)),
            "save": lambda: pyopnb.save(model, f"{folder}/chain.onnx"),
            "diff": lambda: pyopnb.diff(model, model),
        }
        best = timed(calls, 1)
    bars = {"missing": 10.0, "text": 20.0}
    for what, seconds in best.items():
        name = f"{what}, a chain of {LONG:,} nodes, seconds"
        yield Row(name, milli(seconds), "", seconds, bars.get(what))
