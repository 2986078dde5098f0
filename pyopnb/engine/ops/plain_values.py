"""Convert Python numbers, which carry no dtype, to arrays of the declared dtype.

The dtype must have their values. An int must be there exactly. A float is rounded to a float dtype,
as NumPy rounds a Python float beside an array, unless it is beyond that dtype, or would become a
zero. A bool is not a number. NumPy values have a dtype and keep it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.engine.ops.coerce import cast_expression, describe_value
from pyopnb.engine.ops.dtypes import DType
from pyopnb.errors import InputError

__all__ = ["is_plain", "plain_array"]

_MAX_DEPTH = 64  # the NumPy limit of dimensions; a list that holds itself has no end
_EXACT = 2**53  # up to here, a float64 has every integer


def is_plain(value: Any, want: DType) -> bool:
    """Tell whether a value is a Python number, or nested lists of Python values.

    Parameters
    ----------
    want : DType
        NumPy scalars of this dtype also count.
    """
    if not isinstance(value, (bool, int, float, list, tuple)) or isinstance(value, np.generic):
        return False
    for type_ in _leaf_types(value):
        if issubclass(type_, np.generic):
            if np.dtype(type_) != want.numpy:
                return False
        elif not issubclass(type_, (bool, int, float, complex, str, bytes)):
            return False
    return True


def _leaf_types(value: Any) -> set[type]:
    """Collect the types of the elements of nested lists."""
    types: set[type] = set()
    level = [value]
    # Level by level and not by recursion, because lists may be nested deeper than the Python stack.
    for _ in range(_MAX_DEPTH):
        nested: list[Any] = []
        for item in level:
            if isinstance(item, (list, tuple)):
                nested.extend(item)
            else:
                types.add(type(item))
        level = nested
    return types


def plain_array(
    value: Any, want: DType, where: str, expected: str, name: str, prefix: str = ""
) -> np.ndarray:
    """Convert a plain value to an array of the declared dtype, if that has all of its numbers.

    Parameters
    ----------
    value : object
        One for which `is_plain` is true.
    want : DType
        Any dtype except string.
    where, expected : str
        For the error.
    name : str
        The variable that the advice converts.
    prefix : str
        The text before the advised expression: ``"x="`` for a feed.

    Raises
    ------
    InputError
        The lists are ragged, an element is no number, or the dtype does not have it.

    Examples
    --------
    >>> from pyopnb.engine.ops.dtypes import dtype
    >>> plain_array([1, 2.5], dtype("float32"), "feed x", "float32[2]", "x")
    array([1. , 2.5], dtype=float32)
    """
    types = _leaf_types(value)
    numbers: set[type] = {bool} if want.name == "bool" else {int, float}
    if want.numpy.kind == "c":
        numbers.add(complex)
    try:
        array = np.asarray(value)
        has_numbers = types <= numbers | {want.numpy.type} and array.dtype != object
        # NumPy turns integers into floats if a list has both, and not every integer is a float.
        if has_numbers and {int, float} <= types:
            integers = [item for item in np.array(value, object).flat if type(item) is int]
            has_numbers = all(int(float(item)) == item for item in integers)
    except ValueError:  # ragged
        has_numbers = False
    if not has_numbers:
        raise InputError(where, expected=expected, got=describe_value(value))
    fits = _fits(array, types, want)
    if not fits.all():
        index = tuple(np.argwhere(~fits)[0])
        at = f"[{', '.join(map(str, index))}]" if index else ""
        got = f"{array[index].item()!r}, which {want.name} does not have"
        # A cast rounds a float, and makes another integer.
        remedy = f"{prefix}{cast_expression(name, want)}" if _limits(want) is None else None
        raise InputError(f"{where}{at}", expected=expected, got=got, next=remedy)
    with np.errstate(all="ignore"):
        return array.astype(want.numpy)


def _fits(array: np.ndarray, types: set[type], want: DType) -> np.ndarray:
    """Tell which numbers a dtype has: integers exactly, and floats rounded."""
    if want.numpy.kind in "bc":
        return np.ones(array.shape, bool)
    limits = _limits(want)
    if limits is not None:
        # One more than the greatest is a power of two, which a float64 has.
        end = limits[1] + 1
        is_within = (array >= limits[0]) & (
            array < (float(end) if array.dtype.kind == "f" else end)
        )
        return np.asarray(is_within & (array == np.rint(array)))
    with np.errstate(all="ignore"):
        numbers = array.astype(np.float64)
        casts = numbers.astype(want.numpy).astype(np.float64)
    fits = _is_rounded(numbers, casts, want)
    if int in types:
        # An integer is kept exactly. Beside floats, one beyond 2**53 counts as a float.
        is_integer = (numbers == np.rint(numbers)) & (np.abs(array) <= _EXACT)
        fits &= np.where(is_integer, casts == numbers, float in types)
    return fits


def _is_rounded(numbers: np.ndarray, casts: np.ndarray, want: DType) -> np.ndarray:
    """Tell where a cast only rounded, and did not clip, overflow, or make a NaN or a zero."""
    # A float8 without infinities takes its largest value for all that is larger.
    largest = float(ml_dtypes.finfo(want.numpy).max)  # type: ignore[no-untyped-call]
    within = ~(np.abs(numbers) > largest) | np.isinf(numbers)
    same_nan = np.isnan(numbers) == np.isnan(casts)
    same_infinity = np.isinf(numbers) == np.isinf(casts)
    same_zero = (numbers == 0) == (casts == 0)
    return np.asarray(within & same_nan & same_infinity & same_zero)


def _limits(want: DType) -> tuple[int, int] | None:
    """Return the least and the greatest integer of an integer dtype; return None for others."""
    try:
        info = ml_dtypes.iinfo(want.numpy)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)
