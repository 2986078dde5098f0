"""NumPy's functions of shapes and axes: the elements stay in their order, or turn with the axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.reductions import axes_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import broadcast_shape, flat, shape_vector
from pyopnb.lowering.tensors import (
    Tensor,
    concat,
    count,
    expand,
    reshape,
    shape,
    squeeze,
    transpose,
    unsqueeze,
)
from pyopnb.lowering.tracing import tensor_of


@lowers(np.reshape)
def _reshape(result: Any, a: Any, shape: Any = None, newshape: Any = None) -> Tensor:
    x = tensor_of(a)
    to, dims = shape_vector(newshape if shape is None else shape)
    product = math.prod(size for size in dims if size is not None)
    if None not in x.dims and dims.count(None) == 1 and product:
        remainder = (count(x.dims) or 0) // product
        dims = tuple(remainder if size is None else size for size in dims)
    return reshape(x, to, dims)


@lowers(np.ravel)
def _ravel(result: Any, a: Any, order: str = "C") -> Tensor:
    return flat(tensor_of(a))


@lowers(np.transpose)
def _transpose(result: Any, a: Any, axes: Any = None) -> Tensor:
    x = tensor_of(a)
    order = (
        range(x.ndim)[::-1] if axes is None else [int(axis.__index__()) % x.ndim for axis in axes]
    )
    return transpose(x, list(order))


@lowers(np.swapaxes)
def _swapaxes(result: Any, a: Any, axis1: Any, axis2: Any) -> Tensor:
    x = tensor_of(a)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order)


@lowers(np.moveaxis)
def _moveaxis(result: Any, a: Any, source: Any, destination: Any) -> Tensor:
    x = tensor_of(a)
    order = np.moveaxis(np.arange(x.ndim).reshape((1,) * 0 + (x.ndim,)), 0, 0).tolist()
    listed = [
        (item if isinstance(item, (tuple, list)) else (item,)) for item in (source, destination)
    ]
    moved = [int(axis) % x.ndim for axis in listed[0]]
    order = [axis for axis in order if axis not in moved]
    for to, axis in sorted(zip((int(axis) % x.ndim for axis in listed[1]), moved, strict=True)):
        order.insert(to, axis)
    return transpose(x, order)


@lowers(np.expand_dims)
def _expand_dims(result: Any, a: Any, axis: Any) -> Tensor:
    x = tensor_of(a)
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    return unsqueeze(x, [int(item) % np.ndim(result) for item in listed])


@lowers(np.squeeze)
def _squeeze(result: Any, a: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        if None in x.dims:
            refuse("np.squeeze of axes that may or may not have size 1", "np.squeeze(x, axis)")
        return squeeze(x, [position for position, size in enumerate(x.dims) if size == 1])
    return squeeze(x, axes_of(axis, x.ndim))


@lowers(np.atleast_1d)
def _atleast_1d(result: Any, a: Any) -> Tensor:
    x = tensor_of(a)
    return x if x.ndim else unsqueeze(x, [0])


@lowers(np.atleast_2d)
def _atleast_2d(result: Any, a: Any) -> Tensor:
    x = tensor_of(a)
    return x if x.ndim > 1 else unsqueeze(x, [0] if x.ndim else [0, 1])


@lowers(np.broadcast_to)
def _broadcast_to(result: Any, array: Any, shape: Any) -> Tensor:
    to, dims = shape_vector(shape)
    return expand(tensor_of(array), to, dims)


@lowers(np.broadcast_arrays)
def _broadcast_arrays(result: Any, *arrays: Any) -> list[Tensor]:
    tensors = [tensor_of(array) for array in arrays]
    to, dims = broadcast_shape(*tensors)
    return [expand(x, to, dims) for x in tensors]


@lowers(np.meshgrid)
def _meshgrid(result: Any, *xi: Any, indexing: str = "xy", sparse: bool = False) -> list[Tensor]:
    vectors = [flat(tensor_of(x)) for x in xi]
    rank = len(vectors)
    positions = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    grids = [
        unsqueeze(x, [axis for axis in range(rank) if axis != at])
        for x, at in zip(vectors, positions, strict=True)
    ]
    if sparse:
        return grids
    sizes = [shape(vectors[positions.index(axis)]) for axis in range(rank)]
    dims = tuple(vectors[positions.index(axis)].dims[0] for axis in range(rank))
    return [expand(grid, concat(sizes), dims) for grid in grids]


@lowers(np.shape)
def _shape(result: Any, a: Any) -> Any:
    return a.shape


@lowers(np.ndim)
def _ndim(result: Any, a: Any) -> Any:
    return result


@lowers(np.size)
def _size(result: Any, a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


@lowers(np.copy)
def _copy(result: Any, a: Any) -> Tensor:
    return tensor_of(a)
