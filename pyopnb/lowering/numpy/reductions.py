"""Rules for the NumPy reductions: sums, means, extremes, counts, and running sums along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import (
    div,
    equal,
    is_nan,
    maximum,
    mul,
    not_,
    sqrt,
    sub,
    where,
)
from pyopnb.lowering.numpy.axes import along, axes_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    cast,
    concat,
    constant,
    count,
    expand,
    graph,
    node,
    reduce,
    reduced_dims,
    reshape,
    scalar_size,
    served,
    served_dtype,
    shape,
    transpose,
    unsqueeze,
    vector,
)
from pyopnb.lowering.tracing import is_traced, tensor_of

__all__ = ["may_be_empty", "sum_of"]


@dataclass(frozen=True)
class _Reduction:
    """A call of a reduction, as its rule sees it.

    Attributes
    ----------
    to : numpy.dtype
        Of the NumPy result.
    """

    x: Tensor
    axes: list[int]
    keepdims: bool
    to: np.dtype

    def reduce(self, op_type: str, x: Tensor) -> Tensor:
        """Reduce a tensor of the same shape along the same axes."""
        return reduce(op_type, x, self.axes, self.keepdims)

    @property
    def calculated(self) -> Tensor:
        """Return the tensor in the dtype in which NumPy takes means, float32 for float16."""
        return cast(self.x, np.float32 if self.to == np.float16 else self.to)

    @property
    def elements(self) -> Tensor:
        """Return the number of elements that are reduced, as a scalar of int64."""
        fixed = count(tuple(self.x.dims[axis] for axis in self.axes))
        if fixed is not None:
            return constant(fixed, INT64)
        if len(self.axes) == self.x.ndim:
            return node("Size", [self.x], INT64, ())
        total = scalar_size(self.x, self.axes[0])
        for axis in self.axes[1:]:
            total = mul(total, scalar_size(self.x, axis))
        return total


_Rule = Callable[[_Reduction], Tensor]


def _reading(result: Any, a: Any, axis: Any, keepdims: bool) -> _Reduction:
    x = tensor_of(a)
    return _Reduction(x, axes_of(axis, x.ndim), keepdims, np.asarray(result).dtype)


def _reduces(*functions: Any) -> Callable[[_Rule], _Rule]:
    """Register a rule for functions that take an axis and ``keepdims``.

    Some of them also take a dtype, which the NumPy result has.
    """

    def register(rule: _Rule) -> _Rule:
        @lowers(*functions)
        def lower(
            result: Any, a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False
        ) -> Tensor:
            # The third argument of np.max and its like is the array for the result.
            if isinstance(dtype, np.ndarray):
                refuse("a reduction into an array", "y[...] = x.max(0)")
            return rule(_reading(result, a, axis, keepdims))

        return rule

    return register


def may_be_empty(x: Tensor, axes: Sequence[int]) -> bool:
    """Tell whether there may be no elements along some axes."""
    return any(not x.dims[axis] for axis in axes)


# ---- sums and products ---------------------------------------------------------------------------


@_reduces(np.sum)
def _sum(call: _Reduction) -> Tensor:
    if call.to.kind == "f":
        return call.reduce("ReduceSum", cast(call.x, call.to))
    # In int64 all sums wrap as they do in narrower integers and in uint64.
    wide = cast(call.x, INT64)
    if call.x.dtype == BOOL or call.x.dtype.itemsize < 4:
        return cast(call.reduce("ReduceSum", wide), call.to)
    return cast(_exact_sum(replace(call, x=wide)), call.to)


def sum_of(x: Tensor, axis: int, to: np.dtype) -> Tensor:
    """Sum along an axis in a given dtype."""
    return _sum(_Reduction(x, [axis], False, to))


def _exact_sum(call: _Reduction) -> Tensor:
    """Add up int64 by a product with ones.

    The onnxruntime ReduceSum adds integers as float64, which is exact to 2**53 only.
    """
    x = call.x
    axes = call.axes
    if not axes:
        return x
    # The axes to be added become the last one, all in one.
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    last = transpose(x, [*kept, *axes])
    total = reshape(call.elements, vector(1), (1,))
    if kept:
        sizes = concat([shape(last, 0, len(kept)), total])
    else:
        sizes = total
    dims = reduced_dims(x, axes, keepdims=False)
    rows = reshape(last, sizes, (*dims, None))
    ones = expand(constant(1, INT64), total, (None,))
    tensor = node("MatMul", [rows, ones], INT64, dims)
    if call.keepdims:
        return unsqueeze(tensor, axes)
    return tensor


@_reduces(np.prod)
def _prod(call: _Reduction) -> Tensor:
    if call.to.kind == "f":
        return call.reduce("ReduceProd", cast(call.x, call.to))
    refuse("a product of integers, which ONNX Runtime rounds", "x.prod(dtype=np.float64)")


# ---- means and deviations ------------------------------------------------------------------------


@_reduces(np.mean)
def _mean(call: _Reduction) -> Tensor:
    mean = call.reduce("ReduceMean", call.calculated)
    return cast(_nan_of_nothing(mean, call), call.to)


def _nan_of_nothing(mean: Tensor, call: _Reduction) -> Tensor:
    """Make a mean of no elements NaN: ONNX leaves that open, and the runtime gives 0."""
    if graph().finite or not may_be_empty(call.x, call.axes):
        return mean
    return where(equal(call.elements, 0), np.nan, mean)


def _deviation(function: Any, finish: Callable[[Tensor], Tensor]) -> None:
    @lowers(function)
    def lower(
        result: Any,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        *,
        ddof: Any = 0,
        keepdims: Any = False,
    ) -> Tensor:
        call = _reading(result, a, axis, keepdims)
        return cast(finish(_variance(call, ddof)), call.to)


_deviation(np.var, lambda variance: variance)
_deviation(np.std, sqrt)


def _variance(call: _Reduction, ddof: Any) -> Tensor:
    x = call.calculated
    centered = sub(x, reduce("ReduceMean", x, call.axes, keepdims=True))
    squares = mul(centered, centered)
    if not is_traced(ddof) and not ddof:
        return _nan_of_nothing(call.reduce("ReduceMean", squares), call)
    # NumPy divides by 0, and not by less, where ddof is above the number of elements.
    divisor = maximum(sub(cast(call.elements, x.dtype), tensor_of(ddof, x.dtype)), 0)
    return div(call.reduce("ReduceSum", squares), divisor)


# ---- extremes ------------------------------------------------------------------------------------


def _extreme(call: _Reduction, op_type: str) -> Tensor:
    """Record a maximum or minimum that propagates NaN."""
    x = call.x
    if x.dtype == BOOL:
        return _of_bools(call, op_type, x)
    wide = served_dtype(op_type, x.dtype)
    tensor = cast(call.reduce(op_type, cast(x, wide)), x.dtype)
    if x.dtype.kind != "f" or not call.axes or graph().finite:
        return tensor
    has_nan = _of_bools(call, "ReduceMax", is_nan(x))
    return where(has_nan, np.nan, tensor)


def _of_bools(call: _Reduction, op_type: str, x: Tensor) -> Tensor:
    # From opset 20 on ReduceMax and ReduceMin take bool.
    if graph().opset >= 20:
        return call.reduce(op_type, x)
    return cast(call.reduce(op_type, cast(x, np.int32)), BOOL)


@_reduces(np.max, np.amax)
def _max(call: _Reduction) -> Tensor:
    return _extreme(call, "ReduceMax")


@_reduces(np.min, np.amin)
def _min(call: _Reduction) -> Tensor:
    return _extreme(call, "ReduceMin")


@_reduces(np.all)
def _all(call: _Reduction) -> Tensor:
    x = cast(call.x, BOOL)
    if may_be_empty(x, call.axes):
        return not_(_any_of(call, not_(x)))
    return _of_bools(call, "ReduceMin", x)


@_reduces(np.any)
def _any(call: _Reduction) -> Tensor:
    x = cast(call.x, BOOL)
    if may_be_empty(x, call.axes):
        return _any_of(call, x)
    return _of_bools(call, "ReduceMax", x)


def _any_of(call: _Reduction, x: Tensor) -> Tensor:
    """Record np.any, also for empty arrays, on which the runtime ReduceMax raises."""
    return cast(call.reduce("ReduceSum", cast(x, np.int32)), BOOL)


def _first_extreme(function: Any, op_type: str) -> None:
    @lowers(function)
    def lower(result: Any, a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        if axis is None and keepdims:
            refuse(f"np.{function.__name__} of all axes with keepdims", "axis=")
        x, at = along(tensor_of(a), axis)
        x = cast(x, served_dtype(op_type, x.dtype))
        position = _position(op_type, x, at, keepdims)
        if x.dtype.kind != "f" or graph().finite:
            return position
        # NumPy gives the position of the first NaN.
        nan = is_nan(x)
        has_nan = _of_bools(_Reduction(x, [at], keepdims, x.dtype), "ReduceMax", nan)
        return where(has_nan, _position("ArgMax", cast(nan, np.int32), at, keepdims), position)


def _position(op_type: str, x: Tensor, axis: int, keepdims: bool) -> Tensor:
    attrs = {}
    if axis:
        attrs["axis"] = axis
    if not keepdims:
        attrs["keepdims"] = 0
    return node(op_type, [x], INT64, reduced_dims(x, [axis], keepdims), **attrs)


_first_extreme(np.argmax, "ArgMax")
_first_extreme(np.argmin, "ArgMin")


# ---- counts and running sums ---------------------------------------------------------------------


@_reduces(np.count_nonzero)
def _count_nonzero(call: _Reduction) -> Tensor:
    return call.reduce("ReduceSum", cast(cast(call.x, BOOL), INT64))


@lowers(np.cumsum)
def _cumsum(result: Any, a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    to = result.dtype
    # In int64 all sums wrap as they do in narrower integers and in uint64.
    if served("CumSum", to):
        wide = to
    else:
        wide = INT64
    x, at = along(cast(tensor_of(a, to), wide), axis)
    return cast(node("CumSum", [x, constant(at, INT64)], wide, x.dims), to)
