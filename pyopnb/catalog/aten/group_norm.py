"""group_norm of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.group_norm; numbers are constant inputs. Tested against
the ONNX Runtime GroupNormalization and InstanceNormalization, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.group_norm import group_norm as normalize_groups
from pyopnb.catalog.cores.group_norm_form import group_norm_form
from pyopnb.catalog.cores.onnx_text import item_of

NAMES = ("org.pytorch.aten::group_norm", "::group_norm")


class group_norm:
    """Normalize groups of channels, then scale and shift each channel."""

    def infer(self, x, groups, weight=None, bias=None, epsilon=None, cudnn_enabled=None):
        return x

    def compute(self, x, groups, weight=None, bias=None, epsilon=None, cudnn_enabled=None):
        # Without affine parameters, the exporter leaves both inputs out.
        gamma = np.ones(x.shape[1], np.float32) if weight is None else weight
        beta = np.zeros(x.shape[1], np.float32) if bias is None else bias
        smallest = float(item_of(epsilon, 1e-5))
        return normalize_groups(x, gamma, beta, int(groups.item()), smallest).astype(x.dtype)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, groups, weight=None, bias=None, epsilon=None, cudnn_enabled=None):
        body = group_norm_form(
            x,
            groups=int(item_of(groups, 1)),
            epsilon=float(item_of(epsilon, 1e-5)),
            is_channels_last=False,
            has_activation=False,
        )
        # The core reads gamma and beta, which the exporter may leave out.
        parameters = ""
        for name, parameter, default in (("gamma", weight, 1), ("beta", bias, 0)):
            value = f"Identity({'weight' if default else 'bias'})"
            if parameter is None:
                value = f"ConstantOfShape<value = float[1] {{{default}}}>(channels)"
            parameters += f"{name} = {value}\n"
        return f"""(x, groups, weight, bias, smallest, cudnn_enabled) => (y) {{
            x_32 = Cast<to = 1>(x)
            channels = Shape<start = 1, end = 2>(x)
            {parameters}
            {body}
        }}"""
