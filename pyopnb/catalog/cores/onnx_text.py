"""Pieces of ONNX's text notation, for the forms that operators have in ONNX's own operators.

A form is a text as ``%%onnx`` takes it, ``(x) => (y) { y = Abs(x) }``, which a method ``lowered``
returns and `pyopnb.lower` compares with ``compute``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.ops.types import TensorType

__all__ = ["FLOAT", "INT32", "INT64", "LOWEST", "dtype_number", "exact", "ints", "wide"]

FLOAT, INT32, INT64, _DOUBLE = 1, 6, 7, 11
"""ONNX's numbers of dtypes, for Cast."""

LOWEST = float(np.finfo(np.float32).min)
"""Stands for what is not there, as the notation has no infinity."""


def dtype_number(tensor_type: TensorType) -> int:
    """Return ONNX's number of a type's dtype."""
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
