"""group_norm of torch, whose exporter writes it where it falls through.

Defined by torch 2.13, torch.nn.functional.group_norm; numbers are constant inputs.
Tested against ONNX Runtime's GroupNormalization and InstanceNormalization, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.group_norm import group_norm as normalize_groups

NAMES = ("org.pytorch.aten::group_norm", "::group_norm")


class group_norm:
    """Normalize groups of channels, then scale and shift each channel."""

    def infer(self, x, groups, weight=None, bias=None, epsilon=None, cudnn_enabled=None):
        return x

    def compute(self, x, groups, weight=None, bias=None, epsilon=None, cudnn_enabled=None):
        channels = x.shape[1]
        if weight is None:
            # Without affine parameters, the exporter leaves both inputs out.
            gamma = np.ones(channels, np.float32)
        else:
            gamma = weight
        if bias is None:
            beta = np.zeros(channels, np.float32)
        else:
            beta = bias
        if epsilon is None:
            smallest = 1e-5
        else:
            smallest = float(epsilon.item())
        result = normalize_groups(x, gamma, beta, int(groups.item()), smallest)
        return result.astype(x.dtype)
