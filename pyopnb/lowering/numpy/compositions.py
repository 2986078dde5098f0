"""Rules for the NumPy functions that are composed of other NumPy functions.

The inner calls record the nodes. The arguments may be lists or numbers, so `as_array` makes them
arrays that record. Dtypes, sizes and views need no care here, because every inner call is traced.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.axes import axes_of, axis_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import graph
from pyopnb.lowering.tracing import as_array, plain

__all__: list[str] = []


def _along(axis: int, item: Any) -> tuple[Any, ...]:
    """Return the key that reads by an item along an axis."""
    return (slice(None),) * axis + (item,)


# ---- joining and splitting -----------------------------------------------------------------------


@lowers(np.stack)
def _stack(result: Any, arrays: Any, axis: Any = 0) -> Any:
    at = axis_of(axis, np.ndim(result))
    return np.concatenate([np.expand_dims(as_array(x), at) for x in arrays], at)


@lowers(np.vstack)
def _vstack(result: Any, tup: Any) -> Any:
    rows = []
    for item in tup:
        x = as_array(item)
        rows.append(x if x.ndim > 1 else x.reshape(1, -1))
    return np.concatenate(rows)


@lowers(np.hstack)
def _hstack(result: Any, tup: Any) -> Any:
    arrays = [as_array(x) for x in tup]
    if np.ndim(result) > 1:
        return np.concatenate(arrays, 1)
    return np.concatenate([x.ravel() for x in arrays])


@lowers(np.split, np.array_split)
def _split(result: Any, ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    x = as_array(ary)
    at = axis_of(axis, x.ndim)
    stops = indices_or_sections
    if isinstance(plain(stops), (int, np.integer)):
        sections = int(stops)
        # np.split refuses sizes that are no multiple, and np.array_split makes the first
        # parts larger by one.
        stops = [0]
        for larger in range(sections - 1, 0, -1):
            stops.append(stops[-1] + (x.shape[at] + larger) // sections)
        stops = stops[1:]
    return [x[_along(at, slice(*bounds))] for bounds in pairwise([0, *stops, None])]


# ---- neighbors -----------------------------------------------------------------------------------


@lowers(np.diff)
def _diff(result: Any, a: Any, n: Any = 1, axis: Any = -1) -> Any:
    x = as_array(a)
    at = axis_of(axis, x.ndim)
    for _ in range(int(n.__index__())):
        ahead = x[_along(at, slice(1, None))]
        behind = x[_along(at, slice(-1))]
        x = ahead != behind if x.dtype == bool else ahead - behind
    return x


@lowers(np.roll)
def _roll(result: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    x = as_array(a)
    if axis is None:
        return np.roll(x.ravel(), shift, 0).reshape(x.shape)
    if isinstance(axis, (tuple, list)):
        refuse("np.roll of several axes", "np.roll(np.roll(x, 1, 0), 2, 1)")
    at = axis_of(axis, x.ndim)
    length = x.shape[at]
    if type(length) is int and not length:
        return x
    # Shifts beyond the size wrap around.
    begin = -shift % length
    return np.concatenate([x[_along(at, slice(begin, None))], x[_along(at, slice(begin))]], at)


@lowers(np.repeat)
def _repeat(result: Any, a: Any, repeats: Any, axis: Any = None) -> Any:
    if np.ndim(plain(repeats)):
        refuse("np.repeat with a number for each element", "np.take(x, indices)")
    x = as_array(a)
    if axis is None:
        x = x.ravel()
    at = axis_of(0 if axis is None else axis, x.ndim)
    before, length, behind = x.shape[:at], x.shape[at], x.shape[at + 1 :]
    # Tile a new axis after the repeated one, and join the two.
    tiled = np.tile(np.expand_dims(x, at + 1), (*[1] * (at + 1), repeats, *[1] * len(behind)))
    return tiled.reshape(*before, length * repeats, *behind)


# ---- the order of elements -----------------------------------------------------------------------


@lowers(np.flip)
def _flip(result: Any, m: Any, axis: Any = None) -> Any:
    x = as_array(m)
    key = [slice(None)] * x.ndim
    for at in axes_of(axis, x.ndim):
        key[at] = slice(None, None, -1)
    return x[tuple(key)]


@lowers(np.fliplr)
def _fliplr(result: Any, m: Any) -> Any:
    return as_array(m)[:, ::-1]


@lowers(np.flipud)
def _flipud(result: Any, m: Any) -> Any:
    return as_array(m)[::-1]


@lowers(np.median)
def _median(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if isinstance(axis, (tuple, list)) or (axis is None and keepdims):
        refuse("a median of several axes", "x.reshape(…) and one axis")
    x = as_array(a)
    x = x.ravel() if axis is None else x
    at = axis_of(0 if axis is None else axis, x.ndim)
    # NumPy averages float16 as float32.
    x = np.sort(x, at).astype(np.float32 if result.dtype == np.float16 else result.dtype)
    count = x.shape[at]
    may_have_nan = x.dtype.kind == "f" and not graph().finite
    if may_have_nan and (type(count) is not int or not count):
        # An index into an empty axis finds this NaN.
        widths = [(0, 0)] * x.ndim
        widths[at] = (0, 1)
        x = np.pad(x, widths, constant_values=np.nan)
    # For an odd count, both are the same element.
    low, high = _at(x, at, (count - 1) // 2), _at(x, at, count // 2)
    # Adding the middle element to itself could overflow.
    middle = np.where(count % 2 == 1, low, (low + high) * 0.5)
    if may_have_nan:
        # NaN comes last.
        middle = np.where(np.isnan(_at(x, at, count - 1)), np.nan, middle)
    if not keepdims:
        middle = np.squeeze(middle, at)
    return middle


def _at(x: Any, axis: int, position: Any) -> Any:
    return np.take(x, np.stack([position]), axis)


# ---- choices -------------------------------------------------------------------------------------


@lowers(np.select)
def _select(result: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    chosen = default
    # The first true condition wins, so it is applied last.
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        chosen = np.where(condition, choice, chosen)
    return chosen


@lowers(np.isclose)
def _isclose(result: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    x, y = as_array(a), as_array(b)
    # As in NumPy, integers are compared as floats.
    y = y.astype(np.result_type(y.dtype, 1.0))
    is_near = np.abs(x - y) <= atol + rtol * np.abs(y)
    # An infinite limit would make all numbers close to infinity.
    return is_near & np.isfinite(y) | (x == y)


@lowers(np.round, np.around)
def _round(result: Any, a: Any, decimals: Any = 0) -> Any:
    x = as_array(a)
    digits = int(decimals.__index__())
    if x.dtype.kind in "iub":
        if digits < 0:
            refuse("np.round of integers to tens", "x // 10 * 10")
        return x
    scale = 10.0 ** abs(digits)
    # NumPy multiplies and divides by whole powers, as 0.01 is not exact.
    if digits > 0:
        return np.rint(x * scale) / scale
    return np.rint(x / scale) * scale if digits else np.rint(x)


@lowers(np.nan_to_num)
def _nan_to_num(result: Any, x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    values = as_array(x)
    if values.dtype.kind != "f":
        return values
    limits = np.finfo(values.dtype)
    filled = np.where(np.isnan(values), nan, values)
    for infinity, limit, other in (
        (np.inf, limits.max, posinf),
        (-np.inf, limits.min, neginf),
    ):
        filled = np.where(values == infinity, limit if other is None else other, filled)
    if values.dtype == np.float16 and posinf is None and neginf is None:
        # onnxruntime computes float16 as float32, where a number may still be finite that is
        # infinite in NumPy.
        filled = np.clip(filled, limits.min, limits.max)
    return filled


# ---- positions and products ----------------------------------------------------------------------


@lowers(np.argwhere)
def _argwhere(result: Any, a: Any) -> Any:
    return np.stack(np.nonzero(as_array(a)), -1)


@lowers(np.flatnonzero)
def _flatnonzero(result: Any, a: Any) -> Any:
    return np.nonzero(as_array(a).ravel())[0]


@lowers(np.searchsorted)
def _searchsorted(result: Any, a: Any, v: Any, side: str = "left") -> Any:
    """Count the elements before each value."""
    x, y = as_array(a), as_array(v)
    dtype = np.result_type(x.dtype, y.dtype)
    x, y = x.astype(dtype), y.astype(dtype)[..., None]
    before = x < y if side == "left" else x <= y
    # NaN comes last.
    if dtype.kind == "f":
        is_nan = np.isnan(y) if side != "left" else np.isnan(y) & ~np.isnan(x)
        before = before | is_nan
    return before.sum(-1)


@lowers(np.outer)
def _outer(result: Any, a: Any, b: Any) -> Any:
    return as_array(a).ravel()[:, None] * as_array(b).ravel()


@lowers(np.meshgrid)
def _meshgrid(result: Any, *xi: Any, indexing: str = "xy") -> list[Any]:
    vectors = [as_array(x).ravel() for x in xi]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        axes[:2] = 1, 0
    # "xy" swaps the first two; the same swap puts them back.
    shape = [vectors[axis].shape[0] for axis in axes]
    grids = []
    for x, axis in zip(vectors, axes, strict=True):
        sizes = [1] * len(vectors)
        sizes[axis] = x.shape[0]
        grids.append(np.broadcast_to(x.reshape(sizes), shape))
    return grids
