"""Pair the values that models have as inputs and outputs: arrays, sequences, maps and None."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.parts import Part, PartPath, named, part_of
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine import Result, coerce, dtype, type_of
from pyopnb.errors import InputError

__all__ = ["parts"]

# Python would run out of stack in a structure that holds itself.
_DEEPEST = 64


def parts(a: Any, b: Any, tolerances: Tolerances, path: PartPath = ()) -> Iterator[Part]:
    """Pair the arrays of two values; an array without a partner also becomes a part.

    Raises
    ------
    InputError
        Something is neither an array nor a value that is made of arrays.
    """
    # Tuples and lists are the same here, as are dicts and results, and the NumPy dtypes for text.
    value_a = _normalize(a, path, "a")
    value_b = _normalize(b, path, "b")
    types = _type_text(value_a), _type_text(value_b)
    if isinstance(value_a, np.ndarray) and isinstance(value_b, np.ndarray):
        reason = _why_incomparable(value_a, value_b, types)
        if reason:
            yield Part(path, *types, reason=reason)
        else:
            yield part_of(path, value_a, value_b, types, tolerances)
    elif type(value_a) is not type(value_b):
        yield Part(path, *types, reason=f"a is {types[0]}, b is {types[1]}")
    elif len(path) > _DEEPEST:
        yield Part(path, *types, reason=f"nested deeper than {_DEEPEST} levels")
    elif not value_a and not value_b:
        yield Part(path, *types)
    else:
        for key in dict.fromkeys([*value_a, *value_b]):
            member = (*path, key)
            if key in value_a and key in value_b:
                yield from parts(value_a[key], value_b[key], tolerances, member)
            elif key in value_a:
                text = _type_text(_normalize(value_a[key], member, "a"))
                yield Part(member, text, "missing", reason=f"only in a: {text}")
            else:
                text = _type_text(_normalize(value_b[key], member, "b"))
                yield Part(member, "missing", text, reason=f"only in b: {text}")


def _why_incomparable(a: np.ndarray, b: np.ndarray, types: tuple[str, str]) -> str:
    """Say why two arrays cannot be compared; empty if they can."""
    for array, side in ((a, "a"), (b, "b")):
        refusal = _why_no_tensor(array)
        if refusal:
            return f"{side} {refusal}"
    # A cast or a broadcast would hide the very mistake that the user is looking for.
    if types[0] != types[1]:
        return f"a is {types[0]}, b is {types[1]}"
    return ""


def _why_no_tensor(array: np.ndarray) -> str:
    """Say why an array cannot be a tensor; empty if it can."""
    # The values under a mask are arbitrary, and comparing them would compare nothing.
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        return "has masked elements, which ONNX cannot represent"
    if array.dtype == object:
        for item in array.flat:
            if not isinstance(item, (str, bytes)):
                name = sanitize(type(item).__name__)
                return f"holds Python objects that are not strings: {name}"
        return ""
    try:
        dtype(array.dtype)
    except InputError:
        return f"is of dtype {sanitize(array.dtype)}, which ONNX does not have"
    return ""


def _normalize(value: Any, path: PartPath, side: str) -> Any:
    """Turn a value into None, a dict or an array; a list becomes a dict by position."""
    if value is None:
        return None
    if isinstance(value, (Result, Mapping)):
        return {_key(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _Sequence(enumerate(value))
    if isinstance(value, (str, bytes)):
        return np.array(value, object)
    if not isinstance(value, (np.ndarray, bool, int, float, complex, np.generic)):
        where = f"diff, {side}"
        if path:
            where += f" at {named(path)}"
        expected = "an array, or a list, dict or Result of arrays"
        if not coerce.is_foreign_array(value):
            got = type(value).__name__
            raise InputError(where, expected=expected, got=got, next="np.asarray(…)")
        value = coerce.foreign_array(value, where, expected)
    if isinstance(value, np.ndarray):
        array = value
    else:
        array = np.asarray(value)
    # NumPy has several dtypes for strings, ONNX one; and a complex number is two
    # floats, along a last axis.
    if array.dtype.kind in "SUT":
        return array.astype(object)
    if array.dtype.kind == "c":
        floats = np.ascontiguousarray(array).view(array.real.dtype)
        return floats.reshape(*array.shape, 2)
    return array


class _Sequence(dict[Any, Any]):
    """A list as a dict by position."""


def _key(key: Any) -> str | int:
    if isinstance(key, str):
        return str(key)
    # A bool is an int to Python, and True is no position.
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int(key)
    return repr(key)


def _type_text(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, dict):
        noun = "map"
        if isinstance(value, _Sequence):
            noun = "sequence"
        return f"{noun} of {len(value)}"
    try:
        return str(type_of(value))
    except InputError:
        return f"{sanitize(value.dtype, 80)}[{','.join(map(str, value.shape))}]"
