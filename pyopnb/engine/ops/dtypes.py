"""The dtypes of tensors in models, one row each, and how to find a row.

ONNX Runtime numbers its element types differently from ``onnx.TensorProto.DataType`` from float8
on, so a row has both numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from pyopnb.common import messages, sanitize
from pyopnb.errors import InputError

__all__ = ["BY_RUNTIME", "DTYPES", "DType", "dtype", "is_element"]


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes
    ----------
    name : str
        As the notation of types has it: ``float32``, ``bfloat16``, ``string``.
    onnx : int
        Number in ``onnx.TensorProto.DataType``.
    runtime : int
        Number in the ONNX Runtime ``ONNXTensorElementDataType``.
    numpy : numpy.dtype
        The dtype of the arrays that an op's ``compute`` gets; ``object`` (holding
        ``str``) for ``string``.
    bits : int
        Bits of one element in the ONNX Runtime memory; 4- and 2-bit types are
        packed. 0 for ``string``.
    carried : bool
        Whether a custom op of ONNX Runtime can have inputs and outputs of it.
    """

    name: str
    onnx: int
    runtime: int
    numpy: np.dtype
    bits: int
    carried: bool = True

    def __str__(self) -> str:
        return self.name


# Name, number in ONNX Runtime, name in onnx, bits.
_TABLE = (
    ("bool", 9, "BOOL", 8),
    ("int8", 3, "INT8", 8),
    ("int16", 5, "INT16", 16),
    ("int32", 6, "INT32", 32),
    ("int64", 7, "INT64", 64),
    ("uint8", 2, "UINT8", 8),
    ("uint16", 4, "UINT16", 16),
    ("uint32", 12, "UINT32", 32),
    ("uint64", 13, "UINT64", 64),
    ("float16", 10, "FLOAT16", 16),
    ("bfloat16", 16, "BFLOAT16", 16),
    ("float32", 1, "FLOAT", 32),
    ("float64", 11, "DOUBLE", 64),
    ("string", 8, "STRING", 0),
    ("float8_e4m3fn", 17, "FLOAT8E4M3FN", 8),
    ("float8_e4m3fnuz", 18, "FLOAT8E4M3FNUZ", 8),
    ("float8_e5m2", 19, "FLOAT8E5M2", 8),
    ("float8_e5m2fnuz", 20, "FLOAT8E5M2FNUZ", 8),
    ("int4", 22, "INT4", 4),
    ("uint4", 21, "UINT4", 4),
    ("float4_e2m1fn", 23, "FLOAT4E2M1", 4),
    ("int2", 25, "INT2", 2),
    ("uint2", 24, "UINT2", 2),
    ("float8_e8m0fnu", 26, "FLOAT8E8M0", 8),
    ("complex64", 14, "COMPLEX64", 64),
    ("complex128", 15, "COMPLEX128", 128),
)
_NOT_CARRIED = ("int2", "uint2", "float8_e8m0fnu", "complex64", "complex128")


def _rows() -> Iterator[DType]:
    """Yield the rows that the installed onnx and ml_dtypes have.

    No array and no model can have the other dtypes.
    """
    for name, runtime, onnx_name, bits in _TABLE:
        number = getattr(TensorProto, onnx_name, None)
        scalar: Any = getattr(ml_dtypes, name, name)
        if name == "string":
            scalar = object
        try:
            numpy = np.dtype(scalar)
        except TypeError:
            continue
        if number is not None:
            yield DType(name, number, runtime, numpy, bits, name not in _NOT_CARRIED)


DTYPES: tuple[DType, ...] = tuple(_rows())

BY_RUNTIME = {row.runtime: row for row in DTYPES}
"""The rows by the ONNX Runtime numbers."""

_BY_ONNX = {row.onnx: row for row in DTYPES}
_BY_NUMPY = {row.numpy: row for row in DTYPES}

# The ONNX names, the names of its text form, and the NumPy names.
_BY_NAME = {TensorProto.DataType.Name(row.onnx).lower(): row for row in DTYPES}
_BY_NAME |= {row.name: row for row in DTYPES}

_PYTHON = (bool, int, float, complex, str, object)
_ABSTRACT = (
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
)


def is_element(value: object) -> bool:
    """Tell whether a class is the type of an array's elements.

    `numpy.dtype` takes any class, as ``object``, and the abstract ``np.floating`` as float64.
    """
    if isinstance(value, type) and issubclass(value, np.generic):
        return value not in _ABSTRACT
    return isinstance(value, type) and value in _PYTHON


def dtype(value: object) -> DType:
    """Find the row for a name, a NumPy dtype or scalar type, or a ``TensorProto`` number.

    Parameters
    ----------
    value : str, numpy.dtype, type or int
        ``"float32"``, the ONNX ``"FLOAT"`` and ``"float"``, ``np.float32`` and ``1``
        all name the same row.

    Raises
    ------
    InputError
        There is no such dtype.

    Examples
    --------
    >>> dtype("double").name, dtype(np.int8).name, dtype(16).name
    ('float64', 'int8', 'bfloat16')
    """
    if isinstance(value, DType):
        return value
    row: DType | None = None
    # A bool is an int to Python, and 1 is the number of float32.
    if isinstance(value, str):
        row = _BY_NAME.get(value.strip().lower())
    elif isinstance(value, int) and not isinstance(value, bool):
        row = _BY_ONNX.get(value)
    elif isinstance(value, np.dtype) or is_element(value):
        numpy: np.dtype[Any] = np.dtype(value)  # type: ignore[call-overload]  # a dtype or a class
        row = _BY_NUMPY.get(numpy)
        if row is None and numpy.kind in "UT":
            # Fixed-width text, and numpy 2's own strings. A model's strings have no width.
            row = _BY_NAME["string"]
        elif row is None:
            # An array from a file of the other byte order has the same numbers.
            row = _BY_NUMPY.get(numpy.newbyteorder("="))
    if row is None:
        advice = messages.closest(value, _BY_NAME) if isinstance(value, str) else None
        # A Python int has no size, and an index in ONNX has 64 bits.
        if value == "int":
            advice = "int64"
        raise InputError(
            f"dtype {sanitize(value)}",
            expected="one of " + ", ".join(entry.name for entry in DTYPES),
            got=f"{type(value).__name__} {sanitize(value)}",
            next=advice,
        )
    return row
