"""MMCVModulatedDeformConv2d, the deformable convolution with a mask of mmdeploy and mmcv 1.x.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/onnxruntime/modulated_deform_conv/modulated_deform_conv.cpp. Its
documentation calls an attribute deformable_groups; the code reads deform_groups. Tested against a
loop by its definition in float64, to 1e-4 (float32).
"""

from pyopnb.catalog.cores.deform_conv_form import deform_conv_form
from pyopnb.catalog.cores.deformable_convolution import deformable_convolution, infer_deformed

# The last two are BEVFormer_tensorrt's, with the same attributes.
NAMES = (
    "mmdeploy::MMCVModulatedDeformConv2d",
    "mmcv::MMCVModulatedDeformConv2d",
    "::ModulatedDeformableConv2dTRT",
    "::ModulatedDeformableConv2dTRT2",
)


class MMCVModulatedDeformConv2d:
    """Convolve with a kernel whose points are moved by offsets and weighted by a mask."""

    def __init__(
        self,
        stride: list[int] = [1, 1],
        padding: list[int] = [0, 0],
        dilation: list[int] = [1, 1],
        groups: int = 1,
        deform_groups: int = 1,
    ):
        self.form = {
            "stride": tuple(stride),
            # mmcv writes one number an axis, for both of its ends.
            "pads": (*padding, *padding),
            "dilation": tuple(dilation),
            "groups": groups,
            "offset_groups": deform_groups,
        }

    def infer(self, x, offset, mask, weight, bias=None):
        return infer_deformed(x, weight, self.form)

    def compute(self, x, offset, mask, weight, bias=None):
        return deformable_convolution(
            x,
            offset,
            weight,
            mask=mask,
            bias=bias,
            **self.form,
        )

    lowered_opset = 19

    def lowered(self, x, offset, mask, weight, bias=None):
        nodes = deform_conv_form(
            x,
            mask="mask",
            bias="" if bias is None else "bias",
            **self.form,
        )
        return f"(x, offset, mask, weight, bias) => (y) {{ {nodes} }}"
