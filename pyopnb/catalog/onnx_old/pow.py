"""Pow of ONNX before version 7, whose exponents may begin at any axis of the bases.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Pow-1. Tested against the ONNX Runtime Pow of today,
to 1e-6.
"""

from pyopnb.catalog.cores.old_broadcast import OldArithmetic

NAMES = ("::Pow",)
VERSIONS = (1,)


class Pow_1(OldArithmetic):
    """Raise to the power of the second input, broadcast from ``axis`` on."""

    def combine(self, base, exponent):
        # NaN to the power of 0 is 1, also in C++.
        return base**exponent
