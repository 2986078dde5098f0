"""GroupNormalizationPlugin of TensorRT, whose scale and shift are inputs.

Defined in NVIDIA/TensorRT v8.6.1, plugin/groupNormalizationPlugin.
Tested against ONNX Runtime's GroupNormalization, to 1e-4.
"""

from pyopnb.catalog.cores.group_norm import group_norm

NAMES = ("::GroupNormalizationPlugin", "TRT::GroupNormalizationPlugin")


class GroupNormalizationPlugin:
    """Normalize groups of channels, then scale and shift each channel."""

    def __init__(
        self,
        eps: float = 1e-5,
        num_groups: int = 1,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.epsilon = eps
        self.groups = num_groups

    def infer(self, x, scale, bias):
        return x

    def compute(self, x, scale, bias):
        # Parameters may have axes of one beside the channels'.
        gamma = scale.ravel()
        beta = bias.ravel()
        normalized = group_norm(x, gamma, beta, self.groups, self.epsilon)
        return normalized.astype(x.dtype)
