"""BiasSplitGelu of com.microsoft, which the optimizer of Stable Diffusion writes for GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/diffusion_defs.cc,
version 1. Gelu is the exact one, by erf, as the kernel has it. Tested against the ONNX Runtime
Gelu, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.activations import gelu
from pyopnb.catalog.cores.onnx_text import dtype_number

NAMES = ("com.microsoft::BiasSplitGelu",)


class BiasSplitGelu:
    """Add the bias, split the last axis, and multiply the first half by Gelu of the second."""

    def infer(self, x, bias):
        if not x.shape or not isinstance(x.shape[-1], int):
            return x.like(shape=(*x.shape[:-1], None) if x.shape else None)
        shape = (*x.shape[:-1], x.shape[-1] // 2)
        return x.like(shape=shape)

    def compute(self, x, bias):
        shifted = x.astype(np.float32) + bias.astype(np.float32)
        # The gate is the second half, as in Diffusers' GEGLU.
        first_half, second_half = np.split(shifted, 2, axis=-1)
        return (first_half * gelu(second_half)).astype(x.dtype)

    lowered_opset = 20

    def lowered(self, x, bias):
        return f"""(x, bias) => (y) {{
            x_32 = Cast<to = 1>(x)
            bias_32 = Cast<to = 1>(bias)
            shifted = Add(x_32, bias_32)
            first_half, second_half = Split<axis = -1, num_outputs = 2>(shifted)
            gate = Gelu(second_half)
            y_32 = Mul(first_half, gate)
            y = Cast<to = {dtype_number(x)}>(y_32)
        }}"""
