"""Add of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Add-1 and Add-6. Tested against the ONNX Runtime Add
of today, to 1e-6.
"""

from pyopnb.catalog.cores.old_broadcast import OldArithmetic

NAMES = ("::Add",)
VERSIONS = (1, 6)


class Add_1(OldArithmetic):
    """Add the inputs, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # Elements are added in their own dtype, which rounds once.
        return a + b
