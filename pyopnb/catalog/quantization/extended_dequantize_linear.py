"""ExtendedDequantizeLinear of AMD's Quark, DequantizeLinear for more dtypes.

Defined in amd/Quark 1d27b55, quark/onnx/operators/custom_ops/__init__.py. It is the ONNX
DequantizeLinear, also for int16, int32, float16 and bfloat16. Tested against the ONNX Runtime
DequantizeLinear, to 1e-6.
"""

import numpy as np

NAMES = ("com.amd.quark::ExtendedDequantizeLinear",)


class ExtendedDequantizeLinear:
    """Subtract the zero point and multiply by the scale."""

    def __init__(self, axis: int = 1):
        self.axis = axis

    def infer(self, x, scale, zero_point=None):
        return x.like(dtype=scale.dtype)

    def compute(self, x, scale, zero_point=None):
        shape = [1] * x.ndim
        if scale.size > 1:
            shape[self.axis] = scale.size
        # The difference of two int32 needs more than 32 bits.
        levels = x.astype(np.float64)
        if zero_point is not None:
            levels = levels - zero_point.astype(np.float64).reshape(shape)
        result = levels * scale.astype(np.float64).reshape(shape)
        return result.astype(scale.dtype)
