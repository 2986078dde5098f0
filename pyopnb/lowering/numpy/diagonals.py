"""NumPy's functions of diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    cast,
    concat,
    constant,
    elementwise,
    gather,
    node,
    reshape,
    shape,
    squeeze,
    transpose,
    where,
)
from pyopnb.lowering.tracing import tensor_of


@lowers(np.tril)
def _tril(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, 0)


@lowers(np.triu)
def _triu(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, 1)


def _triangle(x: Tensor, k: Any, upper: int) -> Tensor:
    wide = (
        x if x.dtype in (np.float32, np.float64, np.int64, BOOL, np.float16) else cast(x, np.int64)
    )
    inputs = [wide] if type(k) is int and k == 0 else [wide, tensor_of(k, INT64)]
    return cast(
        node("Trilu", inputs, wide.dtype, x.dims, **({} if upper else {"upper": 0})), x.dtype
    )


@lowers(np.diagonal)
def _diagonal(result: Any, a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    x = tensor_of(a)
    row_axis, column_axis = axis1 % x.ndim, axis2 % x.ndim
    order = [axis for axis in range(x.ndim) if axis not in (row_axis, column_axis)] + [
        row_axis,
        column_axis,
    ]
    x = transpose(x, order)
    by = tensor_of(offset, INT64)
    rows, columns = (squeeze(shape(x, axis, axis + 1), [0]) for axis in (x.ndim - 2, x.ndim - 1))
    zero = constant(0, INT64)
    row, column = (
        elementwise("Max", elementwise("Neg", by), zero),
        elementwise("Max", by, zero),
    )
    length = elementwise("Min", elementwise("Sub", rows, row), elementwise("Sub", columns, column))
    steps = node(
        "Range", [zero, elementwise("Max", length, zero), constant(1, INT64)], INT64, (None,)
    )
    at = elementwise(
        "Add",
        elementwise("Mul", elementwise("Add", steps, row), columns),
        elementwise("Add", steps, column),
    )
    cells = elementwise("Mul", shape(x, x.ndim - 2, x.ndim - 1), shape(x, x.ndim - 1))
    lines = reshape(
        x, concat([shape(x, 0, x.ndim - 2), cells] if x.ndim > 2 else [cells]), (*x.dims[:-2], None)
    )
    return gather(lines, at, x.ndim - 2)


@lowers(np.diag)
def _diag(result: Any, v: Any, k: Any = 0) -> Tensor:
    x = tensor_of(v)
    if x.ndim == 2:
        return _diagonal(result, v, k)
    if type(k) is not int or k:
        refuse("np.diag of a vector with k=", "np.diag(x)")
    n = shape(x, 0, 1)
    like = node("ConstantOfShape", [concat([n, n])], np.int32, (None, None), value=_zero(np.int32))
    eye = cast(node("EyeLike", [like], np.int32, (None, None)), bool)
    return where(eye, x, constant(0, x.dtype))


def _zero(dtype: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.zeros(1, dtype))


@lowers(np.trace)
def _trace(result: Any, a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    from pyopnb.lowering.numpy.reductions import sum_of

    tensor = _diagonal(result, a, offset, axis1, axis2)
    return sum_of(tensor, [tensor.ndim - 1], False, np.asarray(result).dtype)
