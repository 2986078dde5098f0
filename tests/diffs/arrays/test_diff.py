"""A diff as text, HTML and JSON, and judged again."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyopnb import diff
from pyopnb.diffs.arrays.diff import Diff

RNG = np.random.default_rng(5)
A = RNG.standard_normal((20, 30)).astype(np.float32)
B = (A + 1e-3 * RNG.standard_normal(A.shape)).astype(np.float32)


def test_judged_again_is_judged_anew() -> None:
    found = diff(A, B)
    for tolerances in (
        {"rtol": 0.0},
        {"atol": 1e-2},
        {"rtol": 1e-3, "atol": 1e-3},
        {"rtol": 1e-3, "atol": 5e-3},
        {},
    ):
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
        (np.float32([1, 101]), np.float32([0, 100]), {"stol": 0.01}, "close"),
        (np.float32([1]), np.float32([1.0001]), {"rtol": np.float32(1e-3)}, "close"),
        (np.float32([1, 101]), np.float32([0, 100]), {"stol": 0.0099}, "different"),
        (np.float32([1, -np.inf]), np.float32([0, -np.inf]), {"stol": 1e9}, "different"),
        (np.float16([2e-3, -4]), np.float16([0, -4]), {"stol": True}, "close"),
        (np.complex64([1e-4, 3 + 4j]), np.complex64([0, 3 + 4j]), {"stol": 2.6e-5}, "close"),
        (np.float64([2, 1]), np.float64([1, 1]), {"stol": 0.5, "rtol": 0.5}, "close"),
        (np.int8([1]), np.int8([3]), {"stol": 9}, "different"),
    ],
)
def test_hard_cases_judged_again(a: Any, b: Any, tolerances: Any, verdict: str) -> None:
    assert diff(a, b).judged(**tolerances).verdict == verdict == diff(a, b, **tolerances).verdict


@given(
    hnp.arrays(np.float32, 5, elements=st.floats(-8, 8, width=32)),
    hnp.arrays(np.float32, 5, elements=st.floats(-8, 8, width=32)),
    *[st.sampled_from([0.0, 0.125, 0.25, 1.0])] * 3,
)
def test_a_tolerance_of_the_scale(
    a: np.ndarray, b: np.ndarray, rtol: float, atol: float, stol: float
) -> None:
    wide = b.astype(np.float64)
    passes = bool(
        (np.abs(a - wide) <= atol + rtol * np.abs(wide) + stol * np.abs(wide).max()).all()
    )
    found = diff(a, b, rtol=rtol, atol=atol, stol=stol)
    assert found.ok == passes == diff(a, b).judged(rtol=rtol, atol=atol, stol=stol).ok
    assert Diff.from_json(found.to_json()) == found
    backwards = diff(a[::-1], b[::-1], rtol=rtol, atol=atol, stol=stol)
    assert backwards.ok == passes


@pytest.mark.parametrize("size", [7, 5000])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.complex64])
def test_a_diff_stays_as_it_is_when_its_arrays_change(kind: Any, size: int) -> None:
    b = (np.arange(size) % 100).astype(kind)
    a = b + kind(1)
    expected = str(diff(a, b))
    found = diff(a, b)
    a[:], b[:] = 3, 4
    assert (str(found), found.parts[0].facts.over) == (expected, size)
    assert pickle.loads(pickle.dumps(diff(a, b))) == diff(a, b)


def test_text_is_short_whatever_there_is() -> None:
    a = {f"output {i}": A for i in range(50)}
    text = str(diff(a, {**a, **{f"output {i}": B for i in range(40)}}))
    assert len(text.splitlines()) == 12 and text.startswith(
        "different: 40 of 50 parts; 10 bit-identical\noutput 0: "
    )
    odd = A.copy()
    odd[:, 3] = np.nan
    odd[0, 0] = np.inf
    text = str(diff(odd, B))
    assert (
        len(text.splitlines()) <= 12
        and "20 NaN only in a, 1 infinite only in a, which no tolerance covers; elsewhere |a-b|"
        in text
    )


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 0.3])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, np.int32])
def test_the_tolerances_that_would_pass_do(kind: Any, scale: float) -> None:
    b = (RNG.standard_normal((9, 11)) * 100).astype(kind)
    a = (b * (1 + scale * RNG.standard_normal(b.shape))).astype(kind)
    a[0, 0] = b[0, 0] + 2
    found = diff(a, b)
    advice = re.findall(r"\brtol=\S+, atol=[^\s;]+|\b[ar]tol=\S+", str(found))
    assert advice
    for tolerances in advice:
        given = {
            name: float(value)
            for name, value in (one.split("=") for one in tolerances.rstrip(";").split(", "))
        }
        assert diff(a, b, **given).ok, tolerances


@pytest.mark.parametrize(
    "arrange",
    [
        lambda array: array,  # a short array, whose facts are put off
        lambda array: np.tile(array, 50_000),  # shared between threads
        lambda array: np.tile(array, (3, 200)).T,  # in another memory order
        lambda array: np.tile(array, 4)[::2],
        lambda array: array[1],  # a NumPy scalar
    ],
    ids=["short", "long", "transposed", "strided", "scalar"],
)
def test_bools_are_compared_as_bools_whatever_byte_is_true(arrange):
    odd = np.array([0, 2, 255, 2, 0], np.uint8).view(bool)
    plain = np.array([False, True, True, True, False])
    assert diff(arrange(odd), arrange(plain)).verdict == "bit-identical"
    assert diff({"y": [arrange(odd)]}, {"y": [arrange(plain)]}).ok
    flipped = plain.copy()
    flipped[1] = False
    changed = diff(arrange(odd), arrange(flipped))
    part = changed.worst
    assert part.verdict == "different"
    expected = np.argwhere(arrange(plain) != arrange(flipped))
    assert part.facts.differing == part.facts.over == len(expected)
    assert part.facts.first == tuple(expected[0])
    assert part.facts.classes == {"True in a and False in b": len(expected)}


def test_a_signalling_nan_has_no_scale():
    array = np.uint32([0x7F800001, 0x3F800000]).view(np.float32)
    assert diff(array, array, stol=True).verdict == "bit-identical"
    near = array.copy()
    near[1] = 1.001
    assert diff(near, array, stol=1e-2).verdict == "close"
