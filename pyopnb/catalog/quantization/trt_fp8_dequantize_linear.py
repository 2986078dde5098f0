"""TRT_FP8DequantizeLinear, the inverse of TRT_FP8QuantizeLinear.

Defined in NVIDIA/Model-Optimizer a2fbac7, modelopt/torch/quantization/export_onnx.py. The scale has
the dtype of the result; weights in old files are bytes. Tested against numbers that are known,
exactly.
"""

import numpy as np
from ml_dtypes import float8_e4m3fn

NAMES = ("trt::TRT_FP8DequantizeLinear",)


class TRT_FP8DequantizeLinear:
    """Multiply 8-bit floats by the scale."""

    def infer(self, x, scale):
        return x.like(dtype=scale.dtype)

    def compute(self, x, scale):
        if x.dtype == np.uint8:
            levels = x.view(float8_e4m3fn)
        else:
            levels = x
        # Levels are exact in float32, and the product is rounded once.
        product = levels.astype(np.float32) * scale.astype(np.float32)
        return product.astype(scale.dtype)
