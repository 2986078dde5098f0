"""NumPy functions that take elements by index, and find where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.numpy.axes import along, axis_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import flat
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    constant,
    gather,
    node,
    resized,
)
from pyopnb.lowering.tracing import plain, tensor_of

__all__ = ["index_tensor", "nonzero_indices", "nonzero_rows", "selected"]


def index_tensor(indices: Any) -> Tensor:
    """Record an integer or an array of integers in a dtype that Gather takes."""
    tensor = tensor_of(indices)
    if tensor.dtype in (np.int32, np.int64):
        return tensor
    return cast(tensor, INT64)


@lowers(np.take)
def _take(result: Any, a: Any, indices: Any, axis: Any = None) -> Tensor:
    x, at = along(tensor_of(a), axis)
    return gather(x, index_tensor(indices), at)


@lowers(np.take_along_axis)
def _take_along_axis(result: Any, arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    x = tensor_of(arr)
    index = index_tensor(indices)
    if axis is None:
        return gather(flat(x), flat(index), 0)
    at = axis_of(axis, x.ndim)
    # GatherElements does not broadcast, and would read the wrong elements.
    sizes = list(np.shape(plain(arr)))
    sizes_of_index = list(np.shape(plain(indices)))
    sizes[at] = sizes_of_index[at]
    if sizes != sizes_of_index:
        refuse("np.take_along_axis that broadcasts", "np.broadcast_to(indices, …)")
    attrs = {}
    if at:
        attrs["axis"] = at
    return node("GatherElements", [x, index], x.dtype, index.dims, **attrs)


def selected(x: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Select the slices along an axis where a vector is true."""
    return node("Compress", [x, mask], x.dtype, resized(x.dims, axis, None), axis=axis)


# ---- where something is --------------------------------------------------------------------------


def nonzero_rows(x: Tensor) -> Tensor:
    """Record the indices of nonzero elements, one row per axis."""
    return node("NonZero", [cast(x, bool)], INT64, (x.ndim, None))


def nonzero_indices(x: Tensor) -> list[Tensor]:
    """Record the indices of nonzero elements, one vector per axis."""
    rows = nonzero_rows(x)
    return [gather(rows, constant(axis, INT64), 0) for axis in range(x.ndim)]


@lowers(np.nonzero)
def _nonzero(result: Any, a: Any) -> list[Tensor]:
    return nonzero_indices(tensor_of(a))
