"""NumPy's functions that join arrays and split them, and what is done with neighbouring parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import maximum, mod, neg, sub, xor
from pyopnb.lowering.numpy.axes import axis_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import flat, shape_vector
from pyopnb.lowering.tensors import (
    BOOL,
    Tensor,
    concat,
    node,
    reshape,
    resized,
    shape,
    size,
    unsqueeze,
    vector,
)
from pyopnb.lowering.tracing import plain, tensor_of

__all__: list[str] = []

_END = np.iinfo(np.int64).max


# ---- joining --------------------------------------------------------------------------------------


@lowers(np.concatenate)
def _concatenate(result: Any, arrays: Any, axis: Any = 0) -> Tensor:
    tensors = [tensor_of(array, result.dtype) for array in arrays]
    if axis is None:
        return concat([flat(x) for x in tensors])
    return concat(tensors, axis_of(axis, tensors[0].ndim))


@lowers(np.stack)
def _stack(result: Any, arrays: Any, axis: Any = 0) -> Tensor:
    at = axis_of(axis, np.ndim(result))
    parts = []
    for array in arrays:
        x = tensor_of(array, result.dtype)
        parts.append(unsqueeze(x, [at]))
    return concat(parts, at)


def _stacking(function: Any, axis: int, new_axes: Mapping[int, Sequence[int]]) -> None:
    """Register a function that joins along an axis; ``new_axes`` are those that arrays of few axes get, by rank."""

    @lowers(function)
    def lower(result: Any, tup: Any) -> Tensor:
        tensors = []
        for array in tup:
            x = tensor_of(array, result.dtype)
            tensors.append(unsqueeze(x, new_axes.get(x.ndim, ())))
        return concat(tensors, axis if tensors[0].ndim > axis else 0)


_stacking(np.vstack, 0, {0: [0, 1], 1: [0]})
_stacking(np.hstack, 1, {0: [0]})


# ---- splitting ------------------------------------------------------------------------------------


def _part(x: Tensor, axis: int, begin: Tensor, end: Tensor, length: int | None) -> Tensor:
    """Record a part along an axis; begin and end are vectors of one."""
    dims = resized(x.dims, axis, length)
    return node("Slice", [x, begin, end, vector(axis)], x.dtype, dims)


@lowers(np.split, np.array_split)
def _split(result: Any, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    x = tensor_of(ary)
    at = axis_of(axis, x.ndim)
    if not isinstance(plain(indices_or_sections), (int, np.integer)):
        stops = list(indices_or_sections)
    elif x.dims[at] is None:
        refuse("a split of an axis whose size can change", "np.split(x, [2, 4])")
    else:
        stops = np.cumsum([part.shape[at] for part in result]).tolist()[:-1]
    bounds = []
    for stop in [0, *stops, _END]:
        bound, _ = shape_vector([stop])
        bounds.append(bound)
    parts = []
    for part, (begin, end) in zip(result, pairwise(bounds), strict=True):
        if x.dims[at] is None:
            length = None
        else:
            length = part.shape[at]
        parts.append(_part(x, at, begin, end, length))
    return parts


# ---- neighbours -----------------------------------------------------------------------------------


@lowers(np.diff)
def _diff(result: Any, a: Any, n: Any = 1, axis: Any = -1) -> Tensor:
    x = tensor_of(a)
    at = axis_of(axis, x.ndim)
    for _ in range(int(n.__index__())):
        before = x.dims[at]
        length = before and before - 1
        ahead = _part(x, at, vector(1), vector(_END), length)
        behind = _part(x, at, vector(0), vector(-1), length)
        if x.dtype == BOOL:
            x = xor(ahead, behind)
        else:
            x = sub(ahead, behind)
    return x


@lowers(np.roll)
def _roll(result: Any, a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        return reshape(_rolled(flat(x), shift, 0), shape(x), x.dims)
    if isinstance(axis, (tuple, list)):
        refuse("np.roll of several axes", "np.roll(np.roll(x, 1, 0), 2, 1)")
    return _rolled(x, shift, axis_of(axis, x.ndim))


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    """Rotate along an axis; shifts beyond its size wrap around."""
    distance = shape_vector([shift])[0]
    length = size(x, axis)
    if distance.const is not None and length.const is not None and length.const.all():
        at = vector(int(-distance.const[0] % length.const[0]))
    else:
        # An integer remainder by zero would crash the process.
        at = mod(neg(distance), maximum(length, 1))
    end = _part(x, axis, at, vector(_END), None)
    beginning = _part(x, axis, vector(0), at, None)
    joined = concat([end, beginning], axis)
    return Tensor(joined.name, joined.dtype, x.dims)
