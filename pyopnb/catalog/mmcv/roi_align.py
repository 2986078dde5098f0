"""MMCVRoiAlign, which mmcv 1.x and mmdeploy write for regions of feature maps.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/roi_align.cpp. In the mode avg it
is ONNX's RoiAlign with the image's number in the first column of the regions.
"""

import numpy as np

from pyopnb.catalog.cores.roi_align import pool_region

NAMES = ("mmcv::MMCVRoiAlign", "mmdeploy::MMCVRoiAlign")


class MMCVRoiAlign:
    """Pool regions given by image, x1, y1, x2 and y2 to one size.

    ``aligned`` moves them by half a pixel and lets them be smaller than one.
    """

    def __init__(
        self,
        output_height: int,
        output_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        mode: str = "avg",
        aligned: int = 1,
    ):
        self.output_size = (output_height, output_width)
        self.scale = np.float32(spatial_scale)
        self.samples = sampling_ratio
        self.takes_maximum = mode == "max"
        self.aligned = bool(aligned)

    def infer(self, x, rois):
        regions = rois.shape[0] if rois.shape else None
        channels = x.shape[1] if x.shape else None
        return x.like(shape=(regions, channels, *self.output_size))

    def compute(self, x, rois):
        images = x.astype(np.float32)
        pooled = np.empty((len(rois), x.shape[1], *self.output_size), x.dtype)
        for number, roi in enumerate(rois.astype(np.float32)):
            left, top, right, bottom = roi[1:] * self.scale - np.float32(0.5 * self.aligned)
            height, width = bottom - top, right - left
            if not self.aligned:
                height, width = max(height, 1), max(width, 1)
            pooled[number] = pool_region(
                images[int(roi[0])],
                (top + height / 2, left + width / 2),
                (height, width),
                self.output_size,
                samples=self.samples,
                takes_maximum=self.takes_maximum,
            )
        return pooled
