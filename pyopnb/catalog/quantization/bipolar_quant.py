"""BipolarQuant of QONNX, which keeps the sign only.

Defined in fastmachinelearning/qonnx v0.4.0, docs/qonnx-custom-ops/bipolar_quant_op.md. Tested
against its formula in NumPy, exactly.
"""

import numpy as np

NAMES = (
    "qonnx.custom_op.general::BipolarQuant",
    "onnx.brevitas::BipolarQuant",
    "finn.custom_op.general::BipolarQuant",
)


class BipolarQuant:
    """Return the scale where an element is 0 or more, and minus the scale elsewhere."""

    def infer(self, x, scale):
        return x

    def compute(self, x, scale):
        result = np.where(x >= 0, scale, -scale)
        return result.astype(x.dtype)
