"""NumPy's functions that join arrays and split them, and what is done with neighbouring parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.reductions import axes_of
from pyopnb.lowering.numpy.ufuncs import same_kind
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import flat, shape_vector
from pyopnb.lowering.tensors import (
    BOOL,
    Tensor,
    concat,
    constant,
    elementwise,
    node,
    reshape,
    shape,
    unsqueeze,
)
from pyopnb.lowering.tracing import plain, tensor_of

__all__ = ["sliced"]


@lowers(np.concatenate)
def _concatenate(result: Any, arrays: Any, axis: Any = 0) -> Tensor:
    tensors = [tensor_of(array, result.dtype) for array in arrays]
    if axis is None:
        return concat([flat(x) for x in tensors])
    return concat(tensors, axes_of(axis, tensors[0].ndim)[0])


@lowers(np.stack)
def _stack(result: Any, arrays: Any, axis: Any = 0) -> Tensor:
    at = axes_of(axis, np.ndim(result))[0]
    return concat([unsqueeze(tensor_of(array, result.dtype), [at]) for array in arrays], at)


def _stacked(function: Any, least: int, axis: int, of_vectors: Any) -> None:
    @lowers(function)
    def lower(result: Any, tup: Any) -> Tensor:
        tensors = [tensor_of(array, result.dtype) for array in tup]
        tensors = [unsqueeze(x, of_vectors[x.ndim]) if x.ndim in of_vectors else x for x in tensors]
        return concat(tensors, axis if tensors[0].ndim > axis else 0)


_stacked(np.vstack, 2, 0, {0: [0, 1], 1: [0]})
_stacked(np.hstack, 1, 1, {0: [0]})
_stacked(np.dstack, 3, 2, {0: [0, 1, 2], 1: [0, 2], 2: [2]})
_stacked(np.column_stack, 2, 1, {0: [0, 1], 1: [1]})


def sliced(x: Tensor, axis: int, begin: Tensor, end: Tensor, size: int | None) -> Tensor:
    """Record a part along an axis; begin and end are vectors of one."""
    dims = tuple(size if position == axis else item for position, item in enumerate(x.dims))
    return node("Slice", [x, begin, end, constant(np.array([axis]))], x.dtype, dims)


@lowers(np.split, np.array_split)
def _split(result: Any, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    x = tensor_of(ary)
    at = axes_of(axis, x.ndim)[0]
    if isinstance(plain(indices_or_sections), (int, np.integer)):
        if x.dims[at] is None:
            return _equal_parts(x, int(indices_or_sections), at)
        stops = np.cumsum([part.shape[at] for part in result]).tolist()[:-1]
    else:
        stops = list(indices_or_sections)
    bounds = [shape_vector([end])[0] for end in [0, *stops, np.iinfo(np.int64).max]]
    sizes = [part.shape[at] if x.dims[at] is not None else None for part in result]
    return [sliced(x, at, a, b, n) for a, b, n in zip(bounds[:-1], bounds[1:], sizes, strict=True)]


def _equal_parts(x: Tensor, parts: int, axis: int) -> list[Tensor]:
    size = elementwise("Div", shape(x, axis, axis + 1), constant(np.array([parts])))
    bounds = [elementwise("Mul", size, constant(np.array([n]))) for n in range(parts + 1)]
    if x.dims[axis] is None:
        # np.split refuses sizes that are no multiple, and np.array_split makes the first parts larger by one.
        total = shape(x, axis, axis + 1)
        remainder = elementwise("Sub", total, bounds[-1])
        bounds = [
            elementwise("Add", bound, elementwise("Min", remainder, constant(np.array([n]))))
            for n, bound in enumerate(bounds)
        ]
    return [sliced(x, axis, a, b, None) for a, b in pairwise(bounds)]


for _function, _axis in {np.vsplit: 0, np.hsplit: 1}.items():

    @lowers(_function)
    def _split_along(
        result: Any, ary: Any, indices_or_sections: Any, _axis: int = _axis
    ) -> list[Tensor]:
        at = 0 if np.ndim(plain(ary)) == 1 else _axis
        return _split(result, ary, indices_or_sections, at)


@lowers(np.diff)
def _diff(result: Any, a: Any, n: Any = 1, axis: Any = -1) -> Tensor:
    x = tensor_of(a)
    at, limit = axes_of(axis, x.ndim)[0], np.iinfo(np.int64).max
    for _ in range(int(n.__index__())):
        entire = x.dims[at]
        size = entire and entire - 1
        ahead = sliced(x, at, constant(np.array([1])), constant(np.array([limit])), size)
        behind = sliced(x, at, constant(np.array([0])), constant(np.array([-1])), size)
        if x.dtype == BOOL:
            x = elementwise("Xor", ahead, behind)
        else:
            x = same_kind("Sub", ahead, behind)
    return x


@lowers(np.roll)
def _roll(result: Any, a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        rolled = _rolled(flat(x), shift, 0)
        return reshape(rolled, shape(x), x.dims)
    shifts, axes = (item if isinstance(item, (tuple, list)) else (item,) for item in (shift, axis))
    for by, at in np.broadcast(np.array(shifts, object), np.array(axes, object)):
        x = _rolled(x, by, axes_of(at, x.ndim)[0])
    return x


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    """Put the end of an axis in front of its beginning; a shift beyond the size goes round."""
    size = shape(x, axis, axis + 1)
    safe = (
        size
        if size.const is not None and size.const.all()
        else elementwise("Max", size, constant(np.array([1])))
    )
    by = shape_vector([shift])[0]
    at = (
        constant(-by.const % size.const)
        if by.const is not None and safe is size and size.const is not None
        else None
    )
    at = at or elementwise("Mod", elementwise("Neg", by), safe)
    end = constant(np.array([np.iinfo(np.int64).max]))
    parts = [sliced(x, axis, at, end, None), sliced(x, axis, constant(np.array([0])), at, None)]
    joined = concat(parts, axis)
    return Tensor(joined.name, joined.dtype, x.dims)
