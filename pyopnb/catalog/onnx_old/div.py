"""Div of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Div-1 and Div-6. Tested against the ONNX Runtime Div
of today, to 1e-6.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import OldArithmetic

NAMES = ("::Div",)
VERSIONS = (1, 6)


class Div_1(OldArithmetic):
    """Divide by the second input, broadcast from ``axis`` on; quotients of integers are cut off."""

    def combine(self, a, b):
        if a.dtype.kind == "f":
            return a / b
        # NumPy's // goes down; C++ goes toward zero.
        result = np.abs(a) // np.abs(b)
        result = result * np.sign(a)
        result = result * np.sign(b)
        return result.astype(a.dtype)
