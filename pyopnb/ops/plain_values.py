"""Python's own numbers as arrays: they carry no dtype, and get the declared one where that has their values.

An int must be there exactly. A float is rounded to a float dtype, as NumPy rounds a Python float
beside an array, unless it is beyond that dtype, or would become a zero. A bool is a bool and no
number. What NumPy made has a dtype and keeps it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.arguments import describe
from pyopnb.ops.coerce import cast_expression, describe_value
from pyopnb.ops.dtypes import DType

__all__ = ["is_plain", "plain_array"]

_MAX_DEPTH = 64  # NumPy's limit of dimensions; a list that holds itself has no end
_EXACT = 2**53  # up to here, a float64 has every integer


def is_plain(value: Any, want: DType) -> bool:
    """Tell whether a value is a Python number, or nested lists of Python's own values.

    Parameters
    ----------
    value : object
    want : DType
        NumPy's scalars of this dtype count as well.

    Returns
    -------
    bool
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
    # Level by level and not by recursion, because lists may be nested deeper than Python's stack.
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
    """Convert a plain value to an array of the declared dtype, where that has all its numbers.

    Parameters
    ----------
    value : object
        For which `is_plain` is true.
    want : DType
        Not that of strings.
    where, expected : str
        For the error.
    name : str
        The variable that the advice converts.
    prefix : str
        What stands before the advised expression: ``"x="`` for a feed.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    InputError
        The lists are ragged, an element is no number, or the dtype does not have it.

    Examples
    --------
    >>> from pyopnb.ops.dtypes import dtype
    >>> plain_array([1, 2.5], dtype("float32"), "feed x", "float32[2]", "x")
    array([1. , 2.5], dtype=float32)
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(where, expected=expected, got=describe_value(value)) from None
    if _is_kept(array, _leaf_types(value), want):
        with np.errstate(all="ignore"):
            return array.astype(want.numpy)
    # One by one, so that each number keeps its type, and the first that does not fit is named.
    items = np.array(value, dtype=object)
    cast = np.empty(items.shape, want.numpy)
    for index in np.ndindex(items.shape):
        try:
            cast[index] = _element(items[index], want)
        except ValueError as error:
            at = f"[{', '.join(map(str, index))}]" if index else ""
            remedy = _remedy(array, want, name)
            raise InputError(
                f"{where}{at}",
                expected=expected,
                got=str(error),
                next=None if remedy is None else f"{prefix}{remedy}",
            ) from None
    return cast


def _is_kept(array: np.ndarray, types: set[type], want: DType) -> bool:
    """Tell whether a cast of a whole array of numbers of one type surely keeps every one."""
    if want.name == "bool" or want.numpy.kind == "c":
        return False
    limits = _limits(want)
    if types == {int} and array.dtype == np.int64:
        # What int64 does not have is an array of objects, and what it has as float64 may be rounded.
        least, greatest = limits or (-_EXACT, _EXACT)
        if array.size and not (array.min() >= least and array.max() <= greatest):
            return False
        return limits is not None or bool((_as_floats(array, want) == array).all())
    if types == {float} and limits is None:
        return bool(_is_rounded(array, _as_floats(array, want), want).all())
    return False


def _as_floats(array: np.ndarray, want: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(want.numpy).astype(np.float64)


def _is_rounded(numbers: np.ndarray, casts: np.ndarray, want: DType) -> np.ndarray:
    """Tell where a cast only rounded: nothing is limited, or becomes an infinity, a NaN or a zero."""
    # A float8 without infinities takes its largest value for all that is larger.
    largest = float(ml_dtypes.finfo(want.numpy).max)  # type: ignore[no-untyped-call]
    within = ~(np.abs(numbers) > largest) | np.isinf(numbers)
    same_nan = np.isnan(numbers) == np.isnan(casts)
    same_infinity = np.isinf(numbers) == np.isinf(casts)
    same_zero = (numbers == 0) == (casts == 0)
    return np.asarray(within & same_nan & same_infinity & same_zero)


def _limits(want: DType) -> tuple[int, int] | None:
    """Return the least and the greatest integer of a dtype of integers; return None for another dtype."""
    try:
        info = ml_dtypes.iinfo(want.numpy)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)


def _element(item: Any, want: DType) -> Any:
    """Convert one number to a dtype; raise a ValueError that says why it cannot be."""
    # NumPy's scalars of the wanted dtype may stand between Python's numbers.
    if isinstance(item, np.generic):
        item = item.item()
    if want.name == "bool":
        if isinstance(item, bool):
            return item
        raise ValueError(f"{describe(item)}; a bool is True or False")
    if isinstance(item, bool):
        raise ValueError(f"{describe(item)}; a bool is no number")
    if not isinstance(item, (int, float)):
        raise ValueError(f"{describe(item)}, which is no number")
    limits = _limits(want)
    if limits is None:
        return _rounded(item, want)
    if isinstance(item, float) and not item.is_integer():
        raise ValueError(f"{item!r}, which is no integer")
    if not limits[0] <= item <= limits[1]:
        raise ValueError(f"{item!r}; {want.name} has {limits[0]} to {limits[1]}")
    return int(item)


def _rounded(item: float, want: DType) -> Any:
    """Round a number to a float dtype; raise a ValueError that says why it cannot be."""
    if want.numpy.kind == "c":
        return item
    try:
        with np.errstate(all="ignore"):
            rounded = want.numpy.type(float(item))
    except OverflowError:  # an int of hundreds of digits
        raise ValueError(f"a number that is beyond {want.name}") from None
    value = float(rounded)
    if isinstance(item, int):
        is_kept = value == item
    else:
        is_kept = bool(_is_rounded(np.asarray(item), np.asarray(value), want))
    if not is_kept:
        raise ValueError(f"{item!r}, which {want.name} has as {value!r}")
    return rounded


def _remedy(array: np.ndarray, want: DType, name: str) -> str | None:
    """Suggest the expression that rounds and limits numbers to what a dtype has, where one does."""
    if array.dtype.kind not in "iuf":
        return None
    limits = _limits(want)
    if limits is None or want.name == "bool":
        return cast_expression(name, want)
    if not np.isfinite(array).all():
        return None
    rounded = f"np.rint({name})" if array.dtype.kind == "f" else name
    if array.min() >= limits[0] and array.max() <= limits[1]:
        return cast_expression(rounded, want)
    # A float64 that is clipped to the limits of int64 is beyond them.
    if limits[1] > _EXACT:
        return None
    return cast_expression(f"np.clip({rounded}, {limits[0]}, {limits[1]})", want)
