"""The interface of ``pyopnb_call.h`` in ctypes: attrs, and calls of a function with arrays."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.engine import DTYPES

__all__ = ["VERSION", "Attrs", "call_compiled"]

VERSION = 1
"""PYOPNB_CALL_VERSION."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


class _Attr(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("count", ctypes.c_int64), ("kind", ctypes.c_int32))


# Its fields follow below: the callbacks have a pointer to it themselves.
class _Call(ctypes.Structure):
    pass


_OUTPUT = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.POINTER(_Call),
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int32,
)
_FAIL = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Call), ctypes.c_int32, ctypes.c_char_p)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Call))
_Call._fields_ = (
    ("version", ctypes.c_int32),
    ("input_count", ctypes.c_int32),
    ("output_count", ctypes.c_int32),
    ("attr_count", ctypes.c_int32),
    ("inputs", ctypes.POINTER(_Tensor)),
    ("attrs", ctypes.POINTER(_Attr)),
    ("output", _OUTPUT),
    ("fail", _FAIL),
)

_ERRORS = ("RuntimeError", "ValueError", "TypeError", "IndexError", "OverflowError", "MemoryError")
_INTS, _FLOATS = (1, np.int64), (2, np.float64)
_TEXT = 3
_ELEMENTS = {row.runtime: row.numpy for row in DTYPES}
_BY_NUMPY = {row.numpy: row.runtime for row in DTYPES if row.bits >= 8}


class Attrs:
    """Values in the order of an op's attrs, as a compiled function reads them.

    Parameters
    ----------
    floats : sequence of bool
        Which of them are floats, as an empty list has no type.
    """

    def __init__(self, values: Sequence[Any], floats: Sequence[bool]) -> None:
        self.rows = (_Attr * max(len(values), 1))()
        self.count = len(values)
        self._buffers: list[Any] = []
        for row, value, is_float in zip(self.rows, values, floats, strict=False):
            if isinstance(value, str):
                # The function reads text by its length; it may hold a zero.
                text = value.encode()
                buffer: Any = ctypes.create_string_buffer(text)
                row.data, row.count, row.kind = ctypes.addressof(buffer), len(text), _TEXT
            else:
                # Numbers and lists of numbers are both arrays, of one or several elements.
                row.kind, dtype = _FLOATS if is_float else _INTS
                buffer = np.atleast_1d(np.array(value, dtype))
                row.data, row.count = buffer.ctypes.data, buffer.size
            self._buffers.append(buffer)

    @property
    def address(self) -> int:
        """Return where the first row is, as long as this object lives."""
        return ctypes.addressof(self.rows)


class _Results:
    """The outputs that a function allocates in one call, and the error that it reports."""

    def __init__(self, count: int) -> None:
        self.arrays: list[np.ndarray | None] = [None] * count
        self.error: BaseException | None = None
        # Python keeps these callbacks as long as this object lives; the call ends before that.
        self.output, self.fail = _OUTPUT(self._output), _FAIL(self._fail)

    def _output(self, call: Any, index: int, dtype: int, shape: Any, rank: int) -> int | None:
        try:
            sizes = [shape[axis] for axis in range(rank)]
            array = self.arrays[index] = np.empty(sizes, _ELEMENTS[dtype])
        # An exception must not leave a callback of ctypes, which would only print it.
        except Exception as error:
            self.error = error
            return None
        return int(array.ctypes.data)

    def _fail(self, call: Any, error: int, text: bytes) -> None:
        name = "RuntimeError"
        if 0 <= error < len(_ERRORS):
            name = _ERRORS[error]
        self.error = getattr(builtins, name)(text.decode(errors="replace"))


def call_compiled(
    address: int, attrs: Attrs, arrays: Sequence[np.ndarray | None], count: int
) -> list[np.ndarray]:
    """Call a compiled function with arrays, without the GIL.

    Parameters
    ----------
    address : int
        Of a ``pyopnb_function``.
    arrays : sequence of (ndarray or None)
        The inputs, of any dtype whose elements are whole bytes; None for one that is left out.
    count : int
        How many outputs it has.

    Raises
    ------
    TypeError
        An input is of another dtype.
    Exception
        The error that the function reports; RuntimeError where it leaves an output unset.
    """
    inputs = (_Tensor * max(len(arrays), 1))()
    buffers = []
    for row, values in zip(inputs, arrays, strict=False):
        if values is not None:
            buffers.append(_fill(row, values))
    results = _Results(count)
    call = _Call(
        VERSION, len(arrays), count, attrs.count, inputs, attrs.rows, results.output, results.fail
    )
    # ctypes releases the GIL here, and the callbacks take it again.
    answer = _FUNCTION(address)(ctypes.byref(call))
    # An exception of the function comes as a call of fail, or from the allocation of an output.
    if results.error is not None:
        raise results.error
    outputs = [array for array in results.arrays if array is not None]
    if answer != 0 or len(outputs) != count:
        raise RuntimeError(
            f"the compiled function returned {answer}, "
            f"with {len(outputs)} of {count} outputs allocated"
        )
    return outputs


def _fill(row: _Tensor, values: np.ndarray) -> tuple[Any, ...]:
    """Point a row to an array; return the objects that must live as long as the call."""
    # np.ascontiguousarray makes an axis of a scalar.
    array = np.ascontiguousarray(values).reshape(np.shape(values))
    if array.dtype not in _BY_NUMPY:
        raise TypeError(f"expected an array of numbers, got dtype {array.dtype}")
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    row.data, row.shape = array.ctypes.data, ctypes.addressof(shape)
    row.rank, row.dtype = array.ndim, _BY_NUMPY[array.dtype]
    return array, shape
