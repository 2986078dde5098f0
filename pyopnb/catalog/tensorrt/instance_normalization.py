"""InstanceNormalization_TRT of TensorRT, with an activation.

Defined in NVIDIA/TensorRT v8.6.1,
plugin/instanceNormalizationPlugin/instanceNormalizationPlugin.cu. Tested against ONNX Runtime's
InstanceNormalization and LeakyRelu, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.group_norm import group_norm
from pyopnb.catalog.cores.group_norm_form import instance_norm_form

NAMES = ("::InstanceNormalization_TRT", "TRT::InstanceNormalization_TRT")


class InstanceNormalization_TRT:
    """Normalize each channel of an image, then apply LeakyRelu with ``alpha`` if ``relu`` is 1."""

    def __init__(
        self,
        epsilon: float = 1e-5,
        relu: int = 0,
        alpha: float = 0.0,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.epsilon = epsilon
        self.has_activation = bool(relu)
        self.alpha = np.float32(alpha)

    def infer(self, x, scale, bias):
        return x

    def compute(self, x, scale, bias):
        # A group of one channel each is an instance normalization.
        channels = x.shape[1]
        normalized = group_norm(x, scale, bias, channels, self.epsilon)
        if self.has_activation:
            normalized = np.where(normalized < 0, self.alpha * normalized, normalized)
        return normalized.astype(x.dtype)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, scale, bias):
        # A slope of 1 is no activation.
        return instance_norm_form(x, self.epsilon, self.alpha if self.has_activation else 1)
