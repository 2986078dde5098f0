"""QOrderedLayerNormalization of com.microsoft, a layer normalization of int8.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Matrices are by rows. Differs: orders in tiles are refused. Tested against ONNX Runtime's
LayerNormalization, to one level of int8.
"""

import numpy as np

from pyopnb.catalog.cores.matrix_orders import ROWS, quantize, refuse_tiles
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::QOrderedLayerNormalization",)


class QOrderedLayerNormalization:
    """Dequantize, normalize the axes from ``axis`` on, scale and shift, and quantize again."""

    def __init__(
        self, axis: int = -1, epsilon: float = 1e-5, order_X: int = ROWS, order_Y: int = ROWS
    ):
        refuse_tiles("QOrderedLayerNormalization", order_X, order_Y)
        self.axis = axis
        self.epsilon = np.float32(epsilon)

    def infer(self, x, scale_x, scale, bias, scale_y):
        return x

    def compute(self, x, scale_x, scale, bias=None, scale_y=None):
        first_axis = self.axis % x.ndim
        axes = tuple(range(first_axis, x.ndim))
        values = x.astype(np.float32) * scale_x
        # Two passes keep the digits that a mean of squares would lose.
        centered = values - values.mean(axis=axes, keepdims=True)
        variance = np.square(centered).mean(axis=axes, keepdims=True)
        normalized = centered / np.sqrt(variance + self.epsilon)
        normalized = normalized * widen(scale)
        if bias is not None:
            normalized = normalized + widen(bias)
        return quantize(normalized, scale_y)
