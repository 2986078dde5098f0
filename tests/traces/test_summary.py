"""Summaries hold what NumPy says of the whole array."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyopnb.traces import summary as module
from pyopnb.traces.summary import BINS, Summary

NUMBERS = (
    np.bool_,
    np.int8,
    np.uint8,
    np.int32,
    np.int64,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)


@settings(max_examples=100)
@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    )
)
def test_numbers(array):
    summary = Summary.of(array)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    assert (summary.count, summary.finite) == (array.size, finite.size)
    assert summary.nan == np.isnan(wide).sum()
    assert (summary.posinf, summary.neginf) == ((wide == np.inf).sum(), (wide == -np.inf).sum())
    assert summary.has_nonfinite == (finite.size < array.size) and str(summary).startswith(
        str(summary.type)
    )
    if not finite.size:
        assert (
            summary.least is summary.greatest is summary.mean is summary.std is None
            and summary.bins == ()
        )
        return
    kept = array[np.isfinite(wide)]
    assert (summary.least, summary.greatest) == (kept.min(), kept.max())
    assert sum(summary.bins) == finite.size and len(summary.bins) == BINS
    with np.errstate(all="ignore"):
        scale = max(1.0, np.abs(finite).max())
        mean, std = (finite / scale).mean() * scale, (finite / scale).std() * scale
    assert summary.mean == pytest.approx(mean, rel=1e-6, abs=scale * 1e-12)
    assert summary.std == pytest.approx(std, rel=1e-5, abs=scale * 1e-7) or (
        summary.std == np.inf and scale > 1e150
    )
    if summary.least < summary.greatest:
        assert summary.bins[0] and summary.bins[-1]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_dtypes_of_ml_dtypes(name):
    array = np.array([0, 1, 2, 3, 5], np.float32).astype(getattr(ml_dtypes, name))
    summary = Summary.of(array)
    exact = array.astype(np.float64)
    assert str(summary.type) == f"{name}[5]" and (summary.least, summary.greatest) == (
        0,
        exact.max(),
    )
    assert summary.mean == pytest.approx(exact.mean())


def test_nan_of_a_small_float():
    summary = Summary.of(np.array([1, np.nan, np.inf], ml_dtypes.bfloat16))
    assert (summary.nan, summary.posinf, summary.least) == (1, 1, 1)


def test_texts():
    summary = Summary.of(np.array([["a", "long one"], ["", "a"]], object))
    assert (summary.kind, summary.longest, summary.distinct) == ("text", "long one", 3)
    assert str(summary) == 'string[2,2]  3 different, longest 8: "long one"'
    assert (
        Summary.of(np.zeros(0, object)).longest is None
        and str(Summary.of(np.zeros(0, object))) == "string[0]  empty"
    )


def test_values_on_the_edge_of_float64():
    for tiny in (5e-324, 2.3e-308):
        assert sum(Summary.of(np.array([tiny, 0.0])).bins) == 2
    summary = Summary.of(np.array([1.7e308, 1.7e308, -1.7e308]))
    assert summary.mean == pytest.approx(1.7e308 / 3) and sum(summary.bins) == 3
    for pair in (
        np.int64([-(2**63), 2**63 - 1]),
        np.int64([2**62, 2**62 + 1]),
        np.uint64([2**64 - 2, 2**64 - 1]),
    ):
        summary = Summary.of(pair)
        assert (summary.least, summary.greatest) == tuple(pair.tolist())
        assert sum(summary.bins) == 2


def test_nothing_of_the_size_of_the_tensor_is_made(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 1 << 16)
    array = np.random.default_rng(0).standard_normal((1000, 2000)).astype(np.float32)
    array[0, 0] = np.nan
    for given_array in (array, array.T, array.astype(np.float16)):
        tracemalloc.start()
        Summary.of(given_array)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3_000_000
