"""NumPy's functions that sort: an order, a value in the middle, distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import (
    add,
    div,
    equal,
    floor,
    greater_equal,
    is_nan,
    maximum,
    minimum,
    mod,
    mul,
    sub,
    where,
)
from pyopnb.lowering.numpy.axes import along
from pyopnb.lowering.numpy.reductions import may_be_empty
from pyopnb.lowering.refusal import current_line, refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import listed
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    constant,
    gather,
    graph,
    node,
    reshape,
    resized,
    served_dtype,
    shape,
    size,
    squeeze,
    vector,
)
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []


def _sorted(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Record a stable ascending sort with NaN last, and its indices."""
    to = x.dtype
    x = cast(x, served_dtype("TopK", to))
    inputs = [x.name, size(x, axis).name]
    values, indices = graph().add("TopK", inputs, 2, current_line(), axis=axis, largest=0)
    ordered = Tensor(values, x.dtype, x.dims)
    return cast(ordered, to), Tensor(indices, INT64, x.dims)


@lowers(np.sort)
def _sort(result: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None) -> Tensor:
    values, _ = _sorted(*along(tensor_of(a), axis))
    return values


@lowers(np.argsort)
def _argsort(result: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None) -> Tensor:
    if kind not in ("stable", "mergesort") and not stable:
        refuse(
            "np.argsort, whose order of equal elements differs between machines",
            'np.argsort(x, kind="stable")',
        )
    _, indices = _sorted(*along(tensor_of(a), axis))
    return indices


# ---- the middle, and quantiles --------------------------------------------------------------------


@lowers(np.median)
def _median(result: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x, at = _one_axis(tensor_of(a), axis, keepdims)
    ordered = _sorted_wide(x, at, result.dtype)
    if may_be_empty(x, [at]) and not graph().finite:
        ordered = _and_nan(ordered, at)
    number = size(x, at)
    last = sub(number, 1)
    # For an odd count, both are the same element.
    low = gather(ordered, div(last, 2), at)
    high = gather(ordered, div(number, 2), at)
    # Adding the middle element to itself could overflow.
    is_odd = equal(mod(number, 2), 1)
    middle = where(is_odd, low, mul(add(low, high), 0.5))
    return _of_sorted(middle, ordered, maximum(last, 0), x, at, result.dtype, keepdims)


def _quantiles(function: Any, whole: float) -> None:
    @lowers(function)
    def lower(
        result: Any,
        a: Any,
        q: Any,
        axis: Any = None,
        keepdims: bool = False,
        method: str = "linear",
    ) -> Tensor:
        return _interpolated(result, a, _fraction(q) / whole, axis, keepdims, method)


_quantiles(np.quantile, 1)
_quantiles(np.percentile, 100)


def _fraction(q: Any) -> float:
    if isinstance(q, (list, tuple, np.ndarray)) and np.ndim(q):
        refuse("several quantiles at once", "np.stack([np.quantile(x, q) for q in (0.1, 0.9)])")
    return float(q)


def _interpolated(result: Any, a: Any, q: float, axis: Any, keepdims: bool, method: str) -> Tensor:
    """Interpolate between two sorted elements, in the steps of NumPy's ``_lerp``."""
    if method != "linear":
        refuse(f"quantiles with method={method!r}", "np.sort(x) and an index")
    x, at = _one_axis(tensor_of(a), axis, keepdims)
    ordered = _sorted_wide(x, at, result.dtype)
    # Positions are float64 in NumPy, whatever the dtype of the array.
    last = sub(size(x, at), 1)
    position = mul(cast(last, np.float64), q)
    below = floor(position)
    weight = sub(position, below)
    first = cast(below, INT64)
    second = minimum(add(first, 1), last)
    low = gather(ordered, first, at)
    high = gather(ordered, second, at)
    step = sub(high, low)
    # Interpolate from the nearer element, which matters if one of them is infinite.
    is_above = greater_equal(weight, 0.5)
    nearer = gather(ordered, where(is_above, second, first), at)
    weight = where(is_above, sub(weight, 1.0), weight)
    between = add(nearer, mul(step, cast(weight, ordered.dtype)))
    return _of_sorted(between, ordered, last, x, at, result.dtype, keepdims)


def _one_axis(x: Tensor, axis: Any, keepdims: bool) -> tuple[Tensor, int]:
    """Return the tensor and the axis to sort along."""
    if axis is None:
        is_several = keepdims
    else:
        is_several = len(listed(axis)) > 1
    if is_several:
        refuse("a median or quantile of several axes", "x.reshape(…) and one axis")
    return along(x, axis)


def _sorted_wide(x: Tensor, axis: int, to: np.dtype) -> Tensor:
    """Sort, and cast to the dtype in which NumPy averages: float16 is averaged as float32."""
    values, _ = _sorted(x, axis)
    return cast(values, np.float64 if to == np.float64 else np.float32)


def _of_sorted(
    tensor: Tensor, ordered: Tensor, last: Tensor, x: Tensor, axis: int, to: Any, keepdims: bool
) -> Tensor:
    """Finish a median or quantile: propagate NaN, and restore the dtype and axes of NumPy's result."""
    if x.dtype.kind == "f" and not graph().finite:
        end = gather(ordered, last, axis)
        tensor = where(is_nan(end), np.nan, tensor)
    tensor = cast(tensor, to)
    if keepdims:
        return tensor
    return squeeze(Tensor(tensor.name, tensor.dtype, resized(x.dims, axis, 1)), [axis])


def _and_nan(x: Tensor, axis: int) -> Tensor:
    """Append a NaN along an axis, so that an index into an empty axis finds one."""
    widths = [0] * (2 * x.ndim)
    widths[x.ndim + axis] = 1
    inputs = [x, vector(*widths), constant(np.nan, x.dtype)]
    return node("Pad", inputs, x.dtype, resized(x.dims, axis, None))


# ---- distinct values ------------------------------------------------------------------------------


@lowers(np.unique)
def _unique(
    result: Any,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> Any:
    x = tensor_of(ar)
    if x.dtype.kind == "f" and not graph().finite:
        refuse(
            "np.unique of floats, which drops NaN in ONNX Runtime",
            "lower(…, finite=True), if there is no NaN",
        )
    if axis is not None:
        refuse("np.unique with axis=")
    wide = cast(x, served_dtype("Unique", x.dtype))
    names = graph().add("Unique", [wide.name], 4, current_line())
    values = cast(Tensor(names[0], wide.dtype, (None,)), x.dtype)
    index = Tensor(names[1], INT64, (None,))
    inverse = Tensor(names[2], INT64, (None,))
    counts = Tensor(names[3], INT64, (None,))
    if return_inverse and x.ndim != 1:
        # Unique flattens, and NumPy's inverse has the shape of the array.
        inverse = reshape(inverse, shape(x), x.dims)
    results = [values]
    if return_index:
        results.append(index)
    if return_inverse:
        results.append(inverse)
    if return_counts:
        results.append(counts)
    if len(results) > 1:
        return results
    return values
