"""MMCVCornerPool, with which CornerNet looks for the corners of boxes.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/corner_pool.py, after Law and Deng (2018). Tested
against maps whose corners are known, exactly.
"""

from typing import Literal

import numpy as np

NAMES = ("mmcv::MMCVCornerPool", "mmdeploy::MMCVCornerPool")

TOP, BOTTOM, LEFT, RIGHT = range(4)


class MMCVCornerPool:
    """Take the running maximum along rows or columns, toward the side that ``mode`` names."""

    def __init__(self, mode: Literal[0, 1, 2, 3]):
        self.mode = mode

    def infer(self, x):
        return x

    def compute(self, x):
        if self.mode in (TOP, BOTTOM):
            # Top and bottom go along the rows' axis, left and right along the columns'.
            axis = 2
        else:
            axis = 3
        if self.mode in (TOP, LEFT):
            # The maximum runs from the far side, so that the image is turned around twice.
            backwards = np.maximum.accumulate(np.flip(x, axis), axis)
            return np.ascontiguousarray(np.flip(backwards, axis))
        return np.maximum.accumulate(x, axis)
