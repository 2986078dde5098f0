"""SoftClip compiled, on a million numbers: beside ONNX Runtime's own Div, Tanh and Mul on one thread, and on two threads."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
from bench_threads import seconds
from table import Row, milli, show, timed

import pyopnb

ELEMENTS, REPEATS = 1_000_000, 30

CPP = """
void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {
  float* out = y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) out[i] = limit * std::tanh(x[i] / limit);
}
"""
OWN = "(float[N] x) => (float[N] y) { c = Constant<value_float = 2.0>()  d = Div(x, c)  t = Tanh(d)  y = Mul(t, c) }"


class SoftClip:
    kernel = "numba"

    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return self.limit * np.tanh(x / self.limit)


def compared(form: str, name: str, x: np.ndarray) -> Iterator[Row]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {"x": x}
    model = pyopnb.parse(f"(float[N] x) => (float[N] y) {{ y = {name}<limit = 2.0>(x) }}")
    session, own = pyopnb.Session(model, options), pyopnb.Session(pyopnb.parse(OWN), options)
    best = timed({"form": lambda: session.run(None, feeds), "own": lambda: own.run(None, feeds)}, REPEATS)
    peer = f"{milli(best['own'])} of ONNX Runtime's Div, Tanh, Mul"
    yield Row(f"SoftClip in {form}, 1M float32, one thread", milli(best["form"]), peer, best["form"] / best["own"], 2.0)
    with ThreadPoolExecutor(2) as pool:
        taken = [[seconds(lambda: session.run(None, feeds), 5, pool, n) for n in (1, 2)] for _ in range(REPEATS)]  # in turns
    threads = [min(column) for column in zip(*taken, strict=True)]
    what = f"times the runs of one thread: 2 threads, SoftClip in {form}"
    yield Row(what, milli(threads[0] / 5), "one thread", 2 * threads[0] / threads[1], 1.8, least=True)


def rows() -> Iterator[Row]:
    x = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    pyopnb.cpp_op(CPP, "bench.cpp::SoftClip")
    yield from compared("C++", "bench.cpp.SoftClip", x)
    if importlib.util.find_spec("numba") is not None:
        pyopnb.pyop("bench.numba::SoftClip")(SoftClip)
        yield from compared("Numba", "bench.numba.SoftClip", x)


if __name__ == "__main__":
    show(rows())
