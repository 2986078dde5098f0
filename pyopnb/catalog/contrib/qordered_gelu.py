"""QOrderedGelu of com.microsoft, Gelu of int8.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. It works on one element at a time, so that any order of both matrices is right if it is
one. Tested against the ONNX Runtime Gelu, to one level of int8.
"""

import numpy as np

from pyopnb.catalog.cores.activations import gelu
from pyopnb.catalog.cores.matrix_orders import quantize

NAMES = ("com.microsoft::QOrderedGelu",)


class QOrderedGelu:
    """Dequantize, apply the exact Gelu, and quantize again."""

    def __init__(self, order_X: int = 1, order_Y: int = -1):
        # Without its own order, the result has the order of the input.
        if order_Y not in (-1, order_X):
            raise ValueError(f"order_Y: expected order_X, {order_X}, got {order_Y}")

    def infer(self, x, scale_x, scale_y):
        return x

    def compute(self, x, scale_x, scale_y):
        result = x.astype(np.float32) * scale_x
        result = gelu(result)
        # Order does not matter to a function of single elements.
        return quantize(result, scale_y)
