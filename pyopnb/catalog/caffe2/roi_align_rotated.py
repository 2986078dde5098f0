"""RoIAlignRotated of Caffe2, which is MMCVRoIAlignRotated with angles in degrees.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/roi_align_rotated_op.cc. Tested against ONNX
Runtime's RoiAlign on boxes that are not turned, and on half turns, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.mmcv.roi_align_rotated import MMCVRoIAlignRotated as RoIAlignRotatedOfMmcv

NAMES = ("org.pytorch._caffe2::RoIAlignRotated",)


class RoIAlignRotated(RoIAlignRotatedOfMmcv):
    """Average regions given by image, center x and y, width, height and an angle to one size."""

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
        super().__init__(pooled_h, pooled_w, spatial_scale, sampling_ratio, aligned)

    def compute(self, x, rois):
        # In half precision, angles would lose digits by the conversion.
        in_radians = rois.astype(np.float32)
        in_radians[:, 5] = np.deg2rad(in_radians[:, 5])
        return super().compute(x, in_radians)
