"""Python numbers as arrays: each accepted one keeps its value, and the others are named."""

from __future__ import annotations

import contextlib
import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyopnb.engine.ops.dtypes import DTYPES, dtype
from pyopnb.engine.ops.plain_values import is_plain, plain_array
from pyopnb.errors import InputError

INTEGERS = [row for row in DTYPES if row.name.lstrip("u").startswith("int")]
FLOATS = [row for row in DTYPES if "float" in row.name]
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-300, 300),
    st.floats(),
    st.floats(width=16),
    st.floats(-9, 9).map(lambda v: round(v, 2)),
)


def taken(value, row):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return plain_array(value, row, "x", str(row), "x")


@example(dtype("int8"), [1.5, -(2**63) - 1])
@given(st.sampled_from(INTEGERS), st.lists(st.one_of(NUMBERS, st.booleans()), max_size=4))
def test_integers_are_there_exactly_or_refused(row, numbers):
    limits = ml_dtypes.iinfo(row.numpy)
    fits = [
        type(n) is not bool
        and math.isfinite(n)
        and Fraction(n).denominator == 1
        and int(limits.min) <= n <= int(limits.max)
        for n in numbers
    ]
    if float in map(type, numbers):
        # Beside a float NumPy makes floats of all, so an integer that no float has is refused.
        fits += [int(float(n)) == n for n in numbers if abs(n) < 2**200 and math.isfinite(n)]
    if all(fits):
        array = taken(numbers, row)
        assert array.dtype == row.numpy and [int(item) for item in array] == numbers
    else:
        with pytest.raises(InputError):
            taken(numbers, row)


@given(st.sampled_from(FLOATS), st.lists(NUMBERS, max_size=4))
def test_ints_are_there_exactly_and_floats_rounded(row, numbers):
    with np.errstate(all="ignore"):
        near = []
        for number in numbers:
            try:
                near.append(float(row.numpy.type(float(number))))
            except OverflowError:
                near.append(math.inf)
    try:
        array = taken(numbers, row)
    except InputError:
        # What the dtype has is never refused, but for integers that no float64 has.
        differs = [a != b for a, b in zip(near, numbers, strict=True)]
        assert any(differs) or any(abs(number) > 2**53 for number in numbers)
        return
    assert array.dtype == row.numpy
    beside_floats = any(isinstance(number, float) for number in numbers)
    for item, number, nearest in zip(map(float, array), numbers, near, strict=True):
        # Beside floats, an integer beyond 2**53 counts as one.
        if isinstance(number, int) and not (beside_floats and abs(number) > 2**53):
            assert item == number
        else:
            assert item == nearest or (item != item and number != number)
            assert math.isinf(item) == math.isinf(number) and (item == 0) == (number == 0)
            assert (
                math.isinf(number)
                or number != number
                or abs(number) <= float(ml_dtypes.finfo(row.numpy).max)
            )


@given(st.floats(width=32))
def test_what_a_float32_has_is_taken(number):
    assert np.array_equal(taken([number], dtype("float32")), np.float32([number]), equal_nan=True)


@given(st.integers(-100_000, 100_000).map(lambda cents: cents / 100))
def test_two_decimals_are_written_for_float32(number):
    assert taken(number, dtype("float32")) == np.float32(number)


@given(
    st.recursive(
        st.integers(0, 9) | st.booleans() | st.none() | st.text(max_size=1),
        lambda inner: st.lists(inner, max_size=3),
    )
)
def test_any_nest_is_an_array_or_named(value):
    if not is_plain(value, dtype("float32")):
        assert value is None or isinstance(value, str) or "None" in repr(value)
        return
    with contextlib.suppress(InputError):
        assert taken(value, dtype("float32")).tolist() == value


@pytest.mark.parametrize(
    ("value", "name", "where"),
    [
        ([1, 2**70], "int64", "x"),
        ([-1], "uint64", "x[0]"),
        ([-1.5, 300], "uint8", "x[0]"),
        ([300, 1], "int8", "x[0]"),
        ([2.0**63], "int64", "x[0]"),
        ([2**63 + 1, 0.5], "uint64", "x"),
        ([1, math.inf], "int8", "x[1]"),
        (1.5, "int32", "x"),
        ([2**53 + 1, 0.5], "float64", "x"),
        ([2**53 + 1], "float64", "x[0]"),
        ([16777217, 0.5], "float32", "x[0]"),
        ([500.0], "float8_e4m3fn", "x[0]"),
        ([1e-50], "float32", "x[0]"),
        ([1e6], "float16", "x[0]"),
        ([True, 2], "int64", "x"),
        ([1], "bool", "x"),
        (["1"], "float32", "x"),
        ([1j], "float32", "x"),
        ([[1], 2], "int64", "x"),
    ],
)
def test_what_is_refused(value, name, where):
    with pytest.raises(InputError) as error:
        taken(value, dtype(name))
    assert error.value.where == where


def test_a_list_that_holds_itself():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InputError, match="got a ragged list"):
        taken(endless, dtype("float32"))


@pytest.mark.parametrize("row", [row for row in DTYPES if row.name != "string"], ids=str)
def test_empty_lists_have_any_dtype(row):
    assert (taken([], row).shape, taken([[], []], row).shape, taken([], row).dtype) == (
        (0,),
        (2, 0),
        row.numpy,
    )


def test_numpy_scalars_keep_their_dtype():
    row = dtype("float32")
    assert is_plain([np.float32(1), 2.5, 3], row)
    assert taken([np.float32(1), 2.5, 3], row).tolist() == [1, 2.5, 3]
    assert not is_plain([np.float64(1)], row)
    assert not is_plain(np.float32(1), row)  # it is an array already
    assert not is_plain([np.float32([1])], row)
