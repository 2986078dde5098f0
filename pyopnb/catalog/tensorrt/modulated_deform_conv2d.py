"""ModulatedDeformConv2d of TensorRT, with which TAO exports OCDNet.

Defined in NVIDIA/TensorRT v10.12.0,
plugin/modulatedDeformConvPlugin/modulatedDeformConvPluginKernel.cu. Its versions 1 and 2 are equal.
It is mmcv's operator with other names of the groups. Tested against the ONNX Runtime DeformConv, to
1e-4.
"""

from pyopnb.catalog.mmdeploy.modulated_deform_conv2d import MMCVModulatedDeformConv2d

NAMES = ("::ModulatedDeformConv2d", "TRT::ModulatedDeformConv2d")


class ModulatedDeformConv2d(MMCVModulatedDeformConv2d):
    """Convolve with a kernel whose points are moved by offsets and weighted by a mask."""

    def __init__(
        self,
        stride: list[int] = [1, 1],
        padding: list[int] = [0, 0],
        dilation: list[int] = [1, 1],
        group: int = 1,
        deformable_group: int = 1,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        # The plugin's two counts of groups are mmcv's.
        super().__init__(stride, padding, dilation, group, deformable_group)
