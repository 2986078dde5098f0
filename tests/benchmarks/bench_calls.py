"""The cost of a call of ``compute``: small tensors in a long chain, and large ones in one node.

The op returns its input, so that only the boundary takes time, and not NumPy. All get
the same chain. The slope between 1 and 101 nodes is the cost of one more node, without the
fixed cost of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime_extensions as extensions
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from table import Row, beside, micro, milli, timed

import pyopnb

SHORT, LONG = 1, 101


@pyopnb.pyop("bench::Same")
class Same:
    def compute(self, x):
        return x


@pyopnb.pyop("bench::Minus")
class Minus:
    def compute(self, x):
        return -x


@extensions.onnx_op(
    op_type="Same",
    inputs=[extensions.PyCustomOpDef.dt_float],
    outputs=[extensions.PyCustomOpDef.dt_float],
)
def same(x):
    return x


class ReferenceSame(OpRun):
    op_domain = "bench"
    op_type = "Same"

    def _run(self, x):
        return (x,)


ReferenceSame.__name__ = "Same"  # the reference evaluator goes by the class's name


def chain(op: str, length: int) -> onnx.ModelProto:
    names = ["x", *(f"t{i}" for i in range(length - 1)), "y"]
    nodes = [pyopnb.node(op, one, two) for one, two in pairwise(names)]
    return pyopnb.model(nodes, {"x": "float32[N]"}, {"y": "float32[N]"})


def ours(op: str, length: int) -> Any:
    return pyopnb.Session(chain(f"bench::{op}", length)).run


def of_extensions(length: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(extensions.get_library_path())
    return onnxruntime.InferenceSession(
        chain("ai.onnx.contrib::Same", length).SerializeToString(), options
    ).run


def of_runtime(length: int) -> Any:
    # Unoptimized: two Neg in a row would cancel out.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(chain("::Neg", length).SerializeToString(), options).run


def of_reference(length: int) -> Any:
    return ReferenceEvaluator(chain("bench::Same", length), new_ops=[ReferenceSame]).run


def calling(run: Any, x: np.ndarray) -> Callable[[], object]:
    feeds = {"x": x}
    return lambda: run(None, feeds)


def one_more_node() -> Iterator[Row]:
    x = np.ones(1, np.float32)
    makers: dict[str, Callable[[int], Any]] = {
        "ours": lambda n: ours("Same", n),
        "minus": lambda n: ours("Minus", n),
        "extensions": of_extensions,
        "Neg": of_runtime,
        "reference": of_reference,
    }
    calls = {
        f"{name} {n}": calling(make(n), x) for name, make in makers.items() for n in (SHORT, LONG)
    }
    for call in calls.values():
        call()
        call()
    best = timed(calls, repeats=40, loops=50)
    slope = {
        name: (best[f"{name} {LONG}"] - best[f"{name} {SHORT}"]) / (LONG - SHORT) for name in makers
    }
    what = "one more node in a chain of 100, 1 float"
    mine = slope["ours"]
    yield beside(what, mine, slope["extensions"], "onnxruntime-extensions", 0.3, unit=micro)
    yield beside(what, mine, slope["Neg"], "ONNX Runtime's Neg", 1.8, unit=micro)
    yield beside(what, mine, slope["reference"], "onnx.reference", unit=micro)
    yield beside(f"{what}, compute is -x", slope["minus"], mine, "compute is x", unit=micro)
    yield beside(
        "a run of one node, 1 float",
        best[f"ours {SHORT}"],
        best[f"extensions {SHORT}"],
        "onnxruntime-extensions",
        1.0,
        unit=micro,
    )


def large() -> Iterator[Row]:
    x = np.random.default_rng(0).random(1_000_000, np.float32)
    calls = {"ours": calling(ours("Same", 1), x), "extensions": calling(of_extensions(1), x)}
    for call in calls.values():
        call()
        call()
    best = timed(calls, repeats=9, loops={"ours": 20, "extensions": 1})
    times = best["extensions"] / best["ours"]
    peer = f"{milli(best['extensions'])} onnxruntime-extensions"
    yield Row(
        "times faster: one node, 1M float32", milli(best["ours"]), peer, times, 100, least=True
    )


def very_large() -> Iterator[Row]:
    x = np.random.default_rng(0).random(16_000_000, np.float32)
    out = np.empty_like(x)
    calls = {"ours": calling(ours("Same", 1), x), "copy": lambda: np.copyto(out, x)}
    for call in calls.values():
        call()
        call()
    best = timed(calls, repeats=25)
    peer = f"{milli(best['copy'])} np.copyto"
    yield Row("one node, 16M float32", milli(best["ours"]), peer, best["ours"] / best["copy"], 1.5)


def rows() -> Iterator[Row]:
    yield from one_more_node()
    yield from large()
    yield from very_large()
