"""ImageScaler, with which CNTK and Core ML prepared images.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen

NAMES = ("::ImageScaler",)


class ImageScaler:
    """Multiply images by a number, and add one to each channel."""

    def __init__(self, bias: list[float], scale: float = 1.0):
        self.bias = np.float32(bias)
        self.scale = np.float32(scale)

    def infer(self, images):
        return images

    def compute(self, images):
        # Channels are the second axis; a single one would be broadcast to all of the bias.
        if images.shape[1] != len(self.bias):
            raise ValueError(f"bias: expected {images.shape[1]} numbers, got {len(self.bias)}")
        shifts = self.bias[:, None, None]
        scaled = widen(images) * self.scale + shifts
        return scaled.astype(images.dtype)
