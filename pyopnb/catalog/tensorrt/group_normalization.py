"""GroupNormalizationPlugin of TensorRT, whose scale and shift are inputs.

Defined in NVIDIA/TensorRT v8.6.1, plugin/groupNormalizationPlugin/groupNormalizationPlugin.cpp.
Tested against the ONNX Runtime GroupNormalization, to 1e-4.
"""

from pyopnb.catalog.cores.group_norm import group_norm
from pyopnb.catalog.cores.group_norm_form import group_norm_form

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

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, scale, bias):
        # Channels are the second axis, as the core wants them.
        body = group_norm_form(
            x,
            groups=self.groups,
            epsilon=self.epsilon,
            is_channels_last=False,
            has_activation=False,
        )
        return f"""(x, scale, bias) => (y) {{
            x_32 = Cast<to = 1>(x)
            flat = Constant<value_ints = [-1]>()
            gamma = Reshape(scale, flat)
            beta = Reshape(bias, flat)
            {body}
        }}"""
