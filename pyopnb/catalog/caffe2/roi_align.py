"""RoIAlign of Caffe2, which is MMCVRoiAlign with other names.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/roi_align_op.cc. Tested against ONNX Runtime's
RoiAlign, to 1e-4.
"""

from pyopnb.catalog.mmcv.roi_align import MMCVRoiAlign as RoiAlignOfMmcv

NAMES = ("org.pytorch._caffe2::RoIAlign",)


class RoIAlign(RoiAlignOfMmcv):
    """Average regions given by image, x1, y1, x2 and y2 to one size."""

    def __init__(
        self,
        pooled_h: int = 1,
        pooled_w: int = 1,
        spatial_scale: float = 1.0,
        sampling_ratio: int = -1,
        aligned: int = 0,
        order: str = "NCHW",
    ):
        if order != "NCHW":
            raise ValueError(f"order: expected NCHW, got {order}")
        # Caffe2 has averages only.
        super().__init__(pooled_h, pooled_w, spatial_scale, sampling_ratio, "avg", aligned)
