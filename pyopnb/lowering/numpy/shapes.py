"""NumPy functions of shapes and axes: the elements stay in their order, or turn with the axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.axes import axes_of, axis_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import flat, listed, shape_vector
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    concat,
    count,
    expand,
    node,
    reshape,
    served,
    squeeze,
    transpose,
    unsqueeze,
)
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []


# ---- shapes --------------------------------------------------------------------------------------


@lowers(np.reshape)
def _reshape(result: Any, a: Any, shape: Any = None, newshape: Any = None) -> Tensor:
    x = tensor_of(a)
    to, dims = shape_vector(newshape if shape is None else shape)
    product = math.prod(size for size in dims if size is not None)
    elements = count(x.dims)
    # The size for -1 follows from the others.
    if elements is not None and dims.count(None) == 1 and product:
        at = dims.index(None)
        dims = (*dims[:at], elements // product, *dims[at + 1 :])
    return reshape(x, to, dims)


@lowers(np.ravel)
def _ravel(result: Any, a: Any, order: str = "C") -> Tensor:
    return flat(tensor_of(a))


@lowers(np.expand_dims)
def _expand_dims(result: Any, a: Any, axis: Any) -> Tensor:
    axes = [int(item) % np.ndim(result) for item in listed(axis)]
    return unsqueeze(tensor_of(a), axes)


@lowers(np.squeeze)
def _squeeze(result: Any, a: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is not None:
        return squeeze(x, axes_of(axis, x.ndim))
    if None in x.dims:
        refuse("np.squeeze of axes that may or may not have size 1", "np.squeeze(x, axis)")
    return squeeze(x, [position for position, size in enumerate(x.dims) if size == 1])


# ---- the order of axes ---------------------------------------------------------------------------


@lowers(np.transpose)
def _transpose(result: Any, a: Any, axes: Any = None) -> Tensor:
    x = tensor_of(a)
    if axes is None:
        return transpose(x, list(reversed(range(x.ndim))))
    return transpose(x, [axis_of(axis, x.ndim) for axis in axes])


@lowers(np.swapaxes)
def _swapaxes(result: Any, a: Any, axis1: Any, axis2: Any) -> Tensor:
    x = tensor_of(a)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order)


@lowers(np.moveaxis)
def _moveaxis(result: Any, a: Any, source: Any, destination: Any) -> Tensor:
    x = tensor_of(a)
    moved = [axis_of(axis, x.ndim) for axis in listed(source)]
    positions = [axis_of(axis, x.ndim) for axis in listed(destination)]
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for position, axis in sorted(zip(positions, moved, strict=True)):
        order.insert(position, axis)
    return transpose(x, order)


# ---- broadcasting --------------------------------------------------------------------------------


@lowers(np.broadcast_to)
def _broadcast_to(result: Any, array: Any, shape: Any) -> Tensor:
    to, dims = shape_vector(shape)
    return expand(tensor_of(array), to, dims)


@lowers(np.concatenate)
def _concatenate(result: Any, arrays: Any, axis: Any = 0) -> Tensor:
    tensors = [tensor_of(array, result.dtype) for array in arrays]
    if axis is None:
        return concat([flat(x) for x in tensors])
    return concat(tensors, axis_of(axis, tensors[0].ndim))


def _triangle(function: Any, attrs: dict[str, int]) -> None:
    @lowers(function)
    def lower(result: Any, m: Any, k: Any = 0) -> Tensor:
        x = tensor_of(m)
        wide = x if served("Trilu", x.dtype) else cast(x, INT64)
        # The main diagonal is Trilu's default.
        inputs = [wide]
        if type(k) is not int or k:
            inputs.append(tensor_of(k, INT64))
        return cast(node("Trilu", inputs, wide.dtype, x.dims, **attrs), x.dtype)


_triangle(np.tril, {"upper": 0})
_triangle(np.triu, {})


# ---- results that are no arrays ------------------------------------------------------------------


@lowers(np.shape)
def _shape(result: Any, a: Any) -> Any:
    return a.shape


@lowers(np.ndim)
def _ndim(result: Any, a: Any) -> Any:
    return result


@lowers(np.size)
def _size(result: Any, a: Any, axis: Any = None) -> Any:
    if axis is None:
        return a.size
    return a.shape[axis]


@lowers(np.copy)
def _copy(result: Any, a: Any) -> Tensor:
    return tensor_of(a)
