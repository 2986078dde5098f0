"""ConvTranspose, in any number of axes and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.catalog import precision

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
    sizes = x.shape[2:]
    axes = len(sizes)
    strides, dilations = strides or [1] * axes, dilations or [1] * axes
    spans = []
    for size, length, stride, dilation in zip(
        sizes, weight.shape[2:], strides, dilations, strict=True
    ):
        spans.append((size - 1) * stride + (length - 1) * dilation + 1)
    for axis, extra in enumerate(output_padding or []):
        spans[axis] += extra
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    begins, lengths = [0] * axes, list(spans)
    if output_shape is not None:
        lengths = list(output_shape[-axes:])
        for axis, length in enumerate(lengths):
            # A longer output gets zeros at its end.
            spans[axis] = max(spans[axis], length)
            total = spans[axis] - length
            begins[axis] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    elif pads and auto_pad == "NOTSET":
        begins = list(pads[:axes])
        for axis in range(axes):
            lengths[axis] -= pads[axis] + pads[axis + axes]
    whole = _spread(precision.widen(x), precision.widen(weight), spans, strides, dilations, group)
    inside = [slice(*ends) for ends in zip(begins, np.add(begins, lengths), strict=True)]
    result: Any = whole[(..., *inside)]
    if bias is not None:
        result = result + precision.widen(bias).reshape(-1, *[1] * axes)
    return result.astype(x.dtype)


def _spread(
    x: np.ndarray,
    weight: np.ndarray,
    spans: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    group: int,
) -> Any:
    """Return the sums of all products, [N,M,...], before anything is cut off."""
    batch, channels, *sizes = x.shape
    _, maps, *kernel = weight.shape
    inputs = x.reshape(batch, group, channels // group, *sizes)
    kernels = weight.reshape(group, channels // group, maps, *kernel)
    sums: Any = np.zeros((batch, group, maps, *spans), x.dtype)
    for offset in np.ndindex(*kernel):
        places = []
        for size, step, stride, dilation in zip(sizes, offset, strides, dilations, strict=True):
            first = step * dilation
            places.append(slice(first, first + (size - 1) * stride + 1, stride))
        matrix = kernels[(slice(None), slice(None), slice(None), *offset)]
        sums[(..., *places)] += np.einsum("ngc...,gcm->ngm...", inputs, matrix)
    return sums.reshape(batch, group * maps, *spans)
