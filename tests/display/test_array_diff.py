"""Diffs of arrays as pictures and tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb import diff
from pyopnb.diffs.arrays.diff import Diff

RNG = np.random.default_rng(4)
B = (RNG.standard_normal((200, 300)) * np.exp(RNG.standard_normal((200, 300)))).astype(np.float32)
A = (B * (1 + 1e-6 * RNG.standard_normal(B.shape))).astype(np.float32)
A[17, 233] += 3
NAN = A.copy()
NAN[5, 5] = np.nan
N = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("found", "sign", "charts"),
    [
        (diff(A, B), "✗ different", 1),
        (diff(A, B, atol=9), "≈ close", 1),
        (diff(A, A), "✓ bit-identical", 0),
        (diff(np.float32([0]), np.float32([-0.0])), "✓ value-identical", 0),
        (diff(A, A.astype(float)), "? incomparable", 0),
        (diff({"y": NAN, N: A}, {"y": A, N: B}), "✗ different", 1),
        (diff(np.arange(100), np.arange(100)[::-1]), "✗ different", 2),
        (diff(np.array(["a", N]), np.array(["a", "b"])), "✗ different", 0),
        (diff(B > 0, B > 0.1), "✗ different", 1),
        (diff(np.float32(1), np.float32(2)), "✗ different", 0),
        (diff({}, {}), "✓ bit-identical", 0),
    ],
)
def test_page(found: Any, sign: str, charts: int, survives: Any) -> None:
    view = pyopnb.show(found)
    kept = survives(view.body)
    text = "".join(kept.text)
    lines = str(found).splitlines()[:3]
    assert text.startswith(sign) and all(
        line.removeprefix(f"{found.verdict}: ") in text for line in lines if line[0] != " "
    )
    bold = re.search(r"\.(\w+)\{[^}]*font-weight:600", view.svg)  # the class of the charts' titles
    assert (view.svg.count(f'class="{bold[1]}"') if bold else 0) == charts
    assert bool(kept.pictures) == bool(charts) and str(view) == str(found)


def test_read_from_json_it_draws_the_same() -> None:
    found = diff(NAN, B)
    assert Diff.from_json(found.to_json())._repr_html_() == found._repr_html_()


def test_limits_hold_the_colors_still() -> None:
    more = B + 4 * (A - B)
    ends = [
        re.findall(r">([\d.e+-]+)</text>", pyopnb.show(diff(a, B), limits=(1e-6, 20)).svg)[:3]
        for a in (A, more)
    ]
    assert ends[0] == ends[1] and ends[0][0] == "1e-06" and ends[0][2] == "20"
    assert (
        pyopnb.show(diff(A, B), limits=(0, 10)).svg != pyopnb.show(diff(A, B), limits=(0, 20)).svg
    )
    for limits in ((1, 1), (2, 1), 3, (0, np.inf), ("a", "b")):
        with pytest.raises(pyopnb.errors.InputError, match=r"show, limits: expected \(low, high\)"):
            pyopnb.show(diff(A, B), limits=limits)


def test_the_worst_elements_are_a_table_with_their_distances(survives: Any) -> None:
    text = "".join(survives(pyopnb.show(diff(A, B)).body).text)
    assert "worst at" in text and "|a-b|/|b|ULP" in text
    words = np.array(["a", "b", "c"] * 20, object)
    text = "".join(survives(pyopnb.show(diff(words, words[::-1])).body).text)
    assert "first at" in text and "ULP" not in text
