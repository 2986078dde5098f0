"""Values in the words of messages: what they are, and the expression that converts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.ops.dtypes import DType
from pyopnb.ops.types import type_of

__all__ = ["cast_expression", "describe_value", "dtype_expression"]


def describe_value(value: Any) -> str:
    """Describe a value for an error: its type in the notation of types where it has one.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

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
    if want.name == "string":
        return f"np.asarray({name}).astype(str)"
    return f"np.asarray({name}, dtype={dtype_expression(want)})"


def dtype_expression(want: DType) -> str:
    """Write a dtype other than string as an expression: ``np.float32``, ``ml_dtypes.bfloat16``.

    Parameters
    ----------
    want : DType

    Returns
    -------
    str
    """
    if want.name == "bool":
        return "np.bool_"  # before NumPy 2 there was no np.bool
    module = "ml_dtypes" if want.numpy.isbuiltin == 2 else "np"
    return f"{module}.{want.numpy.name}"
