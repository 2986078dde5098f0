"""What a lowered op costs: beside the op in Python on a million numbers, and to lower a body of thirty calls."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import onnxruntime
from table import Row, milli, timed

import pyopnb

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
