"""TRT_FP8QuantizeLinear, with which NVIDIA's Model Optimizer quantizes to 8-bit floats.

Defined in NVIDIA/Model-Optimizer a2fbac7, modelopt/torch/quantization/export_onnx.py. The result is
float8_e4m3fn, which old files declare as uint8. Tested against the ONNX Runtime QuantizeLinear,
exactly.
"""

import numpy as np
from ml_dtypes import float8_e4m3fn

NAMES = ("trt::TRT_FP8QuantizeLinear",)

LARGEST = 448  # of float8_e4m3fn


class TRT_FP8QuantizeLinear:
    """Divide by the scale and round to 8-bit floats, saturating at the largest of them."""

    def infer(self, x, scale):
        return x.like(dtype="float8_e4m3fn")

    def compute(self, x, scale):
        scaled = x.astype(np.float32) / scale.astype(np.float32)
        # Without a limit, the conversion gives NaN for large numbers.
        return scaled.clip(-LARGEST, LARGEST).astype(float8_e4m3fn)
