"""Upsample of ONNX version 1, which scales the rows and columns of images.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Upsample-1. Its text gives no formula for bilinear;
as ONNX Runtime does for version 7, coordinates are divided by the scale and stop at the last pixel.
Tested against the ONNX Runtime Upsample of version 7, to 1e-5.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.onnx_text import resize_form
from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.sampling import bilinear, infer_scaled

NAMES = ("::Upsample",)
VERSIONS = (1,)


class Upsample_1:
    """Scale images by repeating pixels, or by interpolating between them."""

    def __init__(
        self,
        height_scale: float,
        width_scale: float,
        mode: Literal["nearest", "bilinear"] = "nearest",
    ):
        self.scales = (height_scale, width_scale)
        self.mode = mode

    def infer(self, x):
        return infer_scaled(x, self.scales)

    def compute(self, x):
        coordinates = []
        for size, scale in zip(x.shape[2:], self.scales, strict=True):
            # Nearest goes down to the pixel above and before.
            positions = np.arange(int(size * scale))
            positions = positions / np.float32(scale)
            coordinates.append(positions.clip(0, size - 1))
        if self.mode == "nearest":
            rows, columns = (np.floor(axis).astype(np.int64) for axis in coordinates)
            return np.ascontiguousarray(x[:, :, rows[:, None], columns])
        # Bilinear needs a coordinate for each pixel of the result.
        rows, columns = np.meshgrid(*coordinates, indexing="ij")
        images = [bilinear(widen(image), rows, columns) for image in x]
        return np.stack(images).astype(x.dtype)

    lowered_finite = True

    def lowered(self, x):
        # ONNX has another word for bilinear.
        return resize_form(x, self.scales, "nearest" if self.mode == "nearest" else "linear")
