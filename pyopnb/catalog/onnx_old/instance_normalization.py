"""InstanceNormalization of ONNX version 1, with an attribute that lets it write into its inputs.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, InstanceNormalization-1. ``consumed_inputs`` changes
no result. Tested against the ONNX Runtime InstanceNormalization of today, to 1e-4.
"""

from pyopnb.catalog.cores.group_norm import group_norm
from pyopnb.catalog.cores.group_norm_form import instance_norm_form

NAMES = ("::InstanceNormalization",)
VERSIONS = (1,)


class InstanceNormalization_1:
    """Normalize each channel of each image, then scale and shift it."""

    def __init__(self, epsilon: float = 1e-5, consumed_inputs: list[int] = []):
        self.epsilon = epsilon

    def infer(self, x, scale, bias):
        return x

    def compute(self, x, scale, bias):
        # An instance normalization is a group normalization with a group for each channel.
        result = group_norm(x, scale, bias, x.shape[1], self.epsilon)
        return result.astype(x.dtype)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, scale, bias):
        # Of one pixel, the ONNX Runtime kernel would lose digits.
        return instance_norm_form(x, self.epsilon)
