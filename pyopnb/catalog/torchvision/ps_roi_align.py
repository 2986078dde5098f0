"""ps_roi_align of torchvision, the means of regions whose bins have channels of their own.

Defined in pytorch/vision 8a347e1, torchvision/csrc/ops/cpu/ps_roi_align_kernel.cpp. Tested against
the ONNX Runtime RoiAlign, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.roi_align import pool_region

NAMES = ("torchvision::ps_roi_align", "::ps_roi_align")


class ps_roi_align:
    """Average a region's bins, each in its own channel, and say which channel that is."""

    def infer(self, x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
        pooled = x.like(shape=(None,) * 4)
        return pooled, pooled.like(dtype="int32")

    def compute(
        self, x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio
    ) -> ("any[R,C,H,W]", "int32[R,C,H,W]"):
        bins = (int(pooled_height.item()), int(pooled_width.item()))
        scale = np.float32(spatial_scale.item())
        images = x.astype(np.float32)
        # The bins of a channel of the result are neighboring channels of the input.
        channels = np.arange(x.shape[1], dtype=np.int32)
        channels = channels.reshape(-1, *bins)
        down, across = np.mgrid[: bins[0], : bins[1]]
        shape = (len(rois), *channels.shape)
        pooled = np.empty(shape, x.dtype)
        samples = int(sampling_ratio.item())
        for region, roi in enumerate(rois.astype(np.float32)):
            # Regions are always aligned to the middles of pixels.
            left, top, right, bottom = roi[1:] * scale - np.float32(0.5)
            height = bottom - top
            width = right - left
            center = (top + height / 2, left + width / 2)
            image = images[int(roi[0])]
            all_channels = pool_region(image, center, (height, width), bins, samples=samples)
            pooled[region] = all_channels[channels, down, across]
        return pooled, np.broadcast_to(channels, pooled.shape).copy()
