"""NhwcConv of com.microsoft, which the optimizer of Stable Diffusion writes for GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. The schema's text gives the weights' shape as [M,C/group,kh,kw]; the optimizer
(fusion_nhwc_conv.py) and the CUDA kernel have channels last, and so has this. Tested against ONNX
Runtime's Conv, to 1e-4.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.convolution import convolve, pads_of
from pyopnb.catalog.cores.onnx_text import dtype_number, ints
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::NhwcConv",)


class NhwcConv:
    """Convolve images whose channels are the last axis."""

    def __init__(
        self,
        auto_pad: Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"] = "NOTSET",
        dilations: list[int] = [1, 1],
        group: int = 1,
        kernel_shape: list[int] = [],
        pads: list[int] = [0, 0, 0, 0],
        strides: list[int] = [1, 1],
    ):
        self.auto_pad = auto_pad
        self.dilations = dilations
        self.group = group
        self.pads = pads
        self.strides = strides

    def infer(self, x, weight, bias=None):
        if x.shape is None or weight.shape is None:
            return TensorType(x.dtype, None)
        shape = (x.shape[0], None, None, weight.shape[0])
        return x.like(shape=shape)

    def compute(self, x, weight, bias=None):
        # Views with channels first, as the core wants them.
        images = np.moveaxis(x, -1, 1)
        # Weights also have their channels last; the schema's text is wrong.
        kernels = np.moveaxis(weight, -1, 1)
        pads = pads_of(
            self.auto_pad,
            self.pads,
            images.shape[2:],
            kernels.shape[2:],
            self.strides,
            self.dilations,
        )
        convolved = convolve(
            images,
            kernels,
            bias,
            strides=self.strides,
            pads=pads,
            dilations=self.dilations,
            group=self.group,
        )
        result = np.moveaxis(convolved, 1, -1)
        return np.ascontiguousarray(result)

    lowered_opset = 11

    def lowered(self, x, weight, bias=None):
        pads = f"pads = {ints(self.pads)}"
        if self.auto_pad != "NOTSET":
            # The ONNX Runtime Conv refuses the two together.
            if max(self.dilations) > 1:
                raise NotImplementedError(f"auto_pad={self.auto_pad} with dilations")
            pads = f'auto_pad = "{self.auto_pad}"'
        attrs = f"{pads}, strides = {ints(self.strides)}, dilations = {ints(self.dilations)}"
        add_bias = ""
        inputs = "images, kernels"
        if bias is not None:
            add_bias = "bias_32 = Cast<to = 1>(bias)"
            inputs += ", bias_32"
        return f"""(x, weight, bias) => (y) {{
            x_32 = Cast<to = 1>(x)
            images = Transpose<perm = [0, 3, 1, 2]>(x_32)
            weight_32 = Cast<to = 1>(weight)
            kernels = Transpose<perm = [0, 3, 1, 2]>(weight_32)
            {add_bias}
            channels_first = Conv<{attrs}, group = {self.group}>({inputs})
            channels_last = Transpose<perm = [0, 2, 3, 1]>(channels_first)
            y = Cast<to = {dtype_number(x)}>(channels_last)
        }}"""
