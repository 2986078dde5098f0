"""CropAndResize and CropAndResizeDynamic of TensorRT, for Faster R-CNN of TAO and UFF files.

Defined in NVIDIA/TensorRT v10.12.0, plugin/cropAndResizePlugin/cropAndResizePlugin.cpp. The rule
comes from TensorFlow, whose own operator has four inputs. Tested against the ONNX Runtime
CropAndResize of com.microsoft, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.crop_and_resize import crop_and_resize

NAMES = (
    "::CropAndResize",
    "TRT::CropAndResize",
    "::CropAndResizeDynamic",
    "TRT::CropAndResizeDynamic",
)


class CropAndResizeDynamic:
    """Resize crops of feature maps to one size; regions are y1, x1, y2 and x2 from 0 to 1."""

    def __init__(
        self,
        crop_width: int,
        crop_height: int,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.size = (crop_height, crop_width)

    def infer(self, maps, rois):
        batch, channels = (maps.shape or (None, None))[:2]
        if rois.shape:
            regions = rois.shape[1]
        else:
            regions = None
        shape = (batch, regions, channels, *self.size)
        return maps.like(shape=shape)

    def compute(self, maps, rois):
        batch, channels = maps.shape[:2]
        if rois.shape[2] != 4:
            raise ValueError(f"rois: expected [B,R,4] or [B,R,4,1], got {list(rois.shape)}")
        # Regions have an axis of one at the end.
        boxes = rois.astype(np.float32).reshape(batch, -1, 4)
        shape = (*boxes.shape[:2], channels, *self.size)
        crops = np.empty(shape, maps.dtype)
        for image, region in np.ndindex(crops.shape[:2]):
            pixels = maps[image].astype(np.float32)
            crops[image, region] = crop_and_resize(pixels, boxes[image, region], self.size)
        return crops
