"""Runs of another program, whose values have the names of a model's tensors, against runs of models."""

from __future__ import annotations

from typing import Any

import numpy as np
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


def test_a_trace_that_is_not_like_the_plain_run_says_so() -> None:
    """ONNX Runtime leaves out a Dropout that drops, but not where its result is looked at."""
    model = pyopnb.parse(
        "(float[64] x) => (float[64] y) <float ratio = {0.5}, bool train = {1}> { d = Dropout(x, ratio, train)  y = Neg(d) }"
    )
    x = np.arange(1, 65, dtype=np.float32)
    run = trace(model, x=x)
    found = diff(run, {"y": -x})
    assert len(found.exposed) == 1
    assert found.exposed[0].startswith("a: recording the tensors changed y (by at most ")
    assert f"  {found.exposed[0]}" in str(found).splitlines()
    assert TraceDiff.from_json(found.to_json()) == found
    assert diff(trace(model, x=x, check=False), {"y": -x}).exposed == ()
    assert diff(trace(MODEL, x=X), {"y": VALUES["y"]}).exposed == ()
