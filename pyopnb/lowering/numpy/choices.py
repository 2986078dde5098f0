"""NumPy functions that choose between values, and limit them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import maximum, minimum, where
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


# ---- limits --------------------------------------------------------------------------------------


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
