"""Quant of QONNX, with which Brevitas exports quantizers of any number of bits.

Defined in fastmachinelearning/qonnx v0.4.0, docs/qonnx-custom-ops/quant_op.md. Differs: it clamps
before it rounds, as the package qonnx 1.0.0 does; its document rounds first, which differs beyond
the limits only. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.rounding import find_rounding

NAMES = ("qonnx.custom_op.general::Quant", "onnx.brevitas::Quant", "finn.custom_op.general::Quant")


class Quant:
    """Quantize to integers of ``bitwidth`` bits and convert back to floats."""

    def __init__(self, signed: int = 1, narrow: int = 0, rounding_mode: str = "ROUND"):
        self.signed = bool(signed)
        self.narrow = int(bool(narrow))
        self.round = find_rounding(rounding_mode)

    def infer(self, x, scale, zeropt, bitwidth):
        return x

    def compute(self, x, scale, zeropt, bitwidth):
        levels = 2.0**bitwidth
        # A narrow range leaves out the level that has no counterpart of the other sign.
        if self.signed:
            lowest = self.narrow - levels / 2
            highest = levels / 2 - 1
        else:
            lowest = np.zeros_like(levels)
            highest = levels - 1 - self.narrow
        quantized = x / scale + zeropt
        quantized = np.clip(quantized, lowest, highest)
        # Clamping first changes results beyond the limits only.
        quantized = self.round(quantized)
        result = (quantized - zeropt) * scale
        return result.astype(x.dtype)
