"""NumPy's reductions: sums, means, extremes, and what is counted or added up along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.ufuncs import is_nan, same_kind
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    cast,
    concat,
    constant,
    elementwise,
    expand,
    gather,
    graph,
    node,
    reduce,
    reshape,
    served,
    shape,
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from pyopnb.lowering.tracing import is_traced, tensor_of

__all__ = ["axes_of", "elements", "may_be_empty", "sum_of"]


def axes_of(axis: Any, ndim: int) -> list[int]:
    """List the axes of an argument ``axis``; all where it is None."""
    if axis is None:
        return list(range(ndim))
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    return sorted(
        int(np.lib.array_utils.normalize_axis_index(_whole(item), ndim)) for item in listed
    )


def _whole(axis: Any) -> int:
    return int(axis.__index__())


def sum_of(x: Tensor, axes: Sequence[int], keepdims: bool, dtype: Any) -> Tensor:
    """Add up along some axes in a dtype."""
    to = np.dtype(dtype)
    if to.kind == "f":
        return reduce("ReduceSum", cast(x, to), axes, keepdims)
    # In int64 all sums wrap as they do in narrower integers and in uint64.
    wide = cast(x, np.int64)
    if x.dtype.kind == "b" or x.dtype.itemsize < 4:
        return cast(reduce("ReduceSum", wide, axes, keepdims), to)
    return cast(_exact_sum(wide, axes, keepdims), to)


def _exact_sum(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Add up int64 by a product with ones: onnxruntime's ReduceSum adds integers as float64, exact to 2**53 only."""
    if not axes:
        return x
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    last = transpose(x, [*kept, *axes])
    sizes = shape(last, 0, len(kept))
    total = reshape(elements(x, axes, INT64), constant(np.array([1])), (1,))
    dims = tuple(x.dims[axis] for axis in kept)
    rows = reshape(last, concat([sizes, total]) if kept else total, (*dims, None))
    ones = expand(constant(np.int64(1)), total, (None,))
    tensor = node("MatMul", [rows, ones], INT64, dims)
    return unsqueeze(tensor, list(axes)) if keepdims else tensor


