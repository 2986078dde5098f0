"""The results of ``compute`` as arrays of the declared dtypes, or an error that says what came instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.ops.dtypes import DType
from pyopnb.ops.errors import ResultError, sanitize
from pyopnb.ops.types import type_of

__all__ = ["cast_expression", "describe_value", "result_array"]


def result_array(value: Any, want: DType, where: str, expected: str, *, arrays_only: bool) -> np.ndarray:
    """A result of ``compute`` as an array of exactly the declared dtype; nothing is cast.

    Parameters
    ----------
    value : object
    want : DType
    where, expected : str
        For the error.
    arrays_only : bool
        Refuse what is no ndarray, as the retired PyOp does.

    Returns
    -------
    numpy.ndarray
        Of dtype ``want.numpy``; a view of the value where it is an array.

    Raises
    ------
    ResultError
        The value is None, masked, ragged, of another dtype, or has an element that is no string where strings are declared.
    """
    if arrays_only and not isinstance(value, (np.ndarray, np.generic)):
        raise ResultError(where, expected=f"{expected} as an ndarray", got=describe_value(value), next="return np.asarray(…)")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ResultError(where, expected=expected, got="a masked array; ONNX has no masks", next=".filled(…)")
    try:
        # NumPy's own string arrays drop trailing zeros, and turn numbers beside strings into strings.
        dtype = object if want.name == "string" and isinstance(value, (str, list, tuple)) else None
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=dtype)
    except ValueError as error:
        raise ResultError(where, expected=expected, got=f"{describe_value(value)}: {sanitize(str(error))}") from None
    if want.name == "string":
        return _strings(array, where, expected, value)
    if array.dtype != want.numpy and array.dtype.newbyteorder("=") != want.numpy:
        raise ResultError(where, expected=expected, got=describe_value(value), next=cast_expression("y", want))
    return np.asarray(array, dtype=want.numpy).view(np.ndarray)


def describe_value(value: Any) -> str:
    """Describe a value for an error: its type in the notation of types where it has one.

    Parameters
    ----------
    value : object

    Returns
    -------
    str
    """
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        try:
            return str(type_of(value))
        except ValueError:  # a dtype that ONNX does not have: a date, a record
            return f"an array of dtype {value.dtype}"
    if isinstance(value, np.ndarray):
        return f"an array of Python objects, {'×'.join(map(str, value.shape)) or 'a scalar'}"
    if isinstance(value, (bool, int, float, complex, str, list)):
        try:
            return f"{type(value).__name__}, which is {type_of(np.asarray(value))}"
        except ValueError:
            return f"a ragged {type(value).__name__}"
    return "None" if value is None else f"{type(value).__name__}"


def cast_expression(name: str, want: DType) -> str:
    """The expression that converts a variable to a dtype.

    Parameters
    ----------
    name : str
        The variable.
    want : DType

    Returns
    -------
    str

    Examples
    --------
    >>> from pyopnb.ops.dtypes import dtype
    >>> cast_expression("y", dtype("float32"))
    'np.asarray(y, dtype=np.float32)'
    """
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
