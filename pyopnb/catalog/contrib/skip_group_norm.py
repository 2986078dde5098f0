"""SkipGroupNorm of com.microsoft, which the optimizer of Stable Diffusion XL writes for GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/diffusion_defs.cc,
version 1; ``skip`` may have the shapes that the kernel takes in
contrib_ops/cuda/diffusion/group_norm.cc. Tested against a loop by its definition, to 1e-4.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.group_norm import group_norm
from pyopnb.catalog.cores.group_norm_form import group_norm_form
from pyopnb.catalog.cores.onnx_text import dtype_number

NAMES = ("com.microsoft::SkipGroupNorm",)


class SkipGroupNorm:
    """Add a skip connection and a bias, then normalize groups of channels.

    The second output is the sum before the normalization.
    """

    def __init__(
        self, activation: Literal[0, 1], groups: int, epsilon: float = 1e-5, channels_last: int = 1
    ):
        self.activation = activation
        self.groups = groups
        self.epsilon = epsilon
        self.is_channels_last = bool(channels_last)

    def infer(self, x, gamma, beta, skip, bias=None):
        return x, x

    def compute(self, x, gamma, beta, skip, bias=None) -> ("any[...]", "any[...]"):
        if skip.ndim == 2:
            # One row of channels an image.
            skip = skip[:, None, None]
        if not self.is_channels_last:
            x = np.moveaxis(x, 1, -1)
            if skip.shape[1:3] != (1, 1):
                skip = np.moveaxis(skip, 1, -1)
        total = x.astype(np.float32) + skip.astype(np.float32)
        if bias is not None:
            total = total + bias.astype(np.float32)
        # The core has channels first; a view costs nothing.
        total = np.moveaxis(total, -1, 1)
        normalized = group_norm(total, gamma, beta, self.groups, self.epsilon)
        if self.activation:
            normalized /= 1 + np.exp(-normalized)
        if self.is_channels_last:
            total = np.moveaxis(total, 1, -1)
            normalized = np.moveaxis(normalized, 1, -1)
        normalized = np.ascontiguousarray(normalized)
        total = np.ascontiguousarray(total)
        return normalized.astype(x.dtype, copy=False), total.astype(x.dtype, copy=False)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, gamma, beta, skip, bias=None):
        if not self.is_channels_last:
            raise NotImplementedError("channels_last=0")
        nodes = group_norm_form(
            x,
            groups=self.groups,
            epsilon=self.epsilon,
            is_channels_last=True,
            has_activation=bool(self.activation),
        )
        add_bias = "x_32 = Identity(sum_32)"
        if bias is not None:
            add_bias = "bias_32 = Cast<to = 1>(bias)  x_32 = Add(sum_32, bias_32)"
        widen = "skip_32 = Identity(narrow_skip_32)"
        if len(skip.shape) == 2:
            widen = (
                "height_width = Constant<value_ints = [1, 2]>()  "
                "skip_32 = Unsqueeze(narrow_skip_32, height_width)"
            )
        return f"""(x, gamma, beta, skip, bias) => (y, total) {{
            images_32 = Cast<to = 1>(x)
            narrow_skip_32 = Cast<to = 1>(skip)
            {widen}
            sum_32 = Add(images_32, skip_32)
            {add_bias}
            total = Cast<to = {dtype_number(x)}>(x_32)
            {nodes}
        }}"""
