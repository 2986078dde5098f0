"""Runs of another program, whose values have the names of a model's tensors, against runs of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import pyopnb
from pyopnb import diff, trace
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.errors import InputError
from pyopnb.traces.recorded_run import Trace
from pyopnb.traces.summary import Summary

X = np.float32([[1, 2], [3, 5]])
MODEL = pyopnb.parse(
    "(float[2,2] x) => (float[2,2] y) { a = Neg(x)  b = Exp(a)  c = Abs(b)  y = Sqrt(c) }"
)


def of_program(
    values: dict[str, Any], model: ModelProto = MODEL, runtime: str = "torch 9.9", **known: Any
) -> Trace:
    feeds = {"x": X}
    summaries = {name: Summary.of(value) for name, value in {**feeds, **values}.items()}
    return Trace(
        model,
        feeds=feeds,
        values=values,
        summaries=summaries,
        runtime=runtime,
        by_model=False,
        **known,
    )


VALUES = {"a": -X, "c": np.exp(-X), "y": np.sqrt(np.exp(-X))}
KNOWN = {
    "sources": {"c": "net.py:3, `return x.neg().exp()`"},
    "remarks": {"b": "training mode: exp is otherwise"},
}


def test_a_model_that_is_not_what_its_program_computes() -> None:
    """The model of the program's side is the wrong one too: that its nodes give in isolation what b's do, excuses nothing."""
    values = {"a": -X, "c": np.exp(-X) * 2, "y": np.sqrt(np.exp(-X) * 2)}
    found = diff(of_program(values, **KNOWN), trace(MODEL, x=X))
    assert [step.name for step in found.origins] == ["c (Abs)"]
    assert found.origin is not None and not found.origin.inconclusive
    assert found.origin.changes == ("training mode: exp is otherwise",)
    assert (
        "where: c (Abs), from net.py:3, `return x.neg().exp()`, or a node before it: b (Exp)"
        in str(found)
    )
    assert "from net.py:3" in pyopnb.show(found).svg


def test_two_programs_are_compared_without_isolation() -> None:
    spoilt = {**VALUES, "c": VALUES["c"] + 1, "y": np.sqrt(VALUES["c"] + 1)}
    found = diff(of_program(VALUES), of_program(spoilt))
    assert [step.verdict for step in found.steps] == ["same", "origin", "propagates"]
    assert found.steps[1].isolated is None
    assert "not run in isolation: torch 9.9 ran no node" in str(found)


def test_the_program_comes_first() -> None:
    with pytest.raises(
        InputError,
        match=r"expected the run of the program that was exported first, .*Try: diff\(b, a\)",
    ):
        diff(trace(MODEL, x=X), of_program(VALUES))


def test_a_run_in_torch_is_held_to_a_part_of_the_largest_element() -> None:
    """Elements that cancel out are off by a part of the largest, as between ONNX Runtime levels of optimization."""
    off = {**VALUES, "y": VALUES["y"] + np.float32(1.2e-5)}
    assert (
        diff(of_program({"y": off["y"]}), trace(MODEL, x=X)).judged(atol=1e-5).verdict
        == "different"
    )
    assert diff(of_program({"y": off["y"]}), trace(MODEL, x=X)).ok
    assert not diff(of_program({"y": off["y"]}, runtime="elsewhere"), trace(MODEL, x=X)).ok


INT4 = """
    <ir_version: 10, opset_import: ["": 21]>
    int4 (float[N, 32] x) => (float[N, 8] y) <float[1, 8] s = {SCALES}, int4[32, 8] w = {WEIGHTS}> {
        f = DequantizeLinear<axis = 0, block_size = 32>(w, s)
        y = MatMul(x, f)
    }""".replace("SCALES", ", ".join(["0.1"] * 8)).replace(
    "WEIGHTS", ", ".join(str(n % 15 - 7) for n in range(256))
)


# There the recorded run is wrong in the same way, and the node is named.
needs_unfused_records = pytest.mark.skipif(
    onnxruntime.__version__.startswith("1.25."),
    reason="onnxruntime 1.25 fuses an int4 MatMul even if its weight is recorded",
)


@needs_unfused_records
def test_normal_runs_that_differ_are_found_where_the_recorded_ones_agree() -> None:
    """ONNX Runtime fuses both nodes into one that rounds x to int8, unless the weight is recorded."""
    model = pyopnb.parse(INT4)
    x = np.sin(np.arange(96, dtype=np.float32)).reshape(3, 32)
    reference = trace(model, x=x, on="reference")
    assert not np.allclose(pyopnb.run(model, x=x)["y"], reference["y"], atol=1e-3)
    traces = diff(trace(model, x=x), reference)
    runs = pyopnb.first_divergence(model, model, {"x": x}, on=("onnxruntime", "reference"))
    for found in (traces, runs, diff(trace(model, x=x), {"y": reference["y"]})):
        assert not found.ok and found.origin is None and found["y"].diff.ok
        assert [tensor.b for tensor in found.hidden] == ["y"]
        lines = str(found).splitlines()
        assert lines[1] == "where: only in normal runs, where ONNX Runtime optimizes more: y"
        assert lines[3].endswith('first_divergence(model, feeds, over="optimizers")')
        assert TraceDiff.from_json(found.to_json()).hidden == found.hidden
        assert found.judged(atol=1).ok and not found.judged(atol=1e-3).ok
    named = pyopnb.first_divergence(model, {"x": x}, over="optimizers")
    assert named.optimizers == ("QDQSelectorActionTransformer",)


def test_a_fusion_of_a_half_precision_model_is_held_to_half_precision() -> None:
    """ONNX Runtime fuses the normalization into a float16 node, unless its tensors are recorded."""
    model = pyopnb.parse("""
        <ir_version: 8, opset_import: ["": 12]>
        skip (float16[2, 16, 4] x, float16[2, 16, 4] skip) => (float[2, 16, 4] y, float16[2, 16, 4] s)
            <float two = {2}, float least = {1e-12}, float[4] scale = {1, 2, 3, 4},
            float[4] shift = {0.1, 0.2, 0.3, 0.4}> {
            s = Add(x, skip)
            w = Cast<to = 1>(s)
            m = ReduceMean<axes = [-1]>(w)
            d = Sub(w, m)
            q = Pow(d, two)
            v = ReduceMean<axes = [-1]>(q)
            e = Add(v, least)
            r = Sqrt(e)
            n = Div(d, r)
            t = Mul(n, scale)
            y = Add(t, shift)
        }""")
    x = np.random.default_rng(0).normal(size=(2, 2, 16, 4)).astype(np.float16)
    run = trace(model, x=x[0], skip=x[1])
    found = diff(run, trace(model, x=x[0], skip=x[1], on="reference"))
    assert found.plain and found.ok and not found.hidden
    runtimes = ("onnxruntime", "reference")
    same = pyopnb.first_divergence(model, model, {"x": x[0], "skip": x[1]}, on=runtimes)
    assert same.plain and same.ok and not same.hidden
    # To a smaller tolerance, that is a difference, and no optimizer makes it.
    for strict in (found.judged(atol=1e-4), same.judged(atol=1e-4)):
        assert [tensor.b for tensor in strict.hidden] == ["y"] and strict.origin is None
        assert "or none: it computes float16 in float32 without a kernel" in str(strict)
    searched = pyopnb.first_divergence(
        model, model, {"x": x[0], "skip": x[1]}, on=runtimes, atol=1e-4
    )
    assert str(searched).splitlines()[1:5] == str(same.judged(atol=1e-4)).splitlines()[1:5]
    assert pyopnb.first_divergence(model, {"x": x[0], "skip": x[1]}, over="optimizers").ok


@needs_unfused_records
def test_a_recorded_run_that_differs_says_that_the_normal_run_does_not() -> None:
    model = pyopnb.parse(INT4)
    x = np.sin(np.arange(96, dtype=np.float32)).reshape(3, 32)
    normal = dict(pyopnb.run(model, x=x))
    found = diff(normal, trace(model, x=x))
    line = "output y in normal runs, with nothing recorded: bit-identical"
    assert not found.ok and f"  {line}" in str(found).splitlines()
    assert TraceDiff.from_json(found.to_json()) == found
    assert diff(normal, trace(model, x=x, check=False)).plain == ()
    assert diff(trace(MODEL, x=X), {"y": VALUES["y"]}).plain == ()
