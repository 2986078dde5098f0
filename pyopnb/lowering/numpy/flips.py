"""NumPy's functions that turn an array round."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.numpy.reductions import axes_of
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import Tensor, constant, node, transpose
from pyopnb.lowering.tracing import Traced, tensor_of


@lowers(np.flip)
def _flip(result: Any, m: Any, axis: Any = None) -> Tensor:
    x = tensor_of(m)
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x
    least = np.iinfo(np.int64).min
    bounds = ([-1] * len(axes), [least] * len(axes), axes, [-1] * len(axes))
    return node(
        "Slice", [x, *(constant(np.array(item, np.int64)) for item in bounds)], x.dtype, x.dims
    )


@lowers(np.fliplr)
def _fliplr(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 1)


@lowers(np.flipud)
def _flipud(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 0)


@lowers(np.rot90)
def _rot90(result: Any, m: Any, k: Any = 1, axes: Any = (0, 1)) -> Tensor:
    x = tensor_of(m)
    from_axis, to_axis = (int(axis) % x.ndim for axis in axes)
    order = list(range(x.ndim))
    order[from_axis], order[to_axis] = to_axis, from_axis

    def flipped(x: Tensor, axis: int) -> Tensor:
        return _flip(result, Traced(np.empty((0,) * x.ndim), x), axis)

    turns = int(k.__index__()) % 4
    if turns == 2:
        return flipped(flipped(x, from_axis), to_axis)
    return (
        x
        if not turns
        else transpose(flipped(x, to_axis), order)
        if turns == 1
        else flipped(transpose(x, order), to_axis)
    )
