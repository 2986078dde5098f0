"""Diffs of profiles: beyond the spread, fused on one side, and on one side only."""

from __future__ import annotations

import numpy as np
import pytest

import pyopnb
from pyopnb.traces.node_times import NodeProfile, Profile

RUNS = np.array([0.0, 1, 2, 3, 40])


def made(**medians: float) -> Profile:
    """A profile of nodes with these times; ``c_r`` is a group of c and r."""
    nodes = []
    for key, median in medians.items():
        outputs, times = tuple(key.split("_")), median + RUNS
        nodes.append(NodeProfile(" + ".join(outputs), "Op", outputs[-1], outputs, times, times))
    walls = sum((node.totals for node in nodes), np.full(5, 7.0))
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Neg(x) }")
    return Profile(
        model,
        nodes,
        walls=walls,
        sessions=walls,
        pythons=walls * 0,
    )


def test_beyond_the_spread_and_within():
    found = pyopnb.diff(made(a=100, b=100, gone=5), made(a=200, b=101, new=5))
    assert {change.node: change.verdict for change in found.nodes} == {
        "a": "slower", "b": "same", "gone": "only in a", "new": "only in b",
    }  # fmt: skip
    assert (
        found.nodes[0].node == "a"
        and found.nodes[0].ratio == 202 / 102
        and found.nodes[0].cost == 100
    )
    assert found.verdict == "slower" and not found.ok
    assert str(found).splitlines()[1] == "nodes: 1 slower, 1 only in a, 1 only in b, 1 same"
    back = pyopnb.diff(made(a=200, b=101), made(a=100, b=100))
    assert back.verdict == "faster" and back.ok


def test_nodes_that_one_side_ran_as_one():
    (change,) = pyopnb.diff(made(c=30, r=20), made(c_r=35)).nodes
    assert (
        change.node == "c + r"
        and change.a is not None
        and change.a.median == 54
        and change.verdict == "faster"
    )


def test_html_and_what_is_refused():
    found = pyopnb.diff(made(a=100, gone=5), made(a=200))
    assert "slower" in pyopnb.show(found).body and "1.98" in pyopnb.show(found).body
    with pytest.raises(
        pyopnb.errors.InputError,
        match="diff, b: expected a profile, as the other side is one, got int",
    ):
        pyopnb.diff(made(a=1), 3)
    with pytest.raises(
        pyopnb.errors.InputError, match="diff, rtol: expected no tolerance for profiles"
    ):
        pyopnb.diff(made(a=1), made(a=1), rtol=1.0)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(found)
