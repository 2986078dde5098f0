"""A trace as a mapping, and its text."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from pyopnb.errors import InputError
from pyopnb.traces.recorded_run import Trace
from pyopnb.traces.summary import Summary

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { a = Log(x) y = Neg(a) }'
)
FEEDS = {"x": np.float32([1, 0])}
VALUES = {"a": np.float32([0, -np.inf]), "y": np.float32([0, np.inf])}


@pytest.fixture
def trace():
    summaries = {name: Summary.of(value) for name, value in {**FEEDS, **VALUES}.items()}
    return Trace(MODEL, feeds=FEEDS, values=VALUES, summaries=summaries, runtime="a runtime")


def test_names_and_arrays(trace):
    assert (
        list(trace) == list(trace.keys()) == ["x", "a", "y"]
        and len(trace) == 3
        and trace.outputs == ("y",)
    )
    assert dict(trace) == dict(trace.items()) == {**FEEDS, **VALUES} and trace["x"] is FEEDS["x"]
    assert "a" in trace and "z" not in trace and 3 not in trace and FEEDS["x"] not in trace
    assert trace.get("a") is VALUES["a"] and trace.get("z") is None and trace.get("z", 1) == 1
    with pytest.raises(
        KeyError, match="^trace: expected a tensor of the trace, got 'aa'. Try: \"a\"$"
    ):
        trace["aa"]
    for key, got in [
        (FEEDS["x"] > 0, "an array of bool"),
        (slice(1), "an object of slice"),
        (0, "int 0"),
    ]:
        with pytest.raises(
            InputError,
            match=rf"^trace: expected the name of one tensor, got {got}\. Try: trace\[\"x\"\]$",
        ) as raised:
            trace[key]
        assert eval(raised.value.next, {"trace": trace}) is FEEDS["x"]


def test_names_from_a_file_cannot_spoil_the_text():
    name = "a\n\x1b[31m" + "z" * 10_000
    trace = Trace(
        MODEL, feeds={}, values={name: FEEDS["x"]}, summaries={name: Summary.of(FEEDS["x"])}
    )
    assert (
        len(repr(trace).splitlines()) == 2 and "\x1b" not in repr(trace) and len(repr(trace)) < 500
    )
    assert repr(Trace(MODEL, feeds={}, values={}, summaries={})).count("\n") == 0
