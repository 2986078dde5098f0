"""Sub of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Sub-1 and Sub-6. Tested against the ONNX Runtime Sub
of today, to 1e-6.
"""

from pyopnb.catalog.cores.old_broadcast import OldArithmetic

NAMES = ("::Sub",)
VERSIONS = (1, 6)


class Sub_1(OldArithmetic):
    """Subtract the second input, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # Elements are subtracted in their own dtype, which rounds once.
        return a - b
