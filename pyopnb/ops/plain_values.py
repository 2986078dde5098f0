"""Python's own numbers as arrays: they carry no dtype, and get the declared one where that has their values.

An int must be there exactly. A float is rounded to a float dtype, as NumPy rounds a Python float beside an array, unless it is
beyond that dtype, or would become a zero. A bool is a bool and no number. What NumPy made has a dtype and keeps it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.coerce import cast_expression
from pyopnb.ops.dtypes import DType
from pyopnb.ops.messages import sanitize

__all__ = ["is_plain", "plain_array"]

_NESTS = (list, tuple)
_PLAIN = (bool, int, float, complex, str, bytes)
_MOST_ROWS = 100_000  # among which a ragged one is looked for
_EXACT = 2**53  # up to here, a float64 has every integer


def is_plain(value: Any, want: DType) -> bool:
    """Whether a value is a Python number, or nested lists of Python's own values; NumPy's scalars of the dtype count as well.

    Parameters
    ----------
    value : object
    want : DType

    Returns
    -------
    bool
    """
    if not isinstance(value, (bool, int, float, complex, *_NESTS)) or isinstance(value, np.generic):
        return False
    return all(
        np.dtype(kind) == want.numpy if issubclass(kind, np.generic) else issubclass(kind, _PLAIN)
        for kind in _kinds(value)
    )


def plain_array(
    value: Any, want: DType, where: str, expected: str, name: str, prefix: str = ""
) -> np.ndarray:
    """A plain value as an array of the declared dtype, where that has all its numbers.

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
    except ValueError as error:
        raise InputError(
            where, expected=expected, got=_describe_ragged(value) or sanitize(str(error))
        ) from None
    kinds = _kinds(value)
    if kinds == {float} or (kinds == {int} and array.dtype == np.int64):
        with np.errstate(all="ignore"):
            cast = array.astype(want.numpy)
        unsure = _unsure(array, cast, want)
    else:
        array = np.array(value, dtype=object).reshape(array.shape)
        cast = np.empty(array.shape, want.numpy)
        unsure = np.ones(array.shape, dtype=bool)
    for place in np.flatnonzero(unsure):
        index = np.unravel_index(place, array.shape)
        item = array[index]
        try:
            cast[index] = _element(item.item() if isinstance(item, np.generic) else item, want)
        except ValueError as error:
            at = f"[{', '.join(map(str, index))}]" if index else ""
            remedy = _remedy(value, want, name)
            raise InputError(
                f"{where}{at}", expected=expected, got=str(error), next=remedy and prefix + remedy
            ) from None
    return cast


def _kinds(value: Any) -> set[type]:
    """The types of the elements of nested lists."""
    kinds: set[type] = set()
    waiting: list[Any] = [value]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, _NESTS):
            kinds.add(type(each))
            continue
        inside = set(map(type, each))
        if not any(issubclass(kind, _NESTS) for kind in inside):
            kinds |= inside
        elif id(each) not in seen:  # a list can hold itself
            seen.add(id(each))
            waiting.extend(each)
    return kinds


def _describe_ragged(value: Any) -> str | None:
    """Which lists have different lengths; None where that is not what is wrong."""
    rows = [("", value)]
    while 0 < len(rows) <= _MOST_ROWS and all(isinstance(row, _NESTS) for _, row in rows):
        first, length = rows[0][0], len(rows[0][1])
        for path, row in rows:
            if len(row) != length:
                return f"a ragged list: {length} at {first or '[]'}, {len(row)} at {path}"
        if first.count("[") > 64:  # NumPy's limit of dimensions; a list that holds itself has more
            return "a nest of lists without an end"
        rows = [(f"{path}[{n}]", item) for path, row in rows for n, item in enumerate(row)]
    kinds = {isinstance(row, _NESTS): path for path, row in rows}
    return (
        f"a ragged list: a list at {kinds[True]}, and none at {kinds[False]}"
        if len(kinds) == 2
        else None
    )


# ---- elements ----------------------------------------------------------------------------------------------------------------


def _limits(want: DType) -> tuple[int, int] | None:
    """The least and the greatest integer of a dtype of integers; None for another dtype."""
    try:
        info = ml_dtypes.iinfo(want.numpy)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)


