"""The dtypes of tensors in models, one row each, and how to find a row.

ONNX Runtime numbers its element types differently from ``onnx.TensorProto.DataType`` from float8 on, so a row has both numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import TensorProto

from pyopnb.errors import InputError
from pyopnb.ops.messages import closest, sanitize

__all__ = ["DTYPES", "DType", "dtype", "is_element"]


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
        Number in ONNX Runtime's ``ONNXTensorElementDataType``.
    numpy : numpy.dtype
        The dtype of the arrays that an op's ``compute`` gets; ``object`` (holding ``str``) for ``string``.
    bits : int
        Bits of one element in ONNX Runtime's memory; 4- and 2-bit types are packed. 0 for ``string``.
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


def _row(
    name: str, runtime: int, onnx_name: str, scalar: type, bits: int, carried: bool = True
) -> DType | None:
    # Old onnx and ml_dtypes lack the newest types; no array and no model can have them then.
    number = getattr(TensorProto, onnx_name, None)
    return (
        None
        if number is None or scalar is None
        else DType(name, number, runtime, np.dtype(scalar), bits, carried)
    )


def _ml(name: str) -> type:
    return getattr(ml_dtypes, name, None)  # type: ignore[return-value]  # None: see _row


DTYPES: tuple[DType, ...] = tuple(
    row
    for row in (
        _row("bool", 9, "BOOL", np.bool_, 8),
        _row("int8", 3, "INT8", np.int8, 8),
        _row("int16", 5, "INT16", np.int16, 16),
        _row("int32", 6, "INT32", np.int32, 32),
        _row("int64", 7, "INT64", np.int64, 64),
        _row("uint8", 2, "UINT8", np.uint8, 8),
        _row("uint16", 4, "UINT16", np.uint16, 16),
        _row("uint32", 12, "UINT32", np.uint32, 32),
        _row("uint64", 13, "UINT64", np.uint64, 64),
        _row("float16", 10, "FLOAT16", np.float16, 16),
        _row("bfloat16", 16, "BFLOAT16", _ml("bfloat16"), 16),
        _row("float32", 1, "FLOAT", np.float32, 32),
        _row("float64", 11, "DOUBLE", np.float64, 64),
        _row("string", 8, "STRING", np.object_, 0),
        _row("float8_e4m3fn", 17, "FLOAT8E4M3FN", _ml("float8_e4m3fn"), 8),
        _row("float8_e4m3fnuz", 18, "FLOAT8E4M3FNUZ", _ml("float8_e4m3fnuz"), 8),
        _row("float8_e5m2", 19, "FLOAT8E5M2", _ml("float8_e5m2"), 8),
        _row("float8_e5m2fnuz", 20, "FLOAT8E5M2FNUZ", _ml("float8_e5m2fnuz"), 8),
        _row("int4", 22, "INT4", _ml("int4"), 4),
        _row("uint4", 21, "UINT4", _ml("uint4"), 4),
        _row("float4_e2m1fn", 23, "FLOAT4E2M1", _ml("float4_e2m1fn"), 4),
        _row("int2", 25, "INT2", _ml("int2"), 2, carried=False),
        _row("uint2", 24, "UINT2", _ml("uint2"), 2, carried=False),
        _row("float8_e8m0fnu", 26, "FLOAT8E8M0", _ml("float8_e8m0fnu"), 8, carried=False),
        _row("complex64", 14, "COMPLEX64", np.complex64, 64, carried=False),
        _row("complex128", 15, "COMPLEX128", np.complex128, 128, carried=False),
    )
    if row is not None
)

_BY_ONNX = {row.onnx: row for row in DTYPES}
_BY_NUMPY = {row.numpy: row for row in DTYPES}
# ONNX's names and those of its text form, beside NumPy's.
_BY_NAME = {
    **{TensorProto.DataType.Name(row.onnx).lower(): row for row in DTYPES},
    **{row.name: row for row in DTYPES},
}


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

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    return value in _PYTHON or (
        isinstance(value, type) and issubclass(value, np.generic) and value not in _ABSTRACT
    )


def dtype(value: object) -> DType:
    """Find the row for a name, a NumPy dtype or scalar type, or a ``TensorProto`` number.

    Parameters
    ----------
    value : str, numpy.dtype, type or int
        ``"float32"``, ONNX's ``"FLOAT"`` and ``"float"``, ``np.float32`` and ``1`` all name the same row.

    Returns
    -------
    DType

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
    if isinstance(value, np.dtype) and value in _BY_NUMPY:  # nearly always
        row = _BY_NUMPY[value]
    elif isinstance(value, str):
        row = _BY_NAME.get(value.strip().lower())
    elif isinstance(value, int) and not isinstance(value, bool):
        row = _BY_ONNX.get(value)
    elif isinstance(value, (np.dtype, type)):
        # np.dtype(str) is a fixed-width text type; a model's strings have no width. Kind T is numpy 2's own string dtype.
        numpy = (
            np.dtype(value)
            if isinstance(value, np.dtype) or is_element(value)
            else np.dtype(np.void)
        )
        row = _BY_NAME["string"] if numpy.kind in "UT" else _BY_NUMPY.get(numpy.newbyteorder("="))
    if row is None:
        raise InputError(
            f"dtype {sanitize(value)}",
            expected="one of " + ", ".join(r.name for r in DTYPES),
            got=f"{type(value).__name__} {sanitize(value)}",
            next=closest(value, _BY_NAME) if isinstance(value, str) else None,
        )
    return row
