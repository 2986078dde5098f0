"""Shapes as int64 vectors in the graph, from the user's arguments or from tensors."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import add, equal, not_
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Dims,
    Tensor,
    broadcast,
    cast,
    concat,
    constant,
    count,
    reshape,
    shape,
    vector,
)
from pyopnb.lowering.tracing import Traced, is_traced

__all__ = ["broadcast_shape", "flat", "listed", "shape_vector"]


def shape_vector(sizes: Any) -> tuple[Tensor, Dims]:
    """Record a shape as a vector, and return its known sizes; -1 means unknown."""
    if type(sizes) is Traced and sizes.ndim:
        return cast(sizes.tensor, INT64), (None,) * int(np.size(sizes.value))
    items = listed(sizes)
    dims = tuple(map(_known, items))
    parts: list[Tensor] = []
    for varies, sizes_of_part in groupby(items, is_traced):
        # Neighboring constants are one constant.
        if varies:
            parts.extend(map(_size_vector, sizes_of_part))
        else:
            parts.append(vector(*[size.__index__() for size in sizes_of_part]))
    return (concat(parts) if parts else vector()), dims


def _size_vector(size: Any) -> Tensor:
    if type(size) is Traced:
        return reshape(cast(size.tensor, INT64), vector(1), (1,))
    return cast(size.vector, INT64)


def _known(size: Any) -> int | None:
    """Return a size if it is fixed; None if it varies with the inputs or is -1."""
    if is_traced(size) or size.__index__() < 0:
        return None
    return int(size.__index__())


def listed(argument: Any) -> list[Any]:
    """Turn a single item or a sequence into a list."""
    if isinstance(argument, (tuple, list)):
        return list(argument)
    return [argument]


def flat(x: Tensor) -> Tensor:
    """Flatten to a vector."""
    if x.ndim == 1:
        return x
    return reshape(x, vector(-1), (count(x.dims),))


def broadcast_shape(*tensors: Tensor) -> tuple[Tensor, Dims]:
    """Record the common shape of tensors as a vector."""
    dims = broadcast(*(x.dims for x in tensors))
    if None not in dims:
        return constant(dims, INT64), dims
    # One of them has the whole shape, where the others have sizes of 1 alone.
    for largest in tensors:
        others = [x for x in tensors if x is not largest]
        if largest.dims == dims and all(set(x.dims) <= {1} for x in others):
            return shape(largest), dims
    # The shape of a sum, of zeros that are cheap to make in each dtype.
    total = _zeros_like(tensors[0])
    for x in tensors[1:]:
        total = add(total, _zeros_like(x))
    return shape(total), dims


def _zeros_like(x: Tensor) -> Tensor:
    bools = cast(x, BOOL)
    return cast(not_(equal(bools, bools)), np.int32)
