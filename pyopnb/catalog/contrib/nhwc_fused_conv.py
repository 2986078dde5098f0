"""NhwcFusedConv of com.microsoft, NhwcConv with a residual and an activation.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Unlike NhwcConv's, its weights are [M,C/group,kh,kw], which its schema says. Tested
against the ONNX Runtime Conv, to 1e-4.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.activations import activate
from pyopnb.catalog.cores.convolution import convolve, pads_of
from pyopnb.catalog.cores.precision import widen
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::NhwcFusedConv",)


class NhwcFusedConv:
    """Convolve images whose channels are the last axis, add a residual, and apply an activation."""

    def __init__(
        self,
        activation: str = "",
        activation_params: list[float] = [],
        auto_pad: Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"] = "NOTSET",
        dilations: list[int] = [1, 1],
        group: int = 1,
        kernel_shape: list[int] = [],
        pads: list[int] = [0, 0, 0, 0],
        strides: list[int] = [1, 1],
    ):
        self.activation = activation
        self.numbers = (*activation_params, 0.0, 0.0)[:2]
        self.auto_pad = auto_pad
        self.pads = pads
        self.form = {"strides": strides, "dilations": dilations}
        self.group = group

    def infer(self, x, weight, bias=None, residual=None):
        if x.shape is None or weight.shape is None:
            return TensorType(x.dtype, None)
        shape = (x.shape[0], None, None, weight.shape[0])
        return x.like(shape=shape)

    def compute(self, x, weight, bias=None, residual=None):
        # The sum is rounded once, after the activation.
        images = np.moveaxis(widen(x), -1, 1)
        pads = pads_of(self.auto_pad, self.pads, images.shape[2:], weight.shape[2:], **self.form)
        total = convolve(images, weight, bias, pads=pads, group=self.group, **self.form)
        total = np.moveaxis(total, 1, -1)
        if residual is not None:
            total = total + widen(residual)
        if self.activation == "Clip":
            total = total.clip(*self.numbers)
        elif self.activation:
            total = activate(self.activation, total, *self.numbers, gamma=0.0, axis=-1)
        return np.ascontiguousarray(total).astype(x.dtype)
