"""cummax of mmcv 1.x, the torch running maximum and its position.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/onnxruntime_register.cpp; of equal
elements it is the last one, as torch has it. Tested against a loop by its definition, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.running_extremes import find_running

NAMES = ("mmcv::cummax", "mmdeploy::cummax")


class cummax:
    """Return the largest element so far along an axis, and its index."""

    def __init__(self, dim: int):
        self.dim = dim

    def infer(self, x):
        return x, x.like(dtype="int64")

    def compute(self, x) -> ("any[...]", "int64[...]"):
        # An element that equals the extreme so far takes its place.
        return find_running(x, np.maximum, self.dim)
