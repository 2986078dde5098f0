"""ExtendedQuantizeLinear of AMD's Quark, QuantizeLinear for more dtypes.

Defined in amd/Quark 1d27b55, quark/onnx/operators/custom_ops/__init__.py. It is the ONNX
QuantizeLinear, also for int16, int32, float16 and bfloat16. Without a zero point, the result is
uint8. Tested against the ONNX Runtime QuantizeLinear, exactly.
"""

import ml_dtypes
import numpy as np

NAMES = ("com.amd.quark::ExtendedQuantizeLinear",)


class ExtendedQuantizeLinear:
    """Divide by the scale, round, add the zero point, and convert to its dtype."""

    def __init__(self, axis: int = 1):
        self.axis = axis

    def infer(self, x, scale, zero_point=None):
        return x.like(dtype="uint8" if zero_point is None else zero_point.dtype)

    def compute(self, x, scale, zero_point=None):
        if zero_point is None:
            zero = np.uint8(0)
        else:
            zero = zero_point
        shape = [1] * x.ndim
        if scale.size > 1:
            # A scale for each slice along one axis.
            shape[self.axis] = scale.size
        scaled = x.astype(np.float64) / scale.astype(np.float64).reshape(shape)
        if zero.dtype.kind not in "iu":
            # Floats saturate at their largest number instead of becoming infinite.
            limits = ml_dtypes.finfo(zero.dtype)
            shifted = scaled + zero.astype(np.float64).reshape(shape)
            return shifted.clip(float(limits.min), float(limits.max)).astype(zero.dtype)
        bounds = np.iinfo(zero.dtype)
        levels = np.rint(scaled) + zero.astype(np.float64).reshape(shape)
        result = levels.clip(bounds.min, bounds.max)
        return result.astype(zero.dtype)
