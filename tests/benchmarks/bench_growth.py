"""What grows with a model or a process, where it must grow in proportion: names in the registry, nodes, attrs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper
from table import Row, beside, milli, timed

import pyopnb

NAMES, NODES, OPS, ATTRS = 600, 8_000, 2_000, 4_000
X = np.zeros(4, np.float32)


class Negate:
    """The op of all these models."""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return -x


def chain(count: int) -> onnx.ModelProto:
    """A chain of Neg in which every value has its type."""
    names = ["x", *(f"v{n}" for n in range(count - 1)), "y"]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in pairwise(names)]
    infos = [helper.make_tensor_value_info(name, 1, [4]) for name in names]
    graph = helper.make_graph(nodes, "chain", infos[:1], infos[-1:], value_info=infos[1:-1])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def row(what: str, seconds: float, bar: float | None = None, peer: str = "") -> Row:
    return Row(f"{what}, milliseconds", milli(seconds), peer, seconds * 1e3, bar)


def names() -> Iterator[Row]:
    """A session of one op, before and after many names were used in its domain and forgotten again."""
    model = pyopnb.model([pyopnb.node("growth::First", "x", "y")], {"x": "float32[4]"}, "y")
    pyopnb.registry.define(Negate, "growth::First")
    before = timed({"before": lambda: pyopnb.Session(model)}, 20)["before"]
    for number in range(NAMES):
        name = f"growth::Op{number}"
        pyopnb.registry.define(Negate, name)
        pyopnb.Session(pyopnb.model([pyopnb.node(name, "x", "y")], {"x": "float32[4]"}, "y"))
        pyopnb.registry.remove(name)
    after = timed({"after": lambda: pyopnb.Session(model)}, 20)["after"]
    yield beside(f"session of one op after {NAMES} names", after, before, "before them", 1.5)


def rows() -> Iterator[Row]:
    yield from names()
    pyopnb.registry.define(Negate, "growth::Neg")
    plain, ops = chain(NODES), pyopnb.replace(chain(OPS), "Neg", "growth::Neg")
    every = [node.output[0] for node in plain.graph.node]
    big = helper.make_node(
        "Big", ["x"], ["y"], domain="growth", **{f"a{n}": float(n) for n in range(ATTRS)}
    )
    described = pyopnb.model([big], {"x": "float32[4]"}, {"y": "float32[4]"})
    calls: list[tuple[str, Callable[[], object], float | None]] = [
        (
            f"replace all {NODES:,} nodes of a chain",
            lambda: pyopnb.replace(plain, "Neg", "growth::Neg"),
            1000.0,
        ),
        (
            "… selected by a list of names",
            lambda: pyopnb.replace(plain, every, "growth::Neg"),
            None,
        ),
        (f"session of {OPS:,} nodes of ops", lambda: pyopnb.Session(ops), 500.0),
        (
            f"skeleton of a node with {ATTRS:,} attrs",
            lambda: pyopnb.skeleton(described, "Big"),
            1000.0,
        ),
    ]
    for what, call, bar in calls:
        yield row(what, timed({what: call}, 3)[what], bar)
