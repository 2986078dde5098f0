"""Equal of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Equal-1.
Tested against ONNX Runtime's Equal of today, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import align

NAMES = ("::Equal",)
VERSIONS = (1,)


class Equal_1:
    """Tell where the inputs are equal, the second one broadcast from ``axis`` on."""

    def __init__(self, broadcast: int = 0, axis: int | None = None):
        self.broadcast = broadcast
        self.axis = axis

    def infer(self, a, b):
        return a.like(dtype="bool")

    def compute(self, a, b):
        # Today's rule would align the last axes, whatever the node says.
        return np.equal(a, align(a, b, self.broadcast, self.axis))
