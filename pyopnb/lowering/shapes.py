"""NumPy's functions that arrange elements: shapes, axes, joining, splitting, repeating, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.lowering.dispatch import lowers
from pyopnb.lowering.reductions import axes_of
from pyopnb.lowering.refusal import refuse
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
    elementwise,
    expand,
    gather,
    node,
    reshape,
    shape,
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from pyopnb.lowering.values import Number, Traced, plain, tensor_of

__all__ = ["broadcast_shape", "flat", "shape_vector", "sliced", "wide_for"]


def shape_vector(sizes: Any) -> tuple[Tensor, Dims]:
    """A shape that the user gives as a vector, and what is known of it; -1 is not known."""
    if type(sizes) is Traced and sizes.ndim:
        return cast(sizes.tensor, INT64), (None,) * int(np.size(sizes.value))
    listed = list(sizes) if isinstance(sizes, (tuple, list)) else [sizes]
    dims = tuple(None if type(size) in (Number, Traced) else _known(size) for size in listed)
    parts: list[Tensor] = []
    place = 0
    while place < len(listed):
        run = _run(listed, place)
        parts.append(_part(listed[place : place + run]))
        place += run
    return (concat(parts) if parts else constant(np.zeros(0, np.int64))), dims


def _known(size: Any) -> int | None:
    return int(size.__index__()) if size.__index__() >= 0 else None


def _run(sizes: Sequence[Any], at: int) -> int:
    """How many sizes from a place on are one part: constants, or neighbouring axes of one tensor."""
    if type(sizes[at]) not in (Number, Traced):
        return next((n for n, size in enumerate(sizes[at:]) if type(size) in (Number, Traced)), len(sizes) - at)
    origin = sizes[at].origin if type(sizes[at]) is Number else None
    run = 1
    while origin is not None and at + run < len(sizes):
        following = sizes[at + run]
        other = following.origin if type(following) is Number else None
        if other is None or other[0] is not origin[0] or other[1] != origin[1] + run:
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
    """As a vector."""
    return x if x.ndim == 1 else reshape(x, constant(np.array([-1])), (count(x.dims),))


def broadcast_shape(*tensors: Tensor) -> tuple[Tensor, Dims]:
    """The common shape of tensors as a vector."""
    dims = broadcast(*(x.dims for x in tensors))
    if None not in dims:
        return constant(np.array(dims, np.int64)), dims
    largest = [x for x in tensors if x.dims == dims]
    if largest and all(x is largest[0] or set(x.dims) <= {1} for x in tensors):
        return shape(largest[0]), dims
    total = None
    for x in tensors:
        zero = cast(elementwise("Not", elementwise("Equal", *[cast(x, bool)] * 2, dtype=bool)), np.int32)
        total = zero if total is None else elementwise("Add", total, zero)
    return shape(total), dims  # type: ignore[arg-type]  # there are tensors


# ---- shapes and axes ---------------------------------------------------------------------------------------------------------


@lowers(np.reshape)
def _reshape(result: Any, a: Any, shape: Any = None, newshape: Any = None) -> Tensor:
    x = tensor_of(a)
    to, dims = shape_vector(newshape if shape is None else shape)
    known = math.prod(size for size in dims if size is not None)
    if None not in x.dims and dims.count(None) == 1 and known:
        rest = (count(x.dims) or 0) // known
        dims = tuple(rest if size is None else size for size in dims)
    return reshape(x, to, dims)


@lowers(np.ravel)
def _ravel(result: Any, a: Any, order: str = "C") -> Tensor:
    return flat(tensor_of(a))


@lowers(np.transpose)
def _transpose(result: Any, a: Any, axes: Any = None) -> Tensor:
    x = tensor_of(a)
    order = range(x.ndim)[::-1] if axes is None else [int(axis.__index__()) % x.ndim for axis in axes]
    return transpose(x, list(order))


@lowers(np.swapaxes)
def _swapaxes(result: Any, a: Any, axis1: Any, axis2: Any) -> Tensor:
    x = tensor_of(a)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order)


@lowers(np.moveaxis)
def _moveaxis(result: Any, a: Any, source: Any, destination: Any) -> Tensor:
    x = tensor_of(a)
    order = np.moveaxis(np.arange(x.ndim).reshape((1,) * 0 + (x.ndim,)), 0, 0).tolist()
    listed = [(each if isinstance(each, (tuple, list)) else (each,)) for each in (source, destination)]
    moved = [int(axis) % x.ndim for axis in listed[0]]
    order = [axis for axis in order if axis not in moved]
    for to, axis in sorted(zip((int(axis) % x.ndim for axis in listed[1]), moved, strict=True)):
        order.insert(to, axis)
    return transpose(x, order)


@lowers(np.expand_dims)
def _expand_dims(result: Any, a: Any, axis: Any) -> Tensor:
    x = tensor_of(a)
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    return unsqueeze(x, [int(each) % np.ndim(result) for each in listed])


@lowers(np.squeeze)
def _squeeze(result: Any, a: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        if None in x.dims:
            refuse("np.squeeze of axes that may or may not have size 1", "np.squeeze(x, axis)")
        return squeeze(x, [place for place, size in enumerate(x.dims) if size == 1])
    return squeeze(x, axes_of(axis, x.ndim))


@lowers(np.atleast_1d)
def _atleast_1d(result: Any, a: Any) -> Tensor:
    x = tensor_of(a)
    return x if x.ndim else unsqueeze(x, [0])


@lowers(np.atleast_2d)
def _atleast_2d(result: Any, a: Any) -> Tensor:
    x = tensor_of(a)
    return x if x.ndim > 1 else unsqueeze(x, [0] if x.ndim else [0, 1])


@lowers(np.broadcast_to)
def _broadcast_to(result: Any, array: Any, shape: Any) -> Tensor:
    to, dims = shape_vector(shape)
    return expand(tensor_of(array), to, dims)


@lowers(np.broadcast_arrays)
def _broadcast_arrays(result: Any, *arrays: Any) -> list[Tensor]:
    tensors = [tensor_of(array) for array in arrays]
    to, dims = broadcast_shape(*tensors)
    return [expand(x, to, dims) for x in tensors]


# ---- joining and splitting ---------------------------------------------------------------------------------------------------


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
    """A part along an axis; begin and end are vectors of one."""
    dims = tuple(size if place == axis else each for place, each in enumerate(x.dims))
    return node("Slice", [x, begin, end, constant(np.array([axis]))], x.dtype, dims)


@lowers(np.split, np.array_split)
def _split(result: Any, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    x = tensor_of(ary)
    at = axes_of(axis, x.ndim)[0]
    if isinstance(plain(indices_or_sections), (int, np.integer)):
        if x.dims[at] is None:
            return _equal_parts(x, int(indices_or_sections), at)
        ends = np.cumsum([part.shape[at] for part in result]).tolist()[:-1]
    else:
        ends = list(indices_or_sections)
    bounds = [shape_vector([end])[0] for end in [0, *ends, np.iinfo(np.int64).max]]
    sizes = [part.shape[at] if x.dims[at] is not None else None for part in result]
    return [sliced(x, at, a, b, n) for a, b, n in zip(bounds[:-1], bounds[1:], sizes, strict=True)]


def _equal_parts(x: Tensor, parts: int, axis: int) -> list[Tensor]:
    size = elementwise("Div", shape(x, axis, axis + 1), constant(np.array([parts])))
    bounds = [elementwise("Mul", size, constant(np.array([n]))) for n in range(parts + 1)]
    if x.dims[axis] is None:
        # np.split refuses sizes that are no multiple, and np.array_split makes the first parts larger by one.
        total = shape(x, axis, axis + 1)
        rest = elementwise("Sub", total, bounds[-1])
        bounds = [
            elementwise("Add", bound, elementwise("Min", rest, constant(np.array([n])))) for n, bound in enumerate(bounds)
        ]
    return [sliced(x, axis, a, b, None) for a, b in pairwise(bounds)]


for _function, _axis in {np.vsplit: 0, np.hsplit: 1}.items():

    @lowers(_function)
    def _split_along(result: Any, ary: Any, indices_or_sections: Any, _axis: int = _axis) -> list[Tensor]:
        at = 0 if np.ndim(plain(ary)) == 1 else _axis
        return _split(result, ary, indices_or_sections, at)


# ---- repeating, turning, padding ---------------------------------------------------------------------------------------------


@lowers(np.tile)
def _tile(result: Any, A: Any, reps: Any) -> Tensor:  # noqa: N803  # NumPy's name
    x = tensor_of(A)
    if type(reps) is Traced and reps.ndim:
        refuse("np.tile with numbers that depend on values", "np.tile(x, (2, 1))")
    reps = reps.tolist() if type(reps) is np.ndarray else reps
    listed = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    rank = max(x.ndim, len(listed))
    x = unsqueeze(x, list(range(rank - x.ndim)))
    listed = [1] * (rank - len(listed)) + listed
    known = [None if type(n) in (Number, Traced) or d is None else int(n) * d for n, d in zip(listed, x.dims, strict=True)]
    wide = wide_for(x)
    return cast(node("Tile", [wide, shape_vector(listed)[0]], wide.dtype, tuple(known)), x.dtype)


def wide_for(x: Tensor) -> Tensor:
    """A bool as an integer, for operators whose kernels take no bool."""
    return cast(x, np.uint8) if x.dtype == BOOL else x


@lowers(np.repeat)
def _repeat(result: Any, a: Any, repeats: Any, axis: Any = None) -> Tensor:
    if np.ndim(plain(repeats)):
        refuse("np.repeat with a number for each element", "np.take(x, indices)")
    x = tensor_of(a)
    x, at = (flat(x), 0) if axis is None else (x, axes_of(axis, x.ndim)[0])
    once = [1] * (x.ndim + 1)
    once[at + 1] = repeats
    tiled = _tile(np.empty((0,) * (x.ndim + 1)), Traced(np.empty((0,) * (x.ndim + 1), x.dtype), unsqueeze(x, [at + 1])), once)
    size = x.dims[at]
    known = None if size is None or type(repeats) in (Number, Traced) else size * int(repeats)
    # Not -1, which is no size where another one is 0.
    along = (
        constant(np.array([known]))
        if known is not None
        else elementwise("Mul", shape(x, at, at + 1), shape_vector([repeats])[0])
    )
    parts = [shape(x, 0, at)] * (at > 0) + [along] + [shape(x, at + 1)] * (at + 1 < x.ndim)
    return reshape(tiled, concat(parts), tuple(known if place == at else size for place, size in enumerate(x.dims)))


@lowers(np.flip)
def _flip(result: Any, m: Any, axis: Any = None) -> Tensor:
    x = tensor_of(m)
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x
    least = np.iinfo(np.int64).min
    bounds = ([-1] * len(axes), [least] * len(axes), axes, [-1] * len(axes))
    return node("Slice", [x, *(constant(np.array(each, np.int64)) for each in bounds)], x.dtype, x.dims)


@lowers(np.fliplr)
def _fliplr(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 1)


@lowers(np.flipud)
def _flipud(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 0)


@lowers(np.roll)
def _roll(result: Any, a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        rolled = _rolled(flat(x), shift, 0)
        return reshape(rolled, shape(x), x.dims)
    shifts, axes = (each if isinstance(each, (tuple, list)) else (each,) for each in (shift, axis))
    for by, at in np.broadcast(np.array(shifts, object), np.array(axes, object)):
        x = _rolled(x, by, axes_of(at, x.ndim)[0])
    return x


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    """The end of an axis in front of its beginning; a shift beyond the size goes round."""
    size = shape(x, axis, axis + 1)
    safe = size if size.const is not None and size.const.all() else elementwise("Max", size, constant(np.array([1])))
    by = shape_vector([shift])[0]
    at = constant(-by.const % size.const) if by.const is not None and safe is size and size.const is not None else None
    at = at or elementwise("Mod", elementwise("Neg", by), safe)
    end = constant(np.array([np.iinfo(np.int64).max]))
    parts = [sliced(x, axis, at, end, None), sliced(x, axis, constant(np.array([0])), at, None)]
    joined = concat(parts, axis)
    return Tensor(joined.name, joined.dtype, x.dims)


@lowers(np.rot90)
def _rot90(result: Any, m: Any, k: Any = 1, axes: Any = (0, 1)) -> Tensor:
    x = tensor_of(m)
    one, two = (int(axis) % x.ndim for axis in axes)
    order = list(range(x.ndim))
    order[one], order[two] = two, one

    def flipped(x: Tensor, axis: int) -> Tensor:
        return _flip(result, Traced(np.empty((0,) * x.ndim), x), axis)

    turns = int(k.__index__()) % 4
    if turns == 2:
        return flipped(flipped(x, one), two)
    return x if not turns else transpose(flipped(x, two), order) if turns == 1 else flipped(transpose(x, order), two)


@lowers(np.pad)
def _pad(result: Any, array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    x = tensor_of(array)
    if mode not in ("constant", "edge", "reflect", "wrap"):
        refuse(f"np.pad with mode={mode!r}", 'mode="constant", "edge", "reflect" or "wrap"')
    widths = _pad_widths(pad_width, x.ndim)
    vector = shape_vector([width for side in zip(*widths, strict=True) for width in side])[0]
    dims = tuple(
        None if size is None or any(type(w) in (Number, Traced) for w in pair) else size + sum(map(int, pair))
        for size, pair in zip(x.dims, widths, strict=True)
    )
    wide = wide_for(x)
    inputs: list[Tensor] = [wide, vector]
    if mode == "constant":
        if np.ndim(plain(constant_values)):
            refuse("np.pad with several constants", "constant_values=c, once for each axis")
        inputs.append(cast(tensor_of(constant_values, x.dtype), wide.dtype))
    return cast(node("Pad", inputs, wide.dtype, dims, **({} if mode == "constant" else {"mode": mode})), x.dtype)


def _pad_widths(width: Any, ndim: int) -> list[tuple[Any, Any]]:
    if type(width) is Traced:
        refuse("np.pad with widths that depend on values")
    width = width.tolist() if type(width) is np.ndarray else width
    if not isinstance(width, (tuple, list)):
        return [(width, width)] * ndim
    if all(isinstance(each, (tuple, list)) for each in width):
        pairs = [tuple(each) * (3 - len(each)) if len(each) == 1 else tuple(each) for each in width]
        return pairs * ndim if len(pairs) == 1 else pairs
    return [tuple(width) * (1 if len(width) == 2 else 2)] * ndim


@lowers(np.tril)
def _tril(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, 0)


@lowers(np.triu)
def _triu(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, 1)


def _triangle(x: Tensor, k: Any, upper: int) -> Tensor:
    wide = x if x.dtype in (np.float32, np.float64, np.int64, BOOL, np.float16) else cast(x, np.int64)
    inputs = [wide] if type(k) is int and k == 0 else [wide, tensor_of(k, INT64)]
    return cast(node("Trilu", inputs, wide.dtype, x.dims, **({} if upper else {"upper": 0})), x.dtype)


@lowers(np.diagonal)
def _diagonal(result: Any, a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    x = tensor_of(a)
    one, two = axis1 % x.ndim, axis2 % x.ndim
    order = [axis for axis in range(x.ndim) if axis not in (one, two)] + [one, two]
    x = transpose(x, order)
    by = tensor_of(offset, INT64)
    rows, columns = (squeeze(shape(x, axis, axis + 1), [0]) for axis in (x.ndim - 2, x.ndim - 1))
    zero = constant(0, INT64)
    first, beside = (elementwise("Max", elementwise("Neg", by), zero), elementwise("Max", by, zero))
    length = elementwise("Min", elementwise("Sub", rows, first), elementwise("Sub", columns, beside))
    steps = node("Range", [zero, elementwise("Max", length, zero), constant(1, INT64)], INT64, (None,))
    at = elementwise("Add", elementwise("Mul", elementwise("Add", steps, first), columns), elementwise("Add", steps, beside))
    cells = elementwise("Mul", shape(x, x.ndim - 2, x.ndim - 1), shape(x, x.ndim - 1))
    lines = reshape(x, concat([shape(x, 0, x.ndim - 2), cells] if x.ndim > 2 else [cells]), (*x.dims[:-2], None))
    return gather(lines, at, x.ndim - 2)


@lowers(np.diag)
def _diag(result: Any, v: Any, k: Any = 0) -> Tensor:
    x = tensor_of(v)
    if x.ndim == 2:
        return _diagonal(result, v, k)
    if type(k) is not int or k:
        refuse("np.diag of a vector with k=", "np.diag(x)")
    n = shape(x, 0, 1)
    like = node("ConstantOfShape", [concat([n, n])], np.int32, (None, None), value=_zero(np.int32))
    eye = cast(node("EyeLike", [like], np.int32, (None, None)), bool)
    return where(eye, x, constant(0, x.dtype))


def _zero(dtype: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.zeros(1, dtype))


@lowers(np.trace)
def _trace(result: Any, a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    from pyopnb.lowering.reductions import sum_of

    made = _diagonal(result, a, offset, axis1, axis2)
    return sum_of(made, [made.ndim - 1], False, np.asarray(result).dtype)


@lowers(np.diff)
def _diff(result: Any, a: Any, n: Any = 1, axis: Any = -1) -> Tensor:
    x = tensor_of(a)
    at, limit = axes_of(axis, x.ndim)[0], np.iinfo(np.int64).max
    for _ in range(int(n.__index__())):
        whole = x.dims[at]
        size = whole and whole - 1
        ahead = sliced(x, at, constant(np.array([1])), constant(np.array([limit])), size)
        behind = sliced(x, at, constant(np.array([0])), constant(np.array([-1])), size)
        if x.dtype == BOOL:
            x = elementwise("Xor", ahead, behind)
        else:
            x = elementwise("Sub", ahead, behind)
    return x


@lowers(np.meshgrid)
def _meshgrid(result: Any, *xi: Any, indexing: str = "xy", sparse: bool = False) -> list[Tensor]:
    vectors = [flat(tensor_of(x)) for x in xi]
    rank = len(vectors)
    places = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    grids = [unsqueeze(x, [axis for axis in range(rank) if axis != at]) for x, at in zip(vectors, places, strict=True)]
    if sparse:
        return grids
    sizes = [shape(vectors[places.index(axis)]) for axis in range(rank)]
    dims = tuple(vectors[places.index(axis)].dims[0] for axis in range(rank))
    return [expand(grid, concat(sizes), dims) for grid in grids]


@lowers(np.shape)
def _shape(result: Any, a: Any) -> Any:
    return a.shape


@lowers(np.ndim)
def _ndim(result: Any, a: Any) -> Any:
    return result


@lowers(np.size)
def _size(result: Any, a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


@lowers(np.copy)
def _copy(result: Any, a: Any) -> Tensor:
    return tensor_of(a)
