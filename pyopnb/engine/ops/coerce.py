"""Describe values for messages, write expressions that convert them, and take foreign arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine.ops.dtypes import DType
from pyopnb.engine.ops.types import type_of
from pyopnb.errors import InputError

__all__ = [
    "cast_expression",
    "describe_value",
    "dtype_expression",
    "foreign_array",
    "is_foreign_array",
]


def describe_value(value: Any) -> str:
    """Describe a value for an error: its type in the notation of types where it has one.

    Examples
    --------
    >>> describe_value(np.zeros(2)), describe_value([1, 2]), describe_value([1, [2]])
    ('float64[2]', 'list, which is int64[2]', 'a ragged list')
    """
    name = type(value).__name__
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex, str, list)):
        return "None" if value is None else name
    # NumPy makes no array of lists of different lengths.
    try:
        array = np.asarray(value)
    except ValueError:
        return f"a ragged {name}"
    # Name the item that keeps it from being an array of numbers.
    if array.dtype == object:
        items = [item for item in array.flat if not isinstance(item, (int, float, str))]
        item = "None" if items and items[0] is None else type(items[0] if items else 0).__name__
        return f"{name} with {item} in it"
    try:
        type_ = str(type_of(array))
    except ValueError:  # a dtype that ONNX does not have: a date, a record
        return f"an array of dtype {array.dtype}"
    return type_ if isinstance(value, (np.ndarray, np.generic)) else f"{name}, which is {type_}"


def cast_expression(name: str, want: DType) -> str:
    """Write the expression that converts a variable to a dtype.

    Parameters
    ----------
    name : str
        The variable.

    Examples
    --------
    >>> from pyopnb.engine.ops.dtypes import dtype
    >>> cast_expression("y", dtype("float32"))
    'np.asarray(y, dtype=np.float32)'
    """
    if want.name == "string":
        return f"np.asarray({name}).astype(str)"
    return f"np.asarray({name}, dtype={dtype_expression(want)})"


def dtype_expression(want: DType) -> str:
    """Write a dtype other than string as an expression: ``np.float32``, ``ml_dtypes.bfloat16``."""
    if want.name == "bool":
        return "np.bool_"  # before NumPy 2 there was no np.bool
    module = "ml_dtypes" if want.numpy.isbuiltin == 2 else "np"
    return f"{module}.{want.numpy.name}"


def is_foreign_array(value: Any) -> bool:
    """Tell whether an object is an array of another library: a tensor, a table, a picture."""
    # Classes have the attributes of their objects.
    if isinstance(value, type):
        return False
    protocols = ("__array__", "__array_interface__", "__dlpack__")
    return any(hasattr(value, protocol) for protocol in protocols)


def foreign_array(value: Any, where: str, expected: str, dtype: Any = None) -> np.ndarray:
    """Convert a table or tensor by NumPy or DLPack, without a copy if possible.

    Parameters
    ----------
    where, expected : str
        For the error.
    dtype : dtype, optional

    Raises
    ------
    InputError
    """
    try:
        if hasattr(value, "requires_grad"):
            value = value.detach()  # a tensor of torch's, which gives no array while it records
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value, dtype=dtype)
    except (TypeError, RuntimeError, BufferError) as error:  # its own words: on another device, say
        reason = sanitize(error).rstrip(".")
        got = f"{describe_value(value)}: {reason}"
        raise InputError(where, expected=expected, got=got) from error
    except ValueError:
        raise InputError(where, expected=expected, got=describe_value(value)) from None
