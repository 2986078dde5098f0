"""Operators that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["gather_elements"]


def gather_elements(data: np.ndarray, indices: np.ndarray, *, axis: int) -> Any:
    """Gather along an axis.

    onnx uses `numpy.choose`, which takes 64 choices at most, and wants all other lengths equal.
    """
    axis %= data.ndim
    # The indices may be shorter than the data along the other axes;
    # take_along_axis wants them equal.
    region = [slice(length) for length in indices.shape]
    region[axis] = slice(None)
    return np.take_along_axis(data[tuple(region)], indices, axis)
