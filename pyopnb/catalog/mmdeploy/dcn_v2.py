"""DCNv2 of the forks of CharlesShang/DCNv2, which CenterNet and its followers export.

Defined in CharlesShang/DCNv2 65b936e, dcn_v2.py. Forks name it _DCNv2, DCNv2 or DCNv2_TRT. Some
pass offsets and mask in one tensor, whose mask is before its sigmoid; a node with four inputs is
such. Tested against the ONNX Runtime DeformConv, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.deform_conv_form import deform_conv_form
from pyopnb.catalog.cores.deformable_convolution import deformable_convolution, infer_deformed

NAMES = ("::_DCNv2", "::DCNv2", "::DCNv2_TRT", "ai.onnx.contrib::_DCNv2", "ai.onnx.contrib::DCNv2")


class DCNv2:
    """Convolve with a kernel whose points are moved by offsets and weighted by a mask."""

    def __init__(
        self,
        stride: list[int] = [1, 1],
        padding: list[int] = [1, 1],
        dilation: list[int] = [1, 1],
        deformable_groups: int = 1,
    ):
        self.form = {
            "stride": tuple(stride),
            "pads": (*padding, *padding),
            "dilation": tuple(dilation),
            "offset_groups": deformable_groups,
        }

    def infer(self, x, offset, mask_or_weight, weight_or_bias, bias=None):
        if bias is None:
            weight = mask_or_weight
        else:
            weight = weight_or_bias
        return infer_deformed(x, weight, self.form)

    def compute(self, x, offset, mask_or_weight, weight_or_bias, bias=None):
        if bias is None:
            weight, bias = mask_or_weight, weight_or_bias
            # Two thirds are offsets, the last one is the mask.
            channels = offset.shape[1] // 3
            logits = offset[:, 2 * channels :].astype(np.float32)
            offset = offset[:, : 2 * channels]
            mask = 1 / (1 + np.exp(-logits))
        else:
            mask, weight = mask_or_weight, weight_or_bias
        return deformable_convolution(
            x,
            offset,
            weight,
            mask=mask,
            bias=bias,
            **self.form,
        )

    lowered_opset = 19

    def lowered(self, x, offset, mask_or_weight, weight_or_bias, bias=None):
        nodes = deform_conv_form(
            x,
            mask="mask",
            bias="bias",
            **self.form,
        )
        if bias is not None:
            return f"(x, offset, mask, weight, bias) => (y) {{ {nodes} }}"
        return f"""(x, offset_and_mask, weight, bias) => (y) {{
            offset_y, offset_x, logits = Split<axis = 1, num_outputs = 3>(offset_and_mask)
            offset = Concat<axis = 1>(offset_y, offset_x)
            mask = Sigmoid(logits)
            {nodes}
        }}"""
