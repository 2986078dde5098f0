"""Operators that move elements or add them up along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "arg_max",
    "arg_min",
    "flatten",
    "gather_elements",
    "one_hot",
    "pad",
    "pad_2",
]


def arg_max(x: Any, *, axis: int, keepdims: int, select_last_index: int = 0) -> Any:
    """Return the place of the largest element along an axis."""
    return _place_of_extreme(x, -np.inf, np.argmax, axis, keepdims, select_last_index)


def arg_min(x: Any, *, axis: int, keepdims: int, select_last_index: int = 0) -> Any:
    """Return the place of the smallest element along an axis."""
    return _place_of_extreme(x, np.inf, np.argmin, axis, keepdims, select_last_index)


def _place_of_extreme(
    x: Any, worst: float, function: Any, axis: int, keepdims: int, takes_last: int
) -> Any:
    values = x
    if x.dtype.kind not in "biu":
        # As in ONNX Runtime, which compares one after the other: NaN is never chosen, and if it
        # comes first, it stays.
        values = np.where(np.isnan(x), worst, x)
        beside = [1] * x.ndim
        beside[axis] = -1
        stays = np.where(np.arange(x.shape[axis]) == 0, 0, worst).reshape(beside)
        values = np.where(np.isnan(x.take([0], axis=axis)), stays, values)
    if takes_last:
        values = np.flip(values, axis)
    places = function(values, axis=axis, keepdims=bool(keepdims))
    if takes_last:
        places = x.shape[axis] - 1 - places
    return np.asarray(places, np.int64)


def flatten(x: Any, *, axis: int) -> Any:
    """Join the axes before one, and all from it on; onnx cannot if an axis is empty."""
    start = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:start]), math.prod(x.shape[start:]))


def gather_elements(data: Any, indices: Any, *, axis: int) -> Any:
    """Gather along an axis.

    onnx uses `numpy.choose`, which takes 64 choices at most, and wants all other lengths equal.
    """
    axis %= data.ndim
    # The indices may be shorter than the data along the other axes;
    # take_along_axis wants them equal.
    region = [slice(length) for length in indices.shape]
    region[axis] = slice(None)
    return np.take_along_axis(data[tuple(region)], indices, axis)


def one_hot(indices: Any, depth: Any, values: Any, *, axis: int) -> Any:
    """Set places along a new axis to the second value, all others to the first one."""
    count = int(depth.item())
    places = np.expand_dims(indices.astype(np.int64), axis)
    # Negative places count from the end.
    places = np.where(places < 0, places + count, places)
    beside = [1] * places.ndim
    beside[axis] = count
    hits = places == np.arange(count).reshape(beside)
    return np.where(hits, values[1], values[0]).astype(values.dtype)


def pad_2(data: Any, *, pads: Sequence[int], mode: str, value: float) -> Any:
    """Pad by numbers that are attrs."""
    return pad(data, np.array(pads), np.array(value), mode=mode)


def pad(data: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> Any:
    """Add elements at both ends of axes; a negative number takes them away."""
    begins, ends = np.split(pads.ravel(), 2)
    margins = [(0, 0)] * data.ndim
    for number, axis in enumerate(range(data.ndim) if axes is None else axes.tolist()):
        begin, end = int(begins[number]), int(ends[number])
        # Removed elements are not repeated on the other side.
        kept = slice(max(0, -begin), max(0, data.shape[axis] - max(0, -end)))
        data = data[(slice(None),) * (axis % data.ndim) + (kept,)]
        margins[axis] = (max(0, begin), max(0, end))
    if mode != "constant":
        modes: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
        return np.pad(data, margins, mode=modes[mode])
    filler = np.zeros((), data.dtype)
    if value is not None:
        filler = value.astype(data.dtype).reshape(())
    sizes = [size + sum(margin) for size, margin in zip(data.shape, margins, strict=True)]
    result = np.full(sizes, filler, data.dtype)
    places = [
        slice(first, first + size) for size, (first, _) in zip(data.shape, margins, strict=True)
    ]
    result[tuple(places)] = data
    return result
