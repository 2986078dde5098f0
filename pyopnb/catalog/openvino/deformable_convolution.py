"""DeformableConv2D of OpenVINO's model optimizer.

Defined in openvinotoolkit/openvino 95d8b26,
src/frontends/onnx/frontend/src/op/org.openvinotoolkit/deformable_conv_2d.cpp. Its four pads are the
two of the rows and then the two of the columns. Tested against the ONNX Runtime DeformConv, to
1e-4.
"""

from pyopnb.catalog.cores.deform_conv_form import deform_conv_form
from pyopnb.catalog.cores.deformable_convolution import deformable_convolution, infer_deformed

NAMES = ("org.openvinotoolkit::DeformableConv2D",)


class DeformableConv2D:
    """Convolve with a kernel whose points are moved by offsets."""

    def __init__(
        self,
        strides: list[int] = [1, 1],
        pads: list[int] = [0, 0, 0, 0],
        dilations: list[int] = [1, 1],
        kernel_shape: list[int] = [],
        group: int = 1,
        deformable_groups: int = 1,
    ):
        top, bottom, left, right = pads
        self.form = {
            "stride": tuple(strides),
            # ONNX has both begins before both ends.
            "pads": (top, left, bottom, right),
            "dilation": tuple(dilations),
            "groups": group,
            "offset_groups": deformable_groups,
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
