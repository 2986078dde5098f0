"""Shapes as vectors of a graph: from what the user gives, and from what tensors have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.tensors import (
    INT64,
    Dims,
    Tensor,
    broadcast,
    cast,
    concat,
    constant,
    count,
    elementwise,
    reshape,
    shape,
)
from pyopnb.lowering.tracing import Number, Traced

__all__ = ["broadcast_shape", "flat", "shape_vector"]


def shape_vector(sizes: Any) -> tuple[Tensor, Dims]:
    """Record a shape as a vector, and return what is known of it; -1 is not known."""
    if type(sizes) is Traced and sizes.ndim:
        return cast(sizes.tensor, INT64), (None,) * int(np.size(sizes.value))
    listed = list(sizes) if isinstance(sizes, (tuple, list)) else [sizes]
    dims = tuple(None if type(size) in (Number, Traced) else _known(size) for size in listed)
    parts: list[Tensor] = []
    position = 0
    while position < len(listed):
        run = _run(listed, position)
        parts.append(_part(listed[position : position + run]))
        position += run
    return (concat(parts) if parts else constant(np.zeros(0, np.int64))), dims


def _known(size: Any) -> int | None:
    return int(size.__index__()) if size.__index__() >= 0 else None


def _run(sizes: Sequence[Any], at: int) -> int:
    """Count the sizes that are one part: constants, or neighbouring axes of a tensor."""
    if type(sizes[at]) not in (Number, Traced):
        return next(
            (n for n, size in enumerate(sizes[at:]) if type(size) in (Number, Traced)),
            len(sizes) - at,
        )
    origin = sizes[at].origin if type(sizes[at]) is Number else None
    run = 1
    while origin is not None and at + run < len(sizes):
        following = sizes[at + run]
        second = following.origin if type(following) is Number else None
        if second is None or second[0] is not origin[0] or second[1] != origin[1] + run:
            break
        run += 1
    return run


def _part(sizes: Sequence[Any]) -> Tensor:
    first = sizes[0]
    if type(first) is Number:
        if first.origin is None:
            return first.vector
        tensor, axis = first.origin
        return shape(tensor, axis, axis + len(sizes))
    if type(first) is Traced:
        return reshape(cast(first.tensor, INT64), constant(np.array([1])), (1,))
    return constant(np.array([size.__index__() for size in sizes], np.int64))


def flat(x: Tensor) -> Tensor:
    """Flatten to a vector."""
    return x if x.ndim == 1 else reshape(x, constant(np.array([-1])), (count(x.dims),))


def broadcast_shape(*tensors: Tensor) -> tuple[Tensor, Dims]:
    """Record the common shape of tensors as a vector."""
    dims = broadcast(*(x.dims for x in tensors))
    if None not in dims:
        return constant(np.array(dims, np.int64)), dims
    largest = [x for x in tensors if x.dims == dims]
    if largest and all(x is largest[0] or set(x.dims) <= {1} for x in tensors):
        return shape(largest[0]), dims
    total = None
    for x in tensors:
        zero = cast(
            elementwise("Not", elementwise("Equal", *[cast(x, bool)] * 2, dtype=bool)), np.int32
        )
        total = zero if total is None else elementwise("Add", total, zero)
    return shape(total), dims  # type: ignore[arg-type]  # there are tensors
