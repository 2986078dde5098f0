"""Trunc of QONNX, which drops the lowest bits of a quantized tensor.

Defined in fastmachinelearning/qonnx v0.4.0, docs/qonnx-custom-ops/trunc_op.md. Since 1.0 it has six
inputs, and is another operator. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.rounding import find_rounding

NAMES = ("qonnx.custom_op.general::Trunc", "onnx.brevitas::Trunc", "finn.custom_op.general::Trunc")


class Trunc:
    """Quantize, divide by a power of two, round, and convert back."""

    def __init__(self, rounding_mode: str = "FLOOR"):
        self.round = find_rounding(rounding_mode)

    def infer(self, x, scale, zeropt, input_bitwidth, output_bitwidth):
        return x

    def compute(self, x, scale, zeropt, input_bitwidth, output_bitwidth):
        # Inputs are on the grid but for errors of floats, which rounding removes.
        levels = x / scale + zeropt
        levels = np.rint(levels)
        truncated = levels / 2.0 ** (input_bitwidth - output_bitwidth)
        truncated = self.round(truncated)
        result = (truncated - zeropt) * scale
        return result.astype(x.dtype)
