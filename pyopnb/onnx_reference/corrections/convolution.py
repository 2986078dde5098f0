"""ConvTranspose, in any number of axes and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["conv_transpose"]


def conv_transpose(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    auto_pad: str,
    group: int,
    kernel_shape: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Any:
    """Add each element times the kernel to the output, at places ``strides`` apart."""
    sizes, kernel = x.shape[2:], weight.shape[2:]
    axes = len(sizes)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    extra = output_padding or [0] * axes
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    spans, crops = [], []
    for axis, size in enumerate(sizes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        span = (size - 1) * strides[axis] + reach + extra[axis]
        begin, end = 0, 0
        if output_shape is not None:
            length = output_shape[axis - axes]
            # A longer output gets zeros at its end.
            span = max(span, length)
            total = span - length
            begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            end = total - begin
        elif pads and auto_pad == "NOTSET":
            begin, end = pads[axis], pads[axis + axes]
        spans.append(span)
        crops.append((begin, end))
    inputs = widen(x).reshape(len(x), group, -1, *sizes)
    kernels = widen(weight).reshape(group, -1, *weight.shape[1:])
    whole: Any = np.zeros((len(x), group, weight.shape[1], *spans), inputs.dtype)
    for offset in np.ndindex(*kernel):
        places = []
        for axis, size in enumerate(sizes):
            first = offset[axis] * dilations[axis]
            places.append(slice(first, first + (size - 1) * strides[axis] + 1, strides[axis]))
        matrix = kernels[(slice(None), slice(None), slice(None), *offset)]
        whole[(..., *places)] += np.einsum("ngc...,gcm->ngm...", inputs, matrix)
    inside = [slice(begin, span - end) for span, (begin, end) in zip(spans, crops, strict=True)]
    result: Any = whole.reshape(len(x), -1, *spans)[(..., *inside)]
    if bias is not None:
        result = result + widen(bias).reshape(-1, *[1] * axes)
    return result.astype(x.dtype)
