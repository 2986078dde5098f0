"""CropAndResize of TensorFlow, as converters of its first years wrote it.

Defined in tensorflow/tensorflow v2.16.1, tensorflow/core/kernels/image/crop_and_resize_op.cc. Files
with the attribute ``mode`` have it from com.microsoft, with channels first; files with ``method``,
or with neither, have TensorFlow's images with channels last. Tested against the ONNX Runtime
CropAndResize of com.microsoft, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.crop_and_resize import crop_and_resize
from pyopnb.engine import TensorType

NAMES = ("::CropAndResize",)


class CropAndResize:
    """Resize crops of images to one size; boxes are y1, x1, y2 and x2 from 0 to 1."""

    def __init__(self, method: str = "", mode: str = "", extrapolation_value: float = 0.0):
        self.is_channels_first = bool(mode)
        self.takes_nearest = (mode or method) == "nearest"
        self.outside = extrapolation_value

    def infer(self, images, boxes, numbers, size):
        return TensorType("float32", None)

    def compute(self, images, boxes, numbers, size):
        maps = images.astype(np.float32)
        if not self.is_channels_first:
            maps = np.moveaxis(maps, -1, 1)
        shape = (len(boxes), maps.shape[1], *size)
        # TensorFlow gives float32 for all images.
        crops = np.empty(shape, np.float32)
        crop_size = tuple(int(length) for length in size)
        for position, (box, number) in enumerate(zip(boxes, numbers, strict=True)):
            crops[position] = crop_and_resize(
                maps[number],
                box.astype(np.float32),
                crop_size,
                takes_nearest=self.takes_nearest,
                outside=self.outside,
            )
        if not self.is_channels_first:
            crops = np.ascontiguousarray(np.moveaxis(crops, 1, -1))
        return crops
