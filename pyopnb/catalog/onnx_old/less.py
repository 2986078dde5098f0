"""Less of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Less-1. Tested against the ONNX Runtime Less of
today, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import OldComparison

NAMES = ("::Less",)
VERSIONS = (1,)


class Less_1(OldComparison):
    """Tell where the first input is less, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # NaN is not less than anything.
        return np.less(a, b)
