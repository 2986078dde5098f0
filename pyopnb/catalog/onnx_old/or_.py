"""Or of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Or-1. Tested against the ONNX Runtime Or of today,
exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import OldComparison

NAMES = ("::Or",)
VERSIONS = (1,)


class Or_1(OldComparison):
    """Tell where one of the inputs is true, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # Inputs are bool: that version has no other dtypes.
        return np.logical_or(a, b)
