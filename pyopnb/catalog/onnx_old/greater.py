"""Greater of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Greater-1. Tested against the ONNX Runtime Greater
of today, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import OldComparison

NAMES = ("::Greater",)
VERSIONS = (1,)


class Greater_1(OldComparison):
    """Tell where the first input is greater, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # NaN is not greater than anything.
        return np.greater(a, b)
