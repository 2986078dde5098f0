"""MulInteger of com.microsoft, a product of quantized tensors.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::MulInteger",)


class MulInteger:
    """Subtract the zero points and multiply, in int32, with NumPy broadcasting."""

    def infer(self, a, a_zero_point=None, b=None, b_zero_point=None):
        return TensorType("int32", None)

    def compute(self, a, a_zero_point=None, b=None, b_zero_point=None):
        # Products of 8-bit levels would wrap in 8 bits.
        first = a.astype(np.int32)
        second = b.astype(np.int32)
        if a_zero_point is not None:
            first = first - a_zero_point.astype(np.int32)
        if b_zero_point is not None:
            second = second - b_zero_point.astype(np.int32)
        return first * second
