"""Crop, which cuts the borders of images off.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

import numpy as np

NAMES = ("::Crop",)


class Crop:
    """Cut the borders off: left, top, right and bottom.

    With ``scale``, only left and top are cut, and then that many rows and columns are kept.
    """

    def __init__(self, border: list[int] = [0, 0, 0, 0], scale: list[int] = []):
        self.border = border
        self.size = scale

    def infer(self, images):
        batch, channels = (images.shape or (None, None))[:2]
        return images.like(shape=(batch, channels, None, None))

    def compute(self, images):
        first_column, first_row, right, bottom = self.border
        last_row = images.shape[2] - bottom
        last_column = images.shape[3] - right
        if self.size:
            # The size goes before the other two borders.
            last_row = first_row + self.size[0]
            last_column = first_column + self.size[1]
        cropped = images[:, :, first_row:last_row, first_column:last_column]
        return np.ascontiguousarray(cropped)