def _unsure(array: np.ndarray, cast: np.ndarray, want: DType) -> np.ndarray:
    """Mark the elements that a cast of the whole array may have changed; these are looked at one by one."""
    limits = _limits(want)
    if want.name == "bool" or want.numpy.kind == "c":
        return np.ones(array.shape, dtype=bool)
    if limits is not None and array.dtype.kind == "f":
        within = (array >= limits[0]) & (array <= min(limits[1], _EXACT))
        return np.asarray(~(within & (array == np.floor(array))))
    if limits is not None:
        return np.asarray(~((array >= limits[0]) & (array <= limits[1])))
    wide = cast.astype(np.float64)
    if array.dtype.kind == "f":
        return np.asarray(~_is_rounded(array, wide, want))
    return np.asarray(~((wide == array) & (np.abs(array) <= _EXACT)))


def _is_rounded(numbers: np.ndarray, casts: np.ndarray, want: DType) -> np.ndarray:
    """Tell where a cast only rounded: nothing is limited, and nothing becomes an infinity, a NaN or a zero."""
    info: Any = np.finfo(want.numpy) if want.numpy.kind == "c" else ml_dtypes.finfo(want.numpy)  # type: ignore[no-untyped-call]
    # A float8 without infinities takes its largest value for all that is larger.
    within = ~(np.abs(numbers) > float(info.max)) | np.isinf(numbers)
    same_nan = np.isnan(numbers) == np.isnan(casts)
    same_infinity = np.isinf(numbers) == np.isinf(casts)
    same_zero = (numbers == 0) == (casts == 0)
    return np.asarray(within & same_nan & same_infinity & same_zero)


def _element(item: Any, want: DType) -> Any:
    """An element of the dtype; a ValueError says why there is none."""
    if want.name == "bool" or isinstance(item, bool):
        if want.name == "bool" and isinstance(item, bool):
            return item
        raise ValueError(
            f"{_describe(item)}; {'a bool is True or False' if want.name == 'bool' else 'a bool is no number'}"
        )
    if not issubclass(
        type(item), (int, float, complex) if want.numpy.kind == "c" else (int, float)
    ):
        raise ValueError(f"{_describe(item)}, which is no number")
    limits = _limits(want)
    if limits is None:
        return _rounded(item, want)
    if (
        isinstance(item, float) and not item.is_integer()
    ):  # an infinity and no number are none either
        raise ValueError(f"{item!r}, which is no integer")
    if not limits[0] <= item <= limits[1]:
        raise ValueError(f"{item!r}; {want.name} has {limits[0]} to {limits[1]}")
    return int(item)


def _rounded(item: Any, want: DType) -> Any:
    """Round a number to a float or complex dtype; a ValueError says why it cannot be."""
    # ml_dtypes takes no large int.
    number = float(item) if isinstance(item, int) and abs(item) < 2**1023 else item
    try:
        with np.errstate(all="ignore"):
            rounded = want.numpy.type(number)
        value = complex(rounded) if want.numpy.kind == "c" else float(rounded)
    except OverflowError:
        raise ValueError(f"{sanitize(str(item), 40)}, which is beyond {want.name}") from None
    if isinstance(item, int):
        is_kept = value == item
    else:
        is_kept = bool(_is_rounded(np.asarray(item), np.asarray(value), want))
    if not is_kept:
        raise ValueError(f"{item!r}, which {want.name} has as {value!r}")
    return rounded


def _remedy(value: Any, want: DType, name: str) -> str | None:
    """The expression that rounds and limits numbers to what a dtype has; None where a value has no near one there."""
    if not all(issubclass(kind, (bool, int, float)) for kind in _kinds(value)):
        return None
    try:
        numbers = np.array(value, dtype=np.float64)
    except OverflowError:  # an int that no float has
        return None
    limits = _limits(want)
    if limits is None:
        large = (
            want.numpy.isbuiltin == 2 and np.abs(numbers).max(initial=0) >= 2**63
        )  # ml_dtypes takes no such int
        return None if large and int in _kinds(value) else cast_expression(name, want)
    if not np.isfinite(numbers).all():
        return None
    outside = numbers.min(initial=0) < limits[0] or numbers.max(initial=0) > limits[1]
    if outside and max(map(abs, limits)) > _EXACT:  # the clipped float64 is none of the dtype
        return None
    rounded = name
    if (
        numbers != np.floor(numbers)
    ).any():  # an int that int64 has not makes objects of all, which np.rint does not take
        rounded = (
            f"np.rint({name})"
            if np.asarray(value).dtype != object
            else f"np.rint(np.asarray({name}, dtype=np.float64))"
        )
    return cast_expression(
        f"np.clip({rounded}, {limits[0]}, {limits[1]})" if outside else rounded, want
    )


def _describe(item: Any) -> str:
    return f"{type(item).__name__} {sanitize(repr(item), 60)}"
