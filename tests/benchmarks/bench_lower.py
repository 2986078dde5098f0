"""What a lowered op costs: beside the op in Python on a million numbers, its nodes, and to lower a body of thirty calls."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from table import Row, milli, show, timed

import pyopnb

sys.path.append(str(Path(__file__).parents[1] / "lowering"))
from by_hand import BY_HAND, NODES_BY_HAND, arrays_of

_BAR = 300.0  # milliseconds to lower a body of thirty calls of NumPy


@pyopnb.pyop("bench::SoftClip")
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return self.limit * np.tanh(x / self.limit)


@pyopnb.pyop("bench::Thirty")
class Thirty:
    def compute(self, x):
        for _ in range(5):
            x = np.tanh(x) + np.abs(x) * np.exp(-np.square(x))
        return x - np.maximum(x.mean(-1, keepdims=True), 0)


def rows() -> Iterator[Row]:
    model = pyopnb.model(
        [pyopnb.node("bench::SoftClip", "x", "y", limit=2.0)], {"x": "float32[N]"}, "y"
    )
    python = pyopnb.Session(model)
    plain = onnxruntime.InferenceSession(
        pyopnb.lower(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    best = timed(
        {"plain": lambda: plain.run(None, {"x": x}), "python": lambda: python.run(None, {"x": x})},
        30,
    )
    ratio = best["plain"] / best["python"]
    yield Row(
        "lowered SoftClip, 1M float32",
        milli(best["plain"]),
        f"{milli(best['python'])} in Python",
        ratio,
        1.0,
    )
    spent = []
    for _ in range(5):
        begin = time.process_time()  # not the time of others on the machine: nothing here waits
        pyopnb.lower("bench::Thirty", x[:24].reshape(4, 6))
        spent.append((time.process_time() - begin) * 1e3)
    yield Row(
        "lower of a body of 30 calls",
        f"{min(spent):.0f} ms",
        f"{spent[0]:.0f} ms the first time",
        min(spent) / _BAR,
        1.0,
    )
    yield from sizes()


def sizes() -> Iterator[Row]:
    """The nodes of ten lowered ops, constants left out as in the graphs that are written by hand."""
    for name, body in BY_HAND.items():
        namespace = {"np": np}
        exec(
            f"class {name}:\n{textwrap.indent(textwrap.dedent(body).strip(chr(10)), '    ')}\n",
            namespace,
        )
        pyopnb.pyop(f"bench.sizes::{name}")(namespace[name])
        function = pyopnb.lower(f"bench.sizes::{name}", *arrays_of(name))
        count = sum(node.op_type != "Constant" for node in function.node)
        hand = NODES_BY_HAND[name]
        yield Row(f"nodes of lowered {name}", str(count), f"{hand} by hand", count / hand, 2.0)


if __name__ == "__main__":
    show(rows())
