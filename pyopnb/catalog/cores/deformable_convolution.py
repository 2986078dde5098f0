"""Convolutions whose kernel points move (Dai and others, 2017; Zhu and others, 2018).

The ONNX DeformConv is the operator of the papers, and the ONNX Runtime kernel of it is a
hundred times as fast as NumPy. The plugins differ from it in the order of inputs and in the
names of attributes only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import helper

from pyopnb.catalog.cores.precision import wide_dtype
from pyopnb.engine import TensorType, node_kernel

__all__ = ["deformable_convolution", "infer_deformed"]


def _output_shape(
    size: Sequence[Any], kernel: Sequence[Any], form: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return the height and width of a result; a dimension that is not a number stays unknown."""
    shape: list[int | None] = [None, None]
    stride, pads, dilation = form["stride"], form["pads"], form["dilation"]
    for axis in range(2):
        if isinstance(size[axis], int) and isinstance(kernel[axis], int):
            reach = dilation[axis] * (kernel[axis] - 1) + 1
            padded = size[axis] + pads[axis] + pads[axis + 2]
            shape[axis] = (padded - reach) // stride[axis] + 1
    return shape[0], shape[1]


def infer_deformed(x: TensorType, weight: TensorType, form: Mapping[str, Any]) -> TensorType:
    """Infer the type of a deformable convolution.

    Parameters
    ----------
    x, weight : TensorType
        Of the images and of the kernels.
    form : mapping
        The keyword arguments of `deformable_convolution`.
    """
    if x.shape is None or weight.shape is None:
        return TensorType(x.dtype, None)
    size = _output_shape(x.shape[2:], weight.shape[2:], form)
    return x.like(shape=(x.shape[0], weight.shape[0], *size))


def deformable_convolution(
    x: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    offset_groups: int = 1,
) -> np.ndarray:
    """Convolve images with kernels whose points are moved by offsets and weighted by a mask.

    Output ``[o, i, j]`` is ``bias[o]`` plus the sum over channels ``c`` and points ``(a, b)``
    of ``weight[o, c, a, b] * mask * x[c]`` at row ``i * stride - pad + a * dilation + offset``,
    and the column likewise. Between pixels, x is interpolated; outside, and at an offset that
    is not a number, it is 0.

    Parameters
    ----------
    x : ndarray
        float[N,C,H,W].
    offset : ndarray
        float[N, offset_groups·2·kh·kw, oh, ow], rows and columns in turn for each point.
    weight : ndarray
        float[O, C/groups, kh, kw].
    mask : ndarray, optional
        float[N, offset_groups·kh·kw, oh, ow].
    bias : ndarray, optional
        float[O].
    pads : four int
        Top, left, bottom, right.
    groups, offset_groups : int
        Into which channels are split for the weights and for the offsets.

    Returns
    -------
    ndarray
        float[N,O,oh,ow].
    """
    expected = 2 * offset_groups * math.prod(weight.shape[2:])
    if offset.shape[1] != expected:
        raise ValueError(f"offset: expected {expected} channels, got {offset.shape[1]}")
    dtype = wide_dtype(x.dtype)
    inputs: list[np.ndarray | None] = []
    for array in (x, weight, offset, bias, mask):
        inputs.append(None if array is None else array.astype(dtype, copy=False))
    kernel = _kernel(stride, pads, dilation, groups, offset_groups)
    (result,) = kernel(*inputs)
    return np.asarray(result).astype(x.dtype, copy=False)


@lru_cache(maxsize=64)
def _kernel(
    stride: tuple[int, int],
    pads: tuple[int, ...],
    dilation: tuple[int, int],
    groups: int,
    offset_groups: int,
) -> node_kernel.Kernel:
    # A session takes a millisecond to make, and networks have the same few forms again and again.
    node = helper.make_node(
        "DeformConv",
        [],
        ["y"],
        strides=stride,
        pads=pads,
        dilations=dilation,
        group=groups,
        offset_group=offset_groups,
    )
    return node_kernel.NodeKernel(node, {"": 19})
