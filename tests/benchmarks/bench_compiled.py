"""SoftClip in C++, on a million numbers: beside Div, Tanh and Mul of ONNX Runtime on one thread, and on two threads.

Where the kernels of ONNX Runtime do not reach the bar of two threads either, the row says something
of the machine: another process had a core of it, or, for Relu, the memory is the limit. How often a
thread sleeps until another lets it go on does not depend on that: a lock in the way of a call would
make it do so about once a call.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import onnxruntime
from bench_threads import seconds
from table import Row, milli, timed

import pyopnb

ELEMENTS, REPEATS, CALLS = 1_000_000, 30, 10

CPP = """
void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {
  float* out = y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) out[i] = limit * std::tanh(x[i] / limit);
}
"""
OWN = "(float[N] x) => (float[N] y) { c = Constant<value_float = 2.0>()  d = Div(x, c)  t = Tanh(d)  y = Mul(t, c) }"


def compared(form: str, name: str, x: np.ndarray) -> Iterator[Row]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {"x": x}
    model = pyopnb.parse(f"(float[N] x) => (float[N] y) {{ y = {name}<limit = 2.0>(x) }}")
    session, own = pyopnb.Session(model, options), pyopnb.Session(pyopnb.parse(OWN), options)
    one = timed(
        {"form": lambda: session.run(None, feeds), "own": lambda: own.run(None, feeds)}, REPEATS
    )
    peer = f"{milli(one['own'])} of ONNX Runtime's Div, Tanh, Mul"
    yield Row(
        f"SoftClip in {form}, 1M float32, one thread",
        milli(one["form"]),
        peer,
        one["form"] / one["own"],
        1.0,
    )
    relu = pyopnb.Session(pyopnb.parse("(float[N] x) => (float[N] y) { y = Relu(x) }"), options)
    calls = {
        name: partial(each.run, None, feeds)
        for name, each in (("form", session), ("own", own), ("relu", relu))
    }
    best = {(name, threads): float("inf") for name in calls for threads in (1, 2)}
    sleeps = dict.fromkeys(calls, 0)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(REPEATS):
            for (
                name,
                threads,
            ) in best:  # they take turns, so that a slow moment of the machine meets all
                before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
                best[name, threads] = min(
                    best[name, threads], seconds(calls[name], CALLS, pool, threads)
                )
                sleeps[name] += (resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before) * (
                    threads == 2
                )
    times = {name: 2 * best[name, 1] / best[name, 2] for name in calls}
    waits = {name: f"{count / (2 * CALLS * REPEATS):.2f}" for name, count in sleeps.items()}
    what = f"times the runs of one thread: 2 threads, SoftClip in {form}"
    peer = f"{times['own']:.2f} times ONNX Runtime's own, {times['relu']:.2f} Relu"
    yield Row(what, milli(best["form", 1] / CALLS), peer, times["form"], 1.8, least=True)
    yield Row(
        f"sleeps a call: 2 threads, SoftClip in {form}",
        waits["form"],
        f"{waits['own']} ONNX Runtime's own",
        None,
    )


def rows() -> Iterator[Row]:
    x = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    pyopnb.cpp_op(CPP, "bench.cpp::SoftClip")
    yield from compared("C++", "bench.cpp.SoftClip", x)
