"""Changes by exposing are reported bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyopnb.traces.exposure import exposure_of

F = np.float32


@pytest.mark.parametrize(
    "value",
    [
        F([1, np.nan, -0.0]),
        np.array(3),
        np.array(["a"], object),
        [F([1]), F([2])],
        None,
        np.array([1], ml_dtypes.int4),
        F([]),
    ],
)
def test_the_same(value):
    exposure = exposure_of({"y": value}, {"y": value})
    assert exposure.same and str(exposure) == "recording the tensors changed no bit of 1 output"


@pytest.mark.parametrize(
    ("a", "b", "largest"),
    [
        (F([1, 2]), F([1, 2.5]), 0.5),
        (F([0.0]), F([-0.0]), 0),
        (F([1, np.inf]), F([2, np.inf]), 1),
        (F([1, np.nan]), F([2, np.nan]), 1),
        (F([1]), F([np.nan]), None),
        (F([1]), F([[1]]), None),
        (F([0]), np.int32([0]), None),  # the same bytes
        (np.array(["a"], object), np.array(["b"], object), None),
        ([F([1])], [F([2])], None),
        (None, F([1]), None),
        (np.array([1], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16), 2),
    ],
)
def test_different(a, b, largest):
    exposure = exposure_of({"y": a, "z": F([1])}, {"y": b, "z": F([1])})
    assert exposure.differing == {"y": largest} and exposure.compared == 2 and not exposure.same
    assert "changed y" in str(exposure) and ("by at most" in str(exposure)) == (largest is not None)
