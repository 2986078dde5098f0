"""MMCVDeformConv2d, the deformable convolution without a mask of mmdeploy and mmcv 1.x.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/tensorrt/deform_conv/trt_deform_conv_kernel.cu. mmdeploy writes four
numbers of padding, the same for both ends of the rows and then of the columns; mmcv writes two.
Tested against a loop by its definition in float64, to 1e-4 (float32).
"""

from pyopnb.catalog.cores.deform_conv_form import deform_conv_form
from pyopnb.catalog.cores.deformable_convolution import deformable_convolution, infer_deformed

NAMES = ("mmdeploy::MMCVDeformConv2d", "mmcv::MMCVDeformConv2d")


class MMCVDeformConv2d:
    """Convolve with a kernel whose points are moved by offsets."""

    def __init__(
        self,
        stride: list[int] = [1, 1],
        padding: list[int] = [0, 0],
        dilation: list[int] = [1, 1],
        groups: int = 1,
        deform_groups: int = 1,
        bias: int = 0,
        im2col_step: int = 32,
    ):
        # Rows come first and columns last, in two numbers and in four.
        begin = (padding[0], padding[-1])
        self.form = {
            "stride": tuple(stride),
            "pads": begin + begin,
            "dilation": tuple(dilation),
            # Groups of the weights and of the offsets are independent.
            "groups": groups,
            "offset_groups": deform_groups,
        }

    def infer(self, x, offset, weight):
        return infer_deformed(x, weight, self.form)

    def compute(self, x, offset, weight):
        return deformable_convolution(
            x,
            offset,
            weight,
            **self.form,
        )

    lowered_opset = 19

    def lowered(self, x, offset, weight):
        nodes = deform_conv_form(
            x,
            **self.form,
        )
        return f"(x, offset, weight) => (y) {{ {nodes} }}"
