"""Floats as NumPy's own, and as whole numbers in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyopnb.diffs.arrays.stats import family
from pyopnb.diffs.arrays.ulp import ordered, smallest_normal, steps, widened
from pyopnb.ops.dtypes import DTYPES

FLOATS = [row for row in DTYPES if family(row.numpy) == "float"]


@pytest.mark.parametrize("row", FLOATS, ids=str)
def test_every_pattern_of_bits(row: Any) -> None:
    size = row.numpy.itemsize
    if size <= 2:
        block = np.arange(2 ** (8 * size), dtype=f"u{size}").view(row.numpy)
    else:
        block = np.random.default_rng(1).integers(0, 256, 8 * 4096, np.uint8).view(row.numpy)
    with np.errstate(invalid="ignore"):
        values = block.astype(np.float64)
        assert np.array_equal(widened(block).astype(np.float64), values, equal_nan=True)
    numbers = ~np.isnan(values)
    order = np.argsort(values[numbers], kind="stable")
    places = ordered(block)[numbers][order].astype(np.int64)
    rising = np.diff(values[numbers][order]) > 0
    assert ((places[1:] > places[:-1]) >= rising).all()
    assert smallest_normal(row.numpy) > 0


def test_steps_reach_from_one_end_to_the_other() -> None:
    ends = np.float64([-np.finfo(np.float64).max]), np.float64([np.finfo(np.float64).max])
    assert int(steps(*ends)[0]) == 2 * 0x7FEFFFFFFFFFFFFF + 1
    assert int(steps(*ends[::-1])[0]) == 2 * 0x7FEFFFFFFFFFFFFF + 1
