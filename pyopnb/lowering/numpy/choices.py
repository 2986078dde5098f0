"""NumPy's functions that choose between values, and limit them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import (
    absolute,
    add,
    and_,
    equal,
    is_nan,
    less,
    less_equal,
    maximum,
    minimum,
    mul,
    or_,
    sub,
    where,
)
from pyopnb.lowering.numpy.lookups import nonzero_indices
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import INT64, Tensor, cast, constant, node, served
from pyopnb.lowering.tracing import plain, tensor_of

__all__: list[str] = []


@lowers(np.where)
def _where(result: Any, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None:
        return nonzero_indices(tensor_of(condition))
    mask = tensor_of(condition, bool)
    return where(mask, tensor_of(x, result.dtype), tensor_of(y, result.dtype))


@lowers(np.select)
def _select(result: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    tensor = tensor_of(default, result.dtype)
    # The first true condition wins, so it is applied last.
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        mask = tensor_of(condition, bool)
        tensor = where(mask, tensor_of(choice, result.dtype), tensor)
    return tensor


# ---- limits ---------------------------------------------------------------------------------------


@lowers(np.clip)
def _clip(
    result: Any, a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None
) -> Tensor:
    x = tensor_of(a, result.dtype)
    least = _bound(min if a_min is None else a_min, x.dtype)
    most = _bound(max if a_max is None else a_max, x.dtype)
    if _is_number(least) and _is_number(most) and served("Clip", x.dtype):
        return node("Clip", [x, least, most], x.dtype, x.dims)
    # Clip with one bound makes infinity finite, and with a NaN for a bound it ignores that.
    if least is not None:
        x = maximum(x, least)
    if most is not None:
        x = minimum(x, most)
    return x


def _is_number(bound: Tensor | None) -> bool:
    """Tell whether Clip can take a bound: a constant scalar other than NaN."""
    if bound is None or bound.const is None or bound.ndim:
        return False
    return not np.isnan(bound.const)


def _bound(value: Any, dtype: np.dtype) -> Tensor | None:
    """Cast a bound to the clipped dtype, saturating Python ints beyond its range."""
    if value is None:
        return None
    if type(plain(value)) is not int or dtype.kind not in "iu":
        return tensor_of(value, dtype)
    limits = np.iinfo(dtype)
    if type(value) is int:
        return constant(min(max(value, limits.min), limits.max), dtype)
    # The value of an attr or a size, which is known where the function runs.
    within = np.iinfo(np.int64)
    low = max(limits.min, within.min)
    high = min(limits.max, within.max)
    return cast(minimum(maximum(tensor_of(value, INT64), low), high), dtype)


@lowers(np.nan_to_num)
def _nan_to_num(
    result: Any, x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    tensor = tensor_of(x)
    if tensor.dtype.kind != "f":
        return tensor
    limits = np.finfo(tensor.dtype)
    if posinf is None:
        high = limits.max
    else:
        high = posinf
    if neginf is None:
        low = limits.min
    else:
        low = neginf
    recorded = where(is_nan(tensor), tensor_of(nan, tensor.dtype), tensor)
    for infinity, bound in ((np.inf, high), (-np.inf, low)):
        replacement = tensor_of(bound, tensor.dtype)
        recorded = where(equal(tensor, infinity), replacement, recorded)
    if tensor.dtype == np.float16 and posinf is None and neginf is None:
        # onnxruntime computes float16 as float32, in which what NumPy makes infinite may still be finite.
        bounds = [constant(limits.min), constant(limits.max)]
        recorded = node("Clip", [recorded, *bounds], recorded.dtype, recorded.dims)
    return recorded


# ---- closeness ------------------------------------------------------------------------------------


@lowers(np.isclose)
def _isclose(result: Any, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
    dtype = _dtype_of_closeness(a, b)
    x = tensor_of(a, dtype)
    y = tensor_of(b, dtype)
    limit = add(float(atol), mul(float(rtol), absolute(y)))
    is_near = less_equal(absolute(sub(x, y)), limit)
    # An infinite limit would make all numbers close to infinity.
    is_finite = less(absolute(y), np.inf)
    return or_(and_(is_near, is_finite), equal(x, y))


def _dtype_of_closeness(a: Any, b: Any) -> np.dtype:
    """Return the float dtype in which np.isclose compares: a Python number takes that of the other side."""
    if type(plain(b)) in (int, float, bool):
        return np.result_type(plain(a), 1.0)
    return np.result_type(np.asarray(plain(b)).dtype, 1.0, plain(a))
