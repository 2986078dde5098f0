"""Pow of ONNX before version 7, whose exponents may begin at any axis of the bases.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Pow-1.
Tested against ONNX Runtime's Pow of today, to 1e-6.
"""

from pyopnb.catalog.cores.old_broadcast import align

NAMES = ("::Pow",)
VERSIONS = (1,)


class Pow_1:
    """Raise to the power of the second input, broadcast from ``axis`` on."""

    def __init__(self, broadcast: int = 0, axis: int | None = None):
        self.broadcast = broadcast
        self.axis = axis

    def infer(self, base, exponent):
        # Exponents may be a vector that goes along an axis in the middle.
        return base

    def compute(self, base, exponent):
        return base ** align(base, exponent, self.broadcast, self.axis)