@lowers(np.sum)
def _sum(
    result: Any, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    x = tensor_of(a)
    return sum_of(x, axes_of(axis, x.ndim), _flag(keepdims), np.asarray(result).dtype)


def _flag(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


@lowers(np.prod)
def _prod(
    result: Any, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    x, to = tensor_of(a), np.asarray(result).dtype
    axes = axes_of(axis, x.ndim)
    if to.kind != "f":
        return cast(_product_of_integers(cast(x, np.int64), axes, _flag(keepdims)), to)
    return reduce("ReduceProd", cast(x, to), axes, _flag(keepdims))


_MOST_FACTORS = 16


def _product_of_integers(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Multiply slice by slice: onnxruntime's ReduceProd multiplies integers as float64, and does not wrap."""
    for axis in axes:
        size = x.dims[axis]
        if size is None or not 0 < size <= _MOST_FACTORS:
            refuse("a product of integers along a size that can change", "x.prod(dtype=np.float64)")
        slices = [gather(x, constant(np.array([position])), axis) for position in range(size)]
        x = slices[0]
        for factor in slices[1:]:
            x = elementwise("Mul", x, factor)
    return x if keepdims else squeeze(x, list(axes))


def _calculated(x: Tensor, result: Any) -> tuple[Tensor, np.dtype]:
    """Cast to the dtype in which NumPy takes means; return the result's as well."""
    to = np.asarray(result).dtype
    return cast(x, np.float32 if to == np.float16 else to), to


@lowers(np.mean)
def _mean(
    result: Any, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    x, to = _calculated(tensor_of(a), result)
    axes = axes_of(axis, x.ndim)
    return cast(_nan_of_nothing(x, axes, reduce("ReduceMean", x, axes, _flag(keepdims))), to)


def may_be_empty(x: Tensor, axes: Sequence[int]) -> bool:
    """Tell whether there may be no elements along some axes."""
    return any(not x.dims[axis] for axis in axes)


def _nan_of_nothing(x: Tensor, axes: Sequence[int], mean: Tensor) -> Tensor:
    """Make a mean of no elements NaN: ONNX leaves that open, and the runtime gives 0."""
    if graph().finite or not may_be_empty(x, axes):
        return mean
    nothing = elementwise("Equal", elements(x, axes, INT64), constant(0, INT64), dtype=bool)
    return where(nothing, constant(np.nan, mean.dtype), mean)


@lowers(np.average)
def _average(result: Any, a: Any, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _mean(result, a, axis, None, keepdims)


def elements(x: Tensor, axes: Sequence[int], dtype: Any) -> Tensor:
    """Record the number of elements that are reduced, as a scalar."""
    sizes = [x.dims[axis] for axis in axes]
    if None not in sizes:
        return constant(np.prod([size or 0 for size in sizes]), dtype)
    if len(axes) == x.ndim:
        return cast(node("Size", [x], INT64, ()), dtype)
    parts = [squeeze(shape(x, axis, axis + 1), [0]) for axis in axes]
    total = parts[0]
    for part in parts[1:]:
        total = elementwise("Mul", total, part)
    return cast(total, dtype)


def _variance(x: Tensor, axes: Sequence[int], keepdims: bool, ddof: Any) -> Tensor:
    centred = elementwise("Sub", x, reduce("ReduceMean", x, axes, True))
    squares = elementwise("Mul", centred, centred)
    if not is_traced(ddof) and not ddof:
        return _nan_of_nothing(x, axes, reduce("ReduceMean", squares, axes, keepdims))
    entire, less = elements(x, axes, x.dtype), tensor_of(ddof, x.dtype)
    if entire.const is not None and less.const is not None:
        count = constant(np.maximum(entire.const - less.const, 0), x.dtype)
    else:
        count = elementwise("Max", elementwise("Sub", entire, less), constant(0, x.dtype))
    return elementwise("Div", reduce("ReduceSum", squares, axes, keepdims), count)


@lowers(np.var)
def _var(
    result: Any, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    x, to = _calculated(tensor_of(a), result)
    return cast(_variance(x, axes_of(axis, x.ndim), _flag(keepdims), ddof), to)


@lowers(np.std)
def _std(
    result: Any, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    x, to = _calculated(tensor_of(a), result)
    return cast(elementwise("Sqrt", _variance(x, axes_of(axis, x.ndim), _flag(keepdims), ddof)), to)


# ---- extremes ----------------------------------------------------------------------------------------------------------------


def _extreme(x: Tensor, op_type: str, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Record the largest or smallest, NaN where there is one."""
    if x.dtype == BOOL:
        return _of_bools(x, op_type, axes, keepdims)
    if not served(op_type, x.dtype):
        wide = np.dtype(np.int32 if x.dtype.itemsize < 4 else np.int64)
        if x.dtype == np.uint64:
            refuse(
                f"an extreme of {x.dtype}, for which ONNX Runtime has no kernel",
                "x.astype(np.int64)",
            )
        return cast(reduce(op_type, cast(x, wide), axes, keepdims), x.dtype)
    tensor = reduce(op_type, x, axes, keepdims)
    if x.dtype.kind != "f" or not axes or graph().finite:
        return tensor
    return where(
        _of_bools(is_nan(x), "ReduceMax", axes, keepdims), constant(np.nan, x.dtype), tensor
    )


def _of_bools(x: Tensor, op_type: str, axes: Sequence[int], keepdims: bool) -> Tensor:
    if graph().opset >= 20:  # from which on the two take bool
        return reduce(op_type, x, axes, keepdims)
    return cast(reduce(op_type, cast(x, np.int32), axes, keepdims), bool)


def _extremes(function: Any, op_type: str) -> None:
    @lowers(function)
    def lower(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = tensor_of(a)
        return _extreme(x, op_type, axes_of(axis, x.ndim), _flag(keepdims))


for _function, _op in {
    np.max: "ReduceMax",
    np.amax: "ReduceMax",
    np.min: "ReduceMin",
    np.amin: "ReduceMin",
}.items():
    _extremes(_function, _op)


@lowers(np.ptp)
def _ptp(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor_of(a)
    stops = (
        _extreme(x, op_type, axes_of(axis, x.ndim), _flag(keepdims))
        for op_type in ("ReduceMax", "ReduceMin")
    )
    return same_kind("Sub", *stops)


@lowers(np.all)
def _all(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor_of(a, bool)
    axes = axes_of(axis, x.ndim)
    if may_be_empty(x, axes):
        return elementwise("Not", _any_of(elementwise("Not", x), axes, _flag(keepdims)))
    return _of_bools(x, "ReduceMin", axes, _flag(keepdims))


@lowers(np.any)
def _any(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor_of(a, bool)
    axes = axes_of(axis, x.ndim)
    if may_be_empty(x, axes):
        return _any_of(x, axes, _flag(keepdims))
    return _of_bools(x, "ReduceMax", axes, _flag(keepdims))


def _any_of(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Tell whether one is true, also among none, for which the runtime's ReduceMax raises."""
    return cast(reduce("ReduceSum", cast(x, np.int32), axes, keepdims), bool)


def _first_extreme(function: Any, op_type: str) -> None:
    @lowers(function)
    def lower(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = tensor_of(a)
        if axis is None:
            x = reshape(x, constant(np.array([-1])), (None,)) if x.ndim != 1 else x
            if _flag(keepdims):
                refuse(f"np.{function.__name__} of all axes with keepdims", "axis=")
        at = 0 if axis is None else axes_of(axis, x.ndim)[0]
        if not served(op_type, x.dtype):
            if x.dtype == np.uint64:
                refuse(
                    f"np.{function.__name__} of {x.dtype}, for which ONNX Runtime has no kernel",
                    "x.astype(np.int64)",
                )
            x = cast(x, np.int32 if x.dtype.itemsize < 4 else np.int64)
        tensor = _arg(op_type, x, at, _flag(keepdims))
        if x.dtype.kind != "f" or graph().finite:
            return tensor
        nan = is_nan(x)  # NumPy gives the first
        first = _arg("ArgMax", cast(nan, np.int32), at, _flag(keepdims))
        return where(_of_bools(nan, "ReduceMax", [at], _flag(keepdims)), first, tensor)


def _arg(op_type: str, x: Tensor, axis: int, keepdims: bool) -> Tensor:
    dims = tuple(
        1 if position == axis else size
        for position, size in enumerate(x.dims)
        if keepdims or position != axis
    )
    attrs = ({"axis": axis} if axis else {}) | ({} if keepdims else {"keepdims": 0})
    return node(op_type, [x], INT64, dims, **attrs)


_first_extreme(np.argmax, "ArgMax")
_first_extreme(np.argmin, "ArgMin")


# ---- counts and running sums -------------------------------------------------------------------------------------------------


@lowers(np.count_nonzero)
def _count_nonzero(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor_of(a, bool)
    return reduce("ReduceSum", cast(x, np.int64), axes_of(axis, x.ndim), _flag(keepdims))


@lowers(np.cumsum)
def _cumsum(result: Any, a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    to = np.asarray(result).dtype
    # In int64 all sums wrap as they do in narrower integers and in uint64.
    wide = to if served("CumSum", to) else np.dtype(np.int64)
    x = cast(tensor_of(a, to), wide)
    if axis is None and x.ndim != 1:
        x = reshape(x, constant(np.array([-1])), (None,))
    at = 0 if axis is None else axes_of(axis, x.ndim)[0]
    return cast(node("CumSum", [x, constant(np.int64(at))], wide, x.dims), to)


def _skipping_nan(function: Any, fill: float, plainly: Any) -> None:
    @lowers(function)
    def lower(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = tensor_of(a)
        filled = where(is_nan(x), constant(fill, x.dtype), x) if x.dtype.kind == "f" else x
        axes = axes_of(axis, x.ndim)
        if function is np.nansum:
            return sum_of(filled, axes, _flag(keepdims), np.asarray(result).dtype)
        tensor = reduce(plainly, filled, axes, _flag(keepdims))
        if x.dtype.kind != "f":
            return tensor
        return where(
            _of_bools(is_nan(x), "ReduceMin", axes, _flag(keepdims)),
            constant(np.nan, x.dtype),
            tensor,
        )


_skipping_nan(np.nansum, 0.0, None)
_skipping_nan(np.nanmax, -np.inf, "ReduceMax")
_skipping_nan(np.nanmin, np.inf, "ReduceMin")


@lowers(np.nanmean)
def _nanmean(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x, to = _calculated(tensor_of(a), result)
    nan, axes = is_nan(x), axes_of(axis, x.ndim)
    total = reduce("ReduceSum", where(nan, constant(0, x.dtype), x), axes, _flag(keepdims))
    count = reduce("ReduceSum", cast(elementwise("Not", nan), x.dtype), axes, _flag(keepdims))
    return cast(elementwise("Div", total, count), to)
