"""Values in the words of messages: what they are, and the expression that makes them something else."""

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
            array = np.asarray(value)
            others = (
                [item for item in array.flat if not isinstance(item, str)]
                if array.dtype == object
                else [""]
            )
            other = next(
                (item for item in others if not isinstance(item, (int, float))),
                others[0] if others else None,
            )
            if not isinstance(other, str):
                return f"a {type(value).__name__} with {'None' if other is None else type(other).__name__} in it"
            return f"{type(value).__name__}, which is {type_of(array)}"
        except ValueError:
            return f"a ragged {type(value).__name__}"
    return "None" if value is None else f"{type(value).__name__}"


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
    name = (
        "bool_" if want.name == "bool" else want.numpy.name
    )  # before NumPy 2 there was no np.bool
    return f"{'ml_dtypes' if want.numpy.isbuiltin == 2 else 'np'}.{name}"
