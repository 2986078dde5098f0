"""Concat of ONNX version 1, whose axis is 1 where none is given.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Concat-1. Tested against the NumPy concatenate,
exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("::Concat",)
VERSIONS = (1,)


class Concat_1:
    """Concatenate tensors along an axis."""

    def __init__(self, axis: int = 1):
        # The ONNX reference wants the attribute, which files of that version leave out.
        self.axis = axis

    def infer(self, *tensors):
        return TensorType(tensors[0].dtype, None)

    def compute(self, *tensors):
        return np.concatenate(tensors, axis=self.axis)
