"""A trace diff as text and JSON, and judged again."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformer import transformer

import pyopnb
from pyopnb import diff, trace
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.errors import InputError

X = np.random.default_rng(0).normal(size=(2, 4, 32)).astype(np.float32)


@cache
def found() -> TraceDiff:
    quick: dict[str, Any] = {"check": False, "times": False}
    return diff(trace(transformer(), x=X, **quick), trace(transformer("tanh"), x=X, **quick))


def test_another_tolerance_gives_the_verdict_of_a_new_diff() -> None:
    runs = [trace(transformer(kind), x=X, times=False) for kind in ("none", "tanh")]
    for tolerances in ({"atol": 1e-2}, {"rtol": 0.0}, {"atol": 1e-4}, {"rtol": 1e-5, "atol": 4e-4}):
        again, anew = found().judged(**tolerances), diff(*runs, **tolerances)
        assert again.verdict == anew.verdict
        assert [step.verdict for step in again.steps] == [step.verdict for step in anew.steps]
        assert TraceDiff.from_json(again.to_json()) == again
    assert found().judged(atol=1e-2).ok and found().judged(atol=1e-2).origin is None
    with pytest.raises(InputError, match="a finite number that is not negative"):
        found().judged(rtol=math.inf)


def test_json_is_strict_and_versioned() -> None:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Log(x)  y = Neg(a) }")
    one, other = (trace(model, x=np.float32(x)) for x in ([0, -1, 1], [0, 1, 1]))
    odd = diff(one, other)
    held = json.loads(odd.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert (held["format"], held["version"], held["verdict"], held["ok"]) == (
        "pyopnb.trace-diff",
        1,
        "different",
        False,
    )
    assert [step["verdict"] for step in held["steps"]] == ["amplifies", "propagates"]
    assert odd.steps[0].accumulated == math.inf
    assert TraceDiff.from_json(odd.to_json()) == odd and str(
        TraceDiff.from_json(odd.to_json())
    ) == str(odd)


def _wrong(**changes: Any) -> str:
    return json.dumps({**json.loads(found().to_json()), **changes})


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
@pytest.mark.parametrize(
    "changes",
    [
        {"tensors": []},
        {"tensors": [{}]},
        {"outputs": "logits"},
        {"runs": "many"},
        {"steps": [{}]},
    ],
)
def test_json_of_another_shape_is_refused(changes: dict[str, Any]) -> None:
    assert TraceDiff.from_json(_wrong()) == found()
    with pytest.raises(InputError, match=r"TraceDiff.from_json: expected"):
        TraceDiff.from_json(_wrong(**changes))


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
@settings(max_examples=30)
@given(st.data())
def test_damaged_json_is_refused_or_read(data: st.DataObject) -> None:
    text = found().to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = (
        text[:at]
        + data.draw(st.sampled_from(["", '"', "0", "null", "{", "]", "-", "x"]))
        + text[at + 1 :]
    )
    try:
        read = TraceDiff.from_json(damaged)
    except InputError:
        return
    assert isinstance(str(read), str)
