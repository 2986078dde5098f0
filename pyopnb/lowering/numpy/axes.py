"""The arguments ``axis`` of NumPy functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.size_vectors import flat, listed
from pyopnb.lowering.tensors import Tensor

__all__ = ["along", "axes_of", "axis_of"]


def axes_of(axis: Any, ndim: int) -> list[int]:
    """List the axes of an argument ``axis`` in ascending order; None means all axes."""
    if axis is None:
        return list(range(ndim))
    return sorted(axis_of(item, ndim) for item in listed(axis))


def axis_of(axis: Any, ndim: int) -> int:
    """Return a single axis, counted from the front."""
    # __index__ reads an attr's value, so it becomes part of the function.
    return int(np.lib.array_utils.normalize_axis_index(axis.__index__(), ndim))


def along(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Return a tensor and the axis to work along.

    Without an axis, the tensor is flattened, because NumPy then works along all elements.
    """
    if axis is None:
        return flat(x), 0
    return x, axes_of(axis, x.ndim)[0]
