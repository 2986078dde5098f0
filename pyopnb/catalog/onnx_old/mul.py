"""Mul of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Mul-1 and Mul-6. Tested against the ONNX Runtime Mul
of today, to 1e-6.
"""

from pyopnb.catalog.cores.old_broadcast import OldArithmetic

NAMES = ("::Mul",)
VERSIONS = (1, 6)


class Mul_1(OldArithmetic):
    """Multiply the inputs, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # Elements are multiplied in their own dtype, which rounds once.
        return a * b
