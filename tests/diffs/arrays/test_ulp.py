"""Floats of one and two bytes as NumPy's own, and as whole numbers in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyopnb.diffs.arrays.stats import array_stats, family
from pyopnb.diffs.arrays.ulp import smallest_normal, tabulate
from pyopnb.ops.dtypes import DTYPES

FLOATS = [row for row in DTYPES if family(row.numpy) == "float"]


@pytest.mark.parametrize("row", [row for row in FLOATS if row.numpy.itemsize <= 2], ids=str)
def test_every_pattern_of_bits(row: Any) -> None:
    size = row.numpy.itemsize
    block = np.arange(2 ** (8 * size), dtype=f"u{size}").view(row.numpy)
    values, order = (table[: block.size] for table in tabulate(row.numpy))
    with np.errstate(invalid="ignore"):
        exact, widened = block.astype(np.float64), values.astype(np.float64)
    assert np.array_equal(widened, exact, equal_nan=True)
    numbers = ~np.isnan(exact)
    rising = np.argsort(exact[numbers], kind="stable")
    steps = np.diff(order[numbers][rising].astype(np.int64))
    assert ((steps > 0) >= (np.diff(exact[numbers][rising]) > 0)).all()


@pytest.mark.parametrize("row", FLOATS, ids=str)
def test_smallest_normal(row: Any) -> None:
    assert smallest_normal(row.numpy) > 0


@pytest.mark.parametrize(
    ("kind", "steps"), [(np.float64, 2 * 0x7FEFFFFFFFFFFFFF + 1), (np.float32, 2 * 0x7F7FFFFF + 1)]
)
def test_steps_reach_from_one_end_to_the_other(kind: Any, steps: int) -> None:
    # In float64 the two are farther apart than its range, and no pair of numbers: half of the way is counted twice.
    low, high = (
        np.array([-np.finfo(kind).max, 0.0, -0.0], kind),
        np.array([np.finfo(kind).max, -0.0, 0.0], kind),
    )
    if kind is np.float64:
        low, high = low / 2, high / 2
        steps -= 2 * 2**52
    for a, b in ((low, high), (high, low)):
        assert array_stats(a, b, 0.0, 0.0).ulp == steps
