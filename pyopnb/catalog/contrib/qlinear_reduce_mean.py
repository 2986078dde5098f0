"""QLinearReduceMean of com.microsoft, a mean of quantized elements.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::QLinearReduceMean",)


class QLinearReduceMean:
    """Dequantize, take the mean in float32, and quantize with the output's scale and zero point."""

    def __init__(self, axes: list[int], keepdims: int = 1):
        self.axes = tuple(axes)
        self.keepdims = bool(keepdims)

    def infer(self, data, data_scale, data_zero_point, reduced_scale, reduced_zero_point=None):
        return TensorType(data.dtype, None)

    def compute(self, data, data_scale, data_zero_point, reduced_scale, reduced_zero_point=None):
        shifted = data.astype(np.float32)
        if data_zero_point is not None:
            shifted = shifted - data_zero_point.astype(np.float32)
        # An empty list means all axes.
        axes = self.axes or None
        mean = (shifted * data_scale).mean(axis=axes, keepdims=self.keepdims, dtype=np.float32)
        # Halves go to the even number, as QuantizeLinear rounds.
        quantized = np.rint(mean / reduced_scale)
        if reduced_zero_point is not None:
            quantized = quantized + reduced_zero_point.astype(np.float32)
        limits = np.iinfo(data.dtype)
        result = quantized.clip(limits.min, limits.max)
        result = result.astype(data.dtype)
        return np.asarray(result)
