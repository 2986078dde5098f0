"""Pieces of the ONNX text notation, for the forms that operators have in the ONNX operators.

A form is a text as ``%%onnx`` takes it, ``(x) => (y) { y = Abs(x) }``, which a method ``lowered``
returns and `pyopnb.lower` compares with ``compute``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.engine import TensorType

__all__ = [
    "FLOAT",
    "INT32",
    "INT64",
    "LOWEST",
    "dtype_number",
    "exact",
    "ints",
    "item_of",
    "resize_form",
    "value_of",
    "wide",
]

FLOAT, INT32, INT64, _DOUBLE = 1, 6, 7, 11
"""The ONNX numbers of dtypes, for Cast."""

LOWEST = float(np.finfo(np.float32).min)
"""Marks a missing value, as the notation has no infinity."""


def dtype_number(tensor_type: TensorType) -> int:
    """Return the ONNX number of a type's dtype."""
    assert tensor_type.dtype is not None  # noqa: S101  # lowering knows all dtypes
    return int(tensor_type.dtype.onnx)


def wide(tensor_type: TensorType) -> int:
    """Return the number of the dtype to compute in: float64 for float64, float32 for all others."""
    return _DOUBLE if dtype_number(tensor_type) == _DOUBLE else FLOAT


def exact(number: Any) -> str:
    """Write a float32 with all its digits."""
    return repr(float(np.float32(number)))


def ints(numbers: Any) -> str:
    """Write a list of integers."""
    return "[" + ", ".join(str(int(number)) for number in numbers) + "]"


def value_of(argument: Any) -> np.ndarray:
    """Return the value of a form's input that has to be a constant of the model.

    An array is returned as it is.
    """
    if isinstance(argument, np.ndarray):
        return argument
    return np.asarray(argument.value)


def item_of(argument: Any, default: Any) -> Any:
    """Return the number in an input of one element, or a default for an input that is left out."""
    return default if argument is None else value_of(argument).item()


def resize_form(x: TensorType, scales: Any, mode: str) -> str:
    """Write a function that scales the rows and columns of images.

    Coordinates are asymmetric: a pixel is at its upper left corner.
    """
    height, width = scales
    return f"""(x) => (y) {{
        x_wide = Cast<to = {FLOAT}>(x)
        scales = Constant<value_floats = [1.0, 1.0, {exact(height)}, {exact(width)}]>()
        resized = Resize<mode = "{mode}", nearest_mode = "floor",
            coordinate_transformation_mode = "asymmetric">(x_wide, , scales)
        y = Cast<to = {dtype_number(x)}>(resized)
    }}"""
