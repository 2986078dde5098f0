"""ResizeNearest of Caffe2, with which feature pyramids grow.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/resize_op.cc. Tested against ONNX Runtime's
Resize, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.onnx_text import resize_form
from pyopnb.catalog.cores.sampling import infer_scaled

NAMES = ("org.pytorch._caffe2::ResizeNearest",)


class ResizeNearest:
    """Scale the rows and columns of images by repeating pixels."""

    def __init__(self, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW"):
        if order != "NCHW":
            raise ValueError(f"order: expected NCHW, got {order}")
        self.scales = (height_scale, width_scale)

    def infer(self, x):
        return infer_scaled(x, self.scales)

    def compute(self, x):
        pixels = []
        for size, scale in zip(x.shape[2:], self.scales, strict=True):
            nearest = np.arange(int(size * scale))
            nearest = nearest / np.float32(scale)
            # Rounding of the quotient may reach one pixel beyond the last.
            pixels.append(np.minimum(nearest.astype(np.int64), size - 1))
        rows, columns = pixels
        return np.ascontiguousarray(x[:, :, rows[:, None], columns])

    def lowered(self, x):
        # Both go down to the pixel above and before.
        return resize_form(x, self.scales, "nearest")
