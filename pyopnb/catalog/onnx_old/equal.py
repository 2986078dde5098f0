"""Equal of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Equal-1. Tested against the ONNX Runtime Equal of
today, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import OldComparison

NAMES = ("::Equal",)
VERSIONS = (1,)


class Equal_1(OldComparison):
    """Tell where the inputs are equal, the second one broadcast from ``axis`` on."""

    def combine(self, a, b):
        # NaN equals nothing, itself included.
        return np.equal(a, b)
