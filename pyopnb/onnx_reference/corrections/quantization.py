"""QuantizeLinear and DequantizeLinear, for one scale, one for each slice of an axis, and blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

__all__ = ["quantize_linear"]


def quantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Compute x / scale + zero point, rounded to even and limited to the range of the dtype."""
    result = helper.tensor_dtype_to_np_dtype(output_dtype or TensorProto.UINT8)
    if zero_point is not None:
        result = zero_point.dtype
    # Quotients of halves are also rounded once.
    exact = helper.tensor_dtype_to_np_dtype(precision) if precision else np.dtype(np.float32)
    divisor = _spread(scale.astype(exact), x.shape, axis, block_size)
    quotient = (x.astype(exact) / divisor).astype(np.float32)
    if "float" in result.name:
        # A float's zero point is 0.
        limit = float(ml_dtypes.finfo(result).max)  # type: ignore[no-untyped-call]
        return (quotient.clip(-limit, limit) if saturate else quotient).astype(result)
    limits = ml_dtypes.iinfo(result)  # type: ignore[no-untyped-call]
    # Limited first, as no integer holds all numbers of float32. NaN is the lowest, as in
    # ONNX Runtime.
    rounded = np.nan_to_num(np.rint(quotient), nan=-np.inf)
    values = rounded.clip(-(2**30), 2**30).astype(np.int64)
    if zero_point is not None:
        values = values + _spread(zero_point.astype(np.int64), x.shape, axis, block_size)
    return values.clip(int(limits.min), int(limits.max)).astype(result)


def _spread(parameter: Any, shape: tuple[int, ...], axis: int, block_size: int) -> Any:
    """Give a scale or a zero point the shape of the data, or one that broadcasts to it."""
    if parameter.size == 1:
        return parameter.reshape(())
    axis %= len(shape)
    if block_size:
        repeated = np.repeat(parameter, block_size, axis=axis)
        # The last block may be shorter.
        return repeated.take(np.arange(shape[axis]), axis=axis)
    return parameter.reshape(-1, *[1] * (len(shape) - axis - 1))
