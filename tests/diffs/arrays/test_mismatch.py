"""Two arrays, and what tells them apart."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyopnb.diffs.arrays.mismatch import mismatch
from pyopnb.diffs.arrays.ulp import rounding_error
from pyopnb.engine.ops.dtypes import DTYPES

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_dtype_is_itself_and_not_another(row: Any) -> None:
    one = (
        np.array(["a", "b"], object) if row.name == "string" else np.array([0, 1]).astype(row.numpy)
    )
    assert mismatch(one, one.copy()) is None
    assert mismatch(one[::-1], one).startswith(("[0] is", "[0,0] is"))
    assert mismatch(one[:1], one) is not None
    assert mismatch(one[:0], one[:0]) is None


@pytest.mark.parametrize(
    ("actual", "expected", "tolerant", "differing"),
    [
        ([1.0], [1.0000001], False, [0]),
        ([1.0], [1.0000001], True, None),
        ([NAN], [NAN], False, None),
        ([NAN], [NAN], True, None),
        ([NAN], [1.0], True, [0]),
        ([INF], [INF], True, None),
        ([INF], [-INF], True, [0]),
        ([INF], [3e38], True, [0]),
        ([-0.0], [0.0], True, None),
        ([1, 2.5, 3], [1, 2.5, 4], True, [2]),
        ([1e-3, 1e6], [2e-3, 1e6], True, None),  # terms of the size of 1e6 may have cancelled
        ([1e-3], [2e-3], True, [0]),
    ],
)
def test_floats(
    actual: list[float], expected: list[float], tolerant: bool, differing: list[int] | None
) -> None:
    text = mismatch(np.float32(actual), np.float32(expected), tolerant=tolerant)
    if differing is None:
        assert text is None
    else:
        assert text is not None
        assert text.startswith(f"{differing} is {np.float32(actual)[differing[0]]!s} instead of")


def test_zeros_of_other_signs_differ_where_every_bit_counts() -> None:
    assert mismatch(np.float32([-0.0]), np.float32([0.0])) is not None
    assert mismatch(np.complex64([complex(0, -0.0)]), np.complex64([0])) is not None


def test_what_is_never_tolerated() -> None:
    long = np.int64([2**62])
    assert mismatch(long, long + 1, tolerant=True) is not None
    one = np.float32([1])
    assert mismatch(one, np.float64([1]), tolerant=True) == "float32[1] instead of float64[1]"
    assert mismatch(one, one.reshape(()), tolerant=True) == "float32[1] instead of float32[]"
    texts = np.array(["a"], object), np.array(["b"], object)
    assert mismatch(*texts, tolerant=True) is not None


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_units_in_the_last_place(kind: Any) -> None:
    eps = float(ml_dtypes.finfo(kind).eps)
    assert rounding_error(np.asarray([1 + 3 * eps], kind), np.array([1.0]))[0] == 3
    assert rounding_error(np.asarray([1], kind), np.array([1.0]))[0] == 0
    assert rounding_error(np.asarray([INF, NAN], kind), np.array([1e300, NAN]))[0] == 0
    assert rounding_error(np.asarray([NAN], kind), np.array([1.0]))[0] == INF
    assert rounding_error(np.asarray([], kind), np.array([]))[0] == 0
