"""A diff as text, HTML and JSON, and judged again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb import Diff, diff
from pyopnb.ops import progress

RNG = np.random.default_rng(5)
A = RNG.standard_normal((20, 30)).astype(np.float32)
B = (A + 1e-3 * RNG.standard_normal(A.shape)).astype(np.float32)


def test_it_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"neither true nor false. Try: diff\(a, b\).ok"):
        bool(diff(A, B))


def test_judged_again_is_judged_anew() -> None:
    found = diff(A, B)
    for tolerances in ({"rtol": 0.0}, {"atol": 1e-2}, {"rtol": 1e-3, "atol": 1e-3}, {"rtol": 1e-3, "atol": 5e-3}, {}):
        again, anew = found.judged(**tolerances), diff(A, B, **tolerances)
        assert again.verdict == anew.verdict
        assert again.parts[0].facts.over in (anew.parts[0].facts.over, None)
        assert len(str(again).splitlines()) <= 12
        assert Diff.from_json(again.to_json()) == again
    assert found.judged().parts == found.parts
    assert Diff.from_json(found.to_json()).judged(atol=1e-2).verdict == "close"


@pytest.mark.parametrize(
    ("a", "b", "tolerances", "verdict"),
    [
        (np.int8([1]), np.int8([3]), {"atol": 2}, "close"),
        (np.int8([1]), np.int8([3]), {"atol": 1.9}, "different"),
        (np.int8([1]), np.int8([3]), {"rtol": 9}, "different"),
        (np.float32([np.nan]), np.float32([1]), {"atol": 1e30}, "different"),
        (np.array(["a"], object), np.array(["b"], object), {"atol": 1}, "different"),
        (np.bool_([1]), np.bool_([0]), {"atol": 1}, "different"),
        (np.float32([0.0]), np.float32([-0.0]), {"rtol": 0.0}, "value-identical"),
        (np.float32([1.0]), np.float32([0.0]), {"rtol": 1e9}, "different"),
        (np.float32([1.0]), np.float32([0.0]), {"atol": 1.0}, "close"),
        (None, None, {"rtol": 0.0}, "bit-identical"),
    ],
)
def test_hard_cases_judged_again(a: Any, b: Any, tolerances: Any, verdict: str) -> None:
    assert diff(a, b).judged(**tolerances).verdict == verdict == diff(a, b, **tolerances).verdict


def test_json_is_strict() -> None:
    found = diff(
        {"y": np.float32([np.inf, 0, 1]), "n": np.uint64([2**64 - 1])}, {"y": np.float32([np.inf, 0, 1]), "n": np.uint64([0])}
    )
    held = json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert (held["format"], held["version"], held["verdict"], held["ok"]) == ("pyopnb.diff", 1, "different", False)
    assert held["parts"][1]["facts"]["largest"] == 2**64 - 1
    assert held["parts"][1]["facts"]["snr"] == "-Infinity"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "{}", '{"format": "pyopnb.diff"}', '{"format": "pyopnb.diff", "version": 1}', "[" * 100_000,
     '{"format": "pyopnb.diff", "version": 1, "parts": [1]}', '{"format": "pyopnb.diff", "version": 1, "parts": []}',
     '{"format": "pyopnb.diff", "version": 2, "parts": []}', '{"format": "pyopnb.diff", "version": NaN}'],
)  # fmt: skip
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(pyopnb.FeedError, match="Diff.from_json"):
        Diff.from_json(text)


def test_text_is_short_whatever_there_is() -> None:
    a = {f"output {i}": A for i in range(50)}
    text = str(diff(a, {**a, **{f"output {i}": B for i in range(40)}}))
    assert len(text.splitlines()) == 12 and text.startswith("different: of 50 parts 10 bit-identical, 40 different")
    odd = A.copy()
    odd[:, 3] = np.nan
    odd[0, 0] = np.inf
    text = str(diff(odd, B))
    assert len(text.splitlines()) <= 12 and "20 NaN in a" in text


def test_text_says_what_it_applied() -> None:
    text = str(diff(A, B, rtol=1e-3, atol=1e-4))
    assert "rtol 0.001, atol 0.0001" in text and "|a-b| <= atol + rtol*|b|" in text and "would pass: atol " in text


def test_html_of_many_parts_stays_small() -> None:
    many = diff([np.zeros(1, np.float32)] * 3000, [np.ones(1, np.float32)] * 3000)
    assert len(many._repr_html_()) < 200_000


def test_a_long_diff_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, str]] = []
    monkeypatch.setattr(progress, "_make_bar", [lambda what: lambda done, total: told.append((done, total, what))])
    numbers, texts = np.zeros(2**20, np.float32), np.array(["a"] * 2**17, object)
    diff([numbers, texts], [numbers, texts])
    assert told == []
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    diff([numbers, texts], [numbers, texts])
    whole = numbers.size + texts.size
    assert told[-1] == (whole, whole, "elements") and len(told) > 8
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[0][0] < whole / 4
