"""Every fact of two arrays against a plain count, one pair of elements after the other, with exact fractions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb.diffs.arrays import _stats
from pyopnb.diffs.arrays.parts import quick_stats
from pyopnb.diffs.arrays.stats import ArrayStats, array_stats

FLOATS = [
    np.float16,
    np.float32,
    np.float64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fn,
]
INTEGERS = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
SLACK = 1 + Fraction(1, 2**40)
HARD = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 1e-40, -1e-45, 3e38, -1e308, 65504.0, 6e-8]


def plain_floats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> dict[str, Any]:
    classes: Counter[str] = Counter()
    tiny = float(ml_dtypes.finfo(a.dtype).smallest_normal)
    bits, differing, over, odd, pairs, hits = 0, 0, 0, [], [], np.zeros(a.shape, bool)
    for index in np.ndindex(a.shape):
        x, y = float(a[index]), float(b[index])
        other_bits = a[index].tobytes() != b[index].tobytes()
        bits += other_bits
        if math.isnan(x) or math.isnan(y):
            name = (
                "NaN in both"
                if math.isnan(x) and math.isnan(y)
                else "NaN only in a"
                if math.isnan(x)
                else "NaN only in b"
            )
            classes["NaN in both with different bits"] += name == "NaN in both" and other_bits
        elif math.isinf(x) or math.isinf(y):
            both = (
                "infinite in both with the same sign"
                if x == y
                else "infinite in both with opposite signs"
            )
            name = (
                both
                if math.isinf(x) and math.isinf(y)
                else "infinite only in a"
                if math.isinf(x)
                else "infinite only in b"
            )
        elif math.isinf(x - y):
            name = "so far apart that |a-b| overflows"
        else:
            pairs.append((index, x, y))
            classes["subnormal in a"] += 0 < abs(x) < tiny
            classes["subnormal in b"] += 0 < abs(y) < tiny
            classes["nonzero in a where b is 0"] += x != y == 0
            classes["zeros of opposite sign"] += x == y and other_bits
            differing += x != y
            away = abs(Fraction(x - y))
            hits[index] = away > (Fraction(atol) + Fraction(rtol) * abs(Fraction(y))) * SLACK
            continue
        classes[name] += 1
        if name not in ("NaN in both", "infinite in both with the same sign"):
            odd.append(index)
            hits[index] = True
    over = int(hits.sum())
    sizes = [abs(x - y) for _, x, y in pairs]
    found: dict[str, Any] = {
        "count": a.size, "finite": len(pairs), "bits": bits, "differing": differing + len(odd), "over": over, "odd": len(odd),
        "classes": {name: count for name, count in classes.items() if count},
        "largest": max(sizes, default=None), "peak": max((abs(y) for *_, y in pairs), default=None),
    }  # fmt: skip
    order = sorted((-size, pair[0]) for size, pair in zip(sizes, pairs, strict=True) if size)
    found["worst"] = [*odd[:5], *(index for _, index in order[:5])][:5]
    firsts = np.argwhere(hits) if over else np.array([index for index, x, y in pairs if x != y])
    found["first"] = tuple(firsts[0].tolist()) if len(firsts) else None
    found["axes"] = {
        axis: hits.sum(axis=tuple(k for k in range(a.ndim) if k != axis)).tolist()
        for axis in range(a.ndim)
        if a.shape[axis] > 1
    }
    found["mean"] = sum(map(Fraction, sizes)) / len(pairs) if pairs else None
    found["bias"] = sum(Fraction(x - y) for _, x, y in pairs) / len(pairs) if pairs else None
    return found


NAMES = [
    "count",
    "finite",
    "bits",
    "differing",
    "over",
    "odd",
    "classes",
    "largest",
    "peak",
    "first",
]


def assert_same(facts: ArrayStats, plain: dict[str, Any]) -> None:
    for name in NAMES:
        assert getattr(facts, name) == plain[name], name


def assert_totals(
    facts: ArrayStats, a: np.ndarray, b: np.ndarray, rtol: float, atol: float
) -> None:
    quick = quick_stats(a, b, rtol, atol)
    assert (quick.bits, quick.differing, quick.over) == (facts.bits, facts.differing, facts.over)


def assert_axes(facts: ArrayStats, counts: dict[int, list[int]]) -> None:
    if (facts.over or 0) <= 1:
        assert facts.axes == ()
        return
    assert {axis.axis: (axis.size, axis.index, axis.most, axis.seen) for axis in facts.axes} == {
        axis: (
            len(along),
            along.index(max(along)),
            max(along),
            sum(along),
        )
        for axis, along in counts.items()
    }


numbers = st.floats(-2, 2, width=16) | st.sampled_from(HARD) | st.floats(allow_nan=False, width=32)
thorough = settings(max_examples=200)


@pytest.mark.one_python  # long arrays in our own C++
@thorough
@given(
    st.sampled_from(FLOATS),
    st.sampled_from([(), (1,), (7,), (2, 3), (4, 1, 3)]),
    st.data(),
    st.sampled_from([0.0, 1e-3, 0.5]),
    st.sampled_from([0.0, 1e-5, 1.0]),
)
def test_floats(
    kind: Any, shape: tuple[int, ...], data: st.DataObject, rtol: float, atol: float
) -> None:
    count = math.prod(shape)
    factors = st.sampled_from([1.0, 1.001, 2.0])
    with np.errstate(all="ignore"):
        b = np.array(data.draw(st.lists(numbers, min_size=count, max_size=count))).astype(kind)
        near = np.array(data.draw(st.lists(factors | numbers, min_size=count, max_size=count)))
        product = b.astype(np.float64) * near
        a = np.where(np.isin(near, [1.0, 1.001, 2.0]), product, near).astype(kind)
    a, b = a.reshape(shape), b.reshape(shape)
    facts, plain = array_stats(a, b, rtol, atol), plain_floats(a, b, rtol, atol)
    if not plain["bits"]:
        assert facts == ArrayStats(a.size, largest=0)
        return
    assert_same(facts, plain)
    assert [place.index for place in facts.worst] == plain["worst"]
    assert_axes(facts, plain["axes"])
    assert_totals(facts, a, b, rtol, atol)
    if plain["mean"] is not None and math.isfinite(facts.mean or 0.0):
        assert facts.mean == pytest.approx(float(plain["mean"]), rel=1e-12)
        assert facts.bias == pytest.approx(
            float(plain["bias"]), rel=1e-9, abs=1e-12 * float(plain["mean"])
        )


@pytest.mark.one_python  # long arrays in our own C++
@thorough
@given(
    st.sampled_from(INTEGERS),
    st.sampled_from([(), (7,), (2, 3)]),
    st.data(),
    st.sampled_from([0.0, 1.0, 2.5, 1e30]),
)
def test_integers(kind: Any, shape: tuple[int, ...], data: st.DataObject, atol: float) -> None:
    info, count = np.iinfo(kind), math.prod(shape)
    integers = (
        st.integers(info.min, info.max) | st.integers(0, 3) | st.sampled_from([info.min, info.max])
    )
    a, b = (
        np.array(data.draw(st.lists(integers, min_size=count, max_size=count)), kind).reshape(shape)
        for _ in "ab"
    )
    facts = array_stats(a, b, 0.0, atol)
    assert_totals(facts, a, b, 0.0, atol)
    if np.array_equal(a, b):
        assert facts == ArrayStats(count, largest=0)
        return
    away = [int(x) - int(y) for x, y in zip(a.flat, b.flat, strict=True)]
    hits = np.array([abs(one) > atol for one in away]).reshape(shape)
    assert (facts.count, facts.finite, facts.odd) == (count, count, 0)
    assert facts.bits == facts.differing == sum(one != 0 for one in away)
    assert facts.over == hits.sum() and facts.largest == max(map(abs, away))
    assert facts.mean == pytest.approx(sum(map(abs, away)) / count, rel=1e-12)
    assert facts.bias == pytest.approx(sum(away) / count, rel=1e-9, abs=1e-12 * facts.mean)
    worst = sorted(
        (-abs(one), index) for one, index in zip(away, np.ndindex(shape), strict=True) if one
    )[:5]
    assert [(-place.absolute, place.index) for place in facts.worst] == worst
    assert_axes(
        facts,
        {
            axis: hits.sum(axis=tuple(k for k in range(len(shape)) if k != axis)).tolist()
            for axis in range(len(shape))
        },
    )


@pytest.mark.one_python  # long arrays in our own C++
@pytest.mark.parametrize("kind", FLOATS)
def test_blocks_with_and_without_numbers_in_turn(kind: Any) -> None:
    """The counts of a block in the native module do not depend on the block before."""
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        near, far, hard = (
            rng.choice(values, 1024).astype(kind)
            for values in ([0.5, 1.0, -0.0], [0.0, 2.0, 1e-40], HARD)
        )
    pairs = [
        (near, far),
        (hard, near),
        (near, near),
        (far, near),
        (far, hard),
        (hard, rng.permutation(hard)),
        (hard, hard),
        (far, far),
    ]
    a, b = (np.concatenate([pair[side] for pair in pairs])[:-1] for side in (0, 1))
    facts, plain = array_stats(a, b, 1e-3, 1e-5), plain_floats(a, b, 1e-3, 1e-5)
    assert_same(facts, plain)
    assert math.isinf(facts.mean) or facts.mean == pytest.approx(float(plain["mean"]), rel=1e-12)
    assert [place.index for place in facts.worst] == plain["worst"]
    assert_axes(facts, plain["axes"])


@pytest.mark.parametrize("make", ["noise", "sorted", "NaN", "curve", "bits", "equal"])
def test_any_number_of_threads_gives_the_same_facts(make: str) -> None:
    rng = np.random.default_rng(5)
    b = rng.standard_normal(300_000).astype(np.float32)
    if make == "bits":
        a, b = (rng.integers(0, 2**32, b.size, np.uint32).view(np.float32) for _ in "ab")
    elif make == "sorted":
        b = np.sort(b)
        a = b * np.float32(2)
    elif make == "curve":
        a = b + np.sqrt(np.abs(b))
    else:
        a = (
            b.copy()
            if make == "equal"
            else b + np.float32(1e-3) * rng.standard_normal(b.size).astype(np.float32)
        )
        a[:: 7 if make == "NaN" else b.size] = np.nan
    results = []
    for threads in (1, 2, 3, 8):
        stats = _stats.Stats("float4", a.shape, 1e-5, 1e-5, True, 1e-38, *NO_TABLES)
        for at in range(0, a.size, 2**17):
            stats.add(
                a[at : at + 2**17].view(np.uint8), b[at : at + 2**17].view(np.uint8), at, threads
            )
        results.append(str(stats.result()))
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    "shape", [(3, 5, 1000), (70_000, 3), (2, 700_000), (3, 30, 20_000), (1, 1, 9)]
)
def test_mismatches_of_long_arrays_are_all_counted_along_their_axes(shape: tuple[int, ...]) -> None:
    hits = np.random.default_rng(2).random(shape) < 0.3
    facts = array_stats(hits.astype(np.float32), np.zeros(shape, np.float32), 0.0, 0.5, 100_003)
    along = {
        k: hits.sum(axis=tuple(j for j in range(len(shape)) if j != k)).tolist()
        for k in range(len(shape))
    }
    assert_axes(facts, {axis: counts for axis, counts in along.items() if 1 < len(counts) <= 2**16})


NO_TABLES = np.zeros(0, np.float32), np.zeros(0, np.uint32)
