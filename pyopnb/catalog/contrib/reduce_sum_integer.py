"""ReduceSumInteger of com.microsoft, a sum of quantized elements.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::ReduceSumInteger",)


class ReduceSumInteger:
    """Sum int8 as int32, and uint8 as uint32."""

    def __init__(self, axes: list[int], keepdims: int = 1):
        self.axes = tuple(axes)
        self.keepdims = bool(keepdims)

    def infer(self, data):
        result = "int32" if str(data.dtype) == "int8" else "uint32"
        return TensorType(result, None)

    def compute(self, data):
        if data.dtype == np.int8:
            wide = np.int32
        else:
            wide = np.uint32
        # An empty list means all axes.
        axes = self.axes or None
        result = data.sum(axis=axes, dtype=wide, keepdims=self.keepdims)
        return np.asarray(result)
