"""GroupNorm of com.microsoft, which Olive and the Stable Diffusion optimizer write for GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/diffusion_defs.cc,
version 1. CUDA has channels last only; DirectML's models have them first, and so both are here.
Moments are taken in float32, as the kernels do. Tested against a loop by its definition, to 1e-5.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.group_norm import group_norm
from pyopnb.catalog.cores.group_norm_form import group_norm_form

NAMES = ("com.microsoft::GroupNorm",)


class GroupNorm:
    """Normalize groups of channels, scale and shift them, and apply SiLU if ``activation`` is 1."""

    def __init__(
        self, activation: Literal[0, 1], groups: int, epsilon: float = 1e-5, channels_last: int = 1
    ):
        self.activation = activation
        self.groups = groups
        self.epsilon = epsilon
        self.is_channels_last = bool(channels_last)

    def infer(self, x, gamma, beta):
        return x

    def compute(self, x, gamma, beta):
        if self.is_channels_last:
            # The core has channels first; a view costs nothing.
            channels_first = np.moveaxis(x, -1, 1)
        else:
            channels_first = x
        normalized = group_norm(channels_first, gamma, beta, self.groups, self.epsilon)
        if self.activation:
            # SiLU is x · sigmoid(x), in place on an array of our own.
            normalized /= 1 + np.exp(-normalized)
        if self.is_channels_last:
            normalized = np.moveaxis(normalized, 1, -1)
        return np.ascontiguousarray(normalized).astype(x.dtype, copy=False)

    lowered_opset = 18

    def lowered(self, x, gamma, beta):
        nodes = group_norm_form(
            x,
            groups=self.groups,
            epsilon=self.epsilon,
            is_channels_last=self.is_channels_last,
            has_activation=bool(self.activation),
        )
        return f"""(x, gamma, beta) => (y) {{
            x_32 = Cast<to = 1>(x)
            {nodes}
        }}"""
