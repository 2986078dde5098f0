"""A trace diff as text and JSON, and judged again."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from transformer import transformer

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
