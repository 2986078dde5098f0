"""Where differences are: every field has its largest, however blocks fall; and how they go with the reference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb import diff
from pyopnb.diffs.arrays.stats import array_stats

RNG = np.random.default_rng(3)
FIELDS = 64
EIGHTH = 49  # bits of a float64 below an eighth of an octave


def spot(index: int, size: int) -> int:
    return next(field for field in range(64) if (field + 1) * size // 64 > index)


def by_hand(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    rows, columns = int(np.prod(shape[:-1], dtype=int)), shape[-1] if shape else 1
    down, across = (
        np.arange(min(n, k) + 1) * n // min(n, k)
        for n, k in ((rows, FIELDS), (columns, FIELDS if rows > 1 else 4 * FIELDS))
    )
    fields = values.reshape(rows, columns)
    return np.array(
        [[fields[a:b, c:d].max() for c, d in pairwise(across)] for a, b in pairwise(down)]
    )


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 40), min_size=0, max_size=3) | st.just([2, 40_000]),
    st.integers(1, 300),
    st.integers(0, 2**32),
)
def test_every_field_has_its_largest(shape: list[int], chunk: int, seed: int) -> None:
    shape = [size * 30 for size in shape] if len(shape) == 1 else shape
    values = np.random.default_rng(seed).random(shape)
    facts = array_stats(values, np.zeros(shape), 0.0, 0.0, chunk if values.size < 10_000 else 999)
    assert np.array_equal(facts.grid, by_hand(values, tuple(shape)).view(np.int64) >> EIGHTH)


@pytest.mark.parametrize("shape", [(100, 300), (7, 33, 129), (30_000,), (3, 20_000), (20_000, 3)])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, np.int16, np.complex64, ml_dtypes.bfloat16]
)
def test_picture_of_a_diff(shape: tuple[int, ...], dtype: Any) -> None:
    b = np.asarray(RNG.standard_normal(shape) * 100).astype(dtype)
    a = np.asarray(
        b + np.asarray(RNG.integers(0, 2, shape) * RNG.standard_normal(shape) * 10).astype(dtype)
    ).astype(dtype)
    facts = array_stats(a, b, 0.0, 0.0, 1000)
    wide = np.complex128 if dtype is np.complex64 else np.float64
    wanted = by_hand(np.abs(a.astype(wide) - b.astype(wide)), shape)
    found = facts.picture()
    assert found.shape == wanted.shape and np.array_equal(found == 0, wanted == 0)
    assert ((found <= wanted * 1.000001) & (wanted <= found * 1.126)).all()
    assert facts.matrix == (int(np.prod(shape[:-1], dtype=int)), shape[-1])


def test_one_wrong_element_among_millions_is_seen() -> None:
    b = RNG.standard_normal((1000, 2000)).astype(np.float32)
    a = b.copy()
    a[777, 1234] += 1
    picture = diff(a, b).worst.facts.picture()
    assert np.argwhere(picture).tolist() == [[spot(777, 1000), spot(1234, 2000)]]


def test_what_is_not_finite_is_infinite_in_the_picture() -> None:
    b = RNG.standard_normal((200, 200)).astype(np.float32)
    a = b + np.float32(1e-3)
    a[3, 3], a[100, 150], b[9, 9] = np.nan, np.inf, np.nan
    picture = diff(a, b).worst.facts.picture()
    assert np.argwhere(np.isinf(picture)).tolist() == [
        [spot(3, 200)] * 2,
        [spot(9, 200)] * 2,
        [spot(100, 200), spot(150, 200)],
    ]
    assert (picture[np.isfinite(picture)] > 0).all()
