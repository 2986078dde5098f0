"""Quant of QONNX, with which Brevitas exports quantizers of any number of bits.

Defined in fastmachinelearning/qonnx, docs/qonnx-custom-ops/quant_op.md. The package qonnx 1.0.0
clamps before it rounds, and so does this; its document rounds first, which differs beyond the
limits only.
"""

import numpy as np

NAMES = ("qonnx.custom_op.general::Quant", "onnx.brevitas::Quant", "finn.custom_op.general::Quant")


def _half_away(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _half_down(x):
    return np.sign(x) * np.ceil(np.abs(x) - 0.5)


ROUNDINGS = {
    "ROUND": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ROUND_TO_ZERO": np.trunc,
    "DOWN": np.trunc,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "HALF_UP": _half_away,
    "HALF_DOWN": _half_down,
    "HALF_EVEN": np.rint,
}


class Quant:
    """Quantize to integers of ``bitwidth`` bits and convert back to floats."""

    def __init__(self, signed: int = 1, narrow: int = 0, rounding_mode: str = "ROUND"):
        self.signed = bool(signed)
        self.narrow = int(bool(narrow))
        self.round = ROUNDINGS[rounding_mode.upper()]

    def infer(self, x, scale, zeropt, bitwidth):
        return x

    def compute(self, x, scale, zeropt, bitwidth):
        if self.signed:
            lowest = -(2.0 ** (bitwidth - 1)) + self.narrow
            highest = 2.0 ** (bitwidth - 1) - 1
        else:
            lowest = 0 * bitwidth
            highest = 2.0**bitwidth - 1 - self.narrow
        quantized = self.round(np.clip(x / scale + zeropt, lowest, highest))
        return ((quantized - zeropt) * scale).astype(x.dtype)
