"""QuantizeLinear, with everything that is too large saturated."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper

__all__ = ["quantize_linear"]


def quantize_linear(
    x: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> np.ndarray:
    """Divide, round, add the zero point, and saturate."""
    scale = _spread(scale, x, axis, block_size)
    if precision:
        dtype = helper.tensor_dtype_to_np_dtype(precision)
        x, scale = x.astype(dtype), scale.astype(dtype)
    quotient = (x / scale).astype(np.float64)
    target: np.dtype = np.dtype(np.uint8)
    if zero is not None:
        target = zero.dtype
    elif output_dtype:
        target = helper.tensor_dtype_to_np_dtype(output_dtype)
    is_integer = target.kind in "iu" or target.name.lstrip("u").startswith("int")
    if is_integer:
        quotient = np.rint(quotient)
    if zero is not None:
        quotient = quotient + _spread(zero, x, axis, block_size).astype(np.float64)
    if is_integer:
        limits: Any = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
        quotient = np.clip(quotient, int(limits.min), int(limits.max))
    elif saturate:
        highest = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
        quotient = np.clip(quotient, -highest, highest)
    result: np.ndarray = quotient.astype(np.float32).astype(target)
    return result


def _spread(values: np.ndarray, x: np.ndarray, axis: int, block_size: int) -> np.ndarray:
    """Give each element its scale or zero point."""
    if block_size:
        repeated = values.repeat(block_size, axis=axis)
        return repeated.take(range(x.shape[axis]), axis=axis)
    if values.size == 1 and values.ndim < 2:
        return values.reshape(())
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)
