"""Two arrays, and what tells them apart."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyopnb.ops.dtypes import DTYPES
from pyopnb.testing.difference import difference, ulps

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_dtype_is_itself_and_not_another(row: Any) -> None:
    one = np.array(["a", "b"], object) if row.name == "string" else np.array([0, 1]).astype(row.numpy)
    assert difference(one, one.copy()) is None
    assert difference(one[::-1], one).startswith("[0] is")
    assert difference(one[:1], one) is not None
    assert difference(one[:0], one[:0]) is None


@pytest.mark.parametrize(
    ("got", "want", "rtol", "said"),
    [
        ([1.0], [1.0000001], None, "[0] is 1.0 instead of 1.0000001 (1 of 1 element differs)"),
        ([1.0], [1.0000001], 1e-6, None),
        ([NAN], [NAN], None, None),
        ([NAN], [NAN], 1e-6, None),
        ([NAN], [1.0], 1e-6, "[0] is nan instead of 1.0 (1 of 1 element differs)"),
        ([INF], [INF], 1e-6, None),
        ([INF], [-INF], 1e-6, "[0] is inf instead of -inf (1 of 1 element differs)"),
        ([INF], [3e38], 1.0, "[0] is inf instead of 3e+38 (1 of 1 element differs)"),
        ([-0.0], [0.0], None, "[0] is -0.0 instead of 0.0 (1 of 1 element differs)"),
        ([-0.0], [0.0], 1e-6, None),
        ([1, 2, 3], [1, 2.5, 4], 1e-6, "[2] is 3.0 instead of 4.0 (2 of 3 elements differ)"),
        ([1e-3, 1e6], [2e-3, 1e6], 1e-6, None),
        ([1e-3], [2e-3], 1e-6, "[0] is 0.001 instead of 0.002 (1 of 1 element differs)"),
    ],
)  # fmt: skip
def test_floats(got: list[float], want: list[float], rtol: float | None, said: str | None) -> None:
    assert difference(np.float32(got), np.float32(want), rtol) == said


def test_what_is_never_tolerated() -> None:
    assert difference(np.int64([2**62]), np.int64([2**62 + 1]), 0.1) is not None
    assert difference(np.float32([1]), np.float64([1]), 1.0) == "float32[1] instead of float64[1]"
    assert difference(np.float32([1]), np.float32(1).reshape(()), 1.0) == "float32[1] instead of float32[]"
    assert difference(np.array(["a"], object), np.array(["b"], object), 1.0) == "[0] is a instead of b (1 of 1 element differs)"


@given(hnp.arrays(np.float32, st.integers(0, 5)), hnp.arrays(np.float32, st.integers(0, 5)))
def test_it_agrees_with_numpy(a: np.ndarray, b: np.ndarray) -> None:
    same = (
        a.shape == b.shape
        and np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))
    )
    assert (difference(a, b) is None) == same


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_units_in_the_last_place(kind: Any) -> None:
    eps = float(ml_dtypes.finfo(kind).eps)
    assert ulps(np.asarray([1 + 3 * eps], kind), np.array([1.0]))[0] == 3
    assert ulps(np.asarray([1], kind), np.array([1.0]))[0] == 0
    assert ulps(np.asarray([INF, NAN], kind), np.array([1e300, NAN]))[0] == 0
    assert ulps(np.asarray([NAN], kind), np.array([1.0]))[0] == INF
    assert ulps(np.asarray([], kind), np.array([]))[0] == 0
