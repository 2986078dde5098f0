"""What ``compute`` returned, as the arrays that were promised, or an error that says what came instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.ops.dtypes import DType
from pyopnb.ops.errors import ResultError, sanitize
from pyopnb.ops.types import type_of

__all__ = ["cast_expression", "describe_value", "result_array"]


def result_array(value: Any, want: DType, where: str, expected: str, *, arrays_only: bool) -> np.ndarray:
    """A result of ``compute`` as an array of exactly the declared dtype; nothing is cast.

    Raises
    ------
    ResultError
        It is None, ragged, of another dtype, or holds what is no string.
    """
    if arrays_only and not isinstance(value, (np.ndarray, np.generic)):
        raise ResultError(where, expected=f"{expected} as an ndarray", got=describe_value(value), next="return np.asarray(…)")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ResultError(where, expected=expected, got="a masked array, and ONNX has no place for the mask", next=".filled(…)")
    try:
        # NumPy's own text arrays drop zeros at the end, and turn numbers beside texts into texts.
        texts = object if want.name == "string" and isinstance(value, (str, list, tuple)) else None
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=texts)
    except ValueError as error:
        raise ResultError(where, expected=expected, got=f"{describe_value(value)}: {sanitize(str(error))}") from None
    if want.name == "string":
        return _strings(array, where, expected, value)
    if array.dtype != want.numpy and array.dtype.newbyteorder("=") != want.numpy:
        raise ResultError(where, expected=expected, got=describe_value(value), next=cast_expression("y", want))
    return np.asarray(array, dtype=want.numpy).view(np.ndarray)


def describe_value(value: Any) -> str:
    """What came, in the notation of types where it has one."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        try:
            return str(type_of(value))
        except ValueError:  # a dtype that ONNX does not have: a date, a record
            return f"an array of dtype {value.dtype}"
    if isinstance(value, np.ndarray):
        return f"an array of Python objects, {'×'.join(map(str, value.shape)) or 'a scalar'}"
    if isinstance(value, (bool, int, float, complex, str, list)):
        try:
            made = np.asarray(value)
            return f"{type(value).__name__}, which is {type_of(made)}"
        except ValueError:
            return f"a ragged {type(value).__name__}"
    return "None" if value is None else f"{type(value).__name__}"


def cast_expression(name: str, want: DType) -> str:
    """What to type to make an array of that dtype of what a name stands for."""
    module = "np" if hasattr(np, want.name) else "ml_dtypes"
    return f"np.asarray({name}, dtype={module}.{want.numpy.name})"


def _strings(array: np.ndarray, where: str, expected: str, value: Any) -> np.ndarray:
    if array.dtype.kind in "UT":
        return np.asarray(array.astype(object))
    if array.dtype != object:
        raise ResultError(where, expected=expected, got=describe_value(value), next="np.array([…], dtype=object) of str")
    for index, item in np.ndenumerate(array):
        if not isinstance(item, str):
            at = f"[{', '.join(map(str, index))}]" if index else ""
            raise ResultError(f"{where}{at}", expected="str", got=f"{type(item).__name__} {sanitize(repr(item))}")
    return np.asarray(array).view(np.ndarray)
