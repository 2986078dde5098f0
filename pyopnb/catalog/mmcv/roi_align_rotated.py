"""MMCVRoIAlignRotated, which mmcv 1.x and mmdeploy write for turned regions of feature maps.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/roi_align_rotated.cpp. Tested
against the ONNX Runtime RoiAlign on boxes that are not turned, and on quarter turns, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.roi_align import image_of, infer_regions, pool_region

NAMES = ("mmcv::MMCVRoIAlignRotated", "mmdeploy::MMCVRoIAlignRotated")


class MMCVRoIAlignRotated:
    """Pool rotated regions of feature maps to one size.

    A region is image, center x, center y, width, height, and an angle in radians.
    """

    def __init__(
        self,
        output_height: int,
        output_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        aligned: int = 1,
        clockwise: int = 0,
    ):
        self.output_size = (output_height, output_width)
        self.scale = np.float32(spatial_scale)
        self.samples = sampling_ratio
        self.aligned = bool(aligned)
        self.is_clockwise = bool(clockwise)

    def infer(self, x, rois):
        return infer_regions(x, rois, self.output_size)

    def compute(self, x: "any[B, C, H, W]", rois: "any[R, 6]"):
        images = x.astype(np.float32)
        shape = (len(rois), x.shape[1], *self.output_size)
        pooled = np.empty(shape, x.dtype)
        # The new form counts from the middles of pixels.
        half_pixel = np.float32(0.5 * self.aligned)
        for number, roi in enumerate(rois.astype(np.float32)):
            column, row = roi[1:3] * self.scale - half_pixel
            width, height = roi[3:5] * self.scale
            # The old form never pools less than a pixel.
            if not self.aligned:
                height = max(height, 1)
                width = max(width, 1)
            if self.is_clockwise:
                angle = -roi[5]
            else:
                angle = roi[5]
            image = image_of(images, roi)
            pooled[number] = pool_region(
                image,
                (row, column),
                (height, width),
                self.output_size,
                samples=self.samples,
                cosine=np.cos(angle),
                sine=np.sin(angle),
            )
        return pooled
