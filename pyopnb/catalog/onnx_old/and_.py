"""And of ONNX before version 7, whose second input may begin at any axis of the first.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, And-1.
Tested against ONNX Runtime's And of today, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.old_broadcast import align

NAMES = ("::And",)
VERSIONS = (1,)


class And_1:
    """Tell where both inputs are true, the second one broadcast from ``axis`` on."""

    def __init__(self, broadcast: int = 0, axis: int | None = None):
        self.broadcast = broadcast
        self.axis = axis

    def infer(self, a, b):
        return a.like(dtype="bool")

    def compute(self, a, b):
        # Today's rule would align the last axes, whatever the node says.
        return np.logical_and(a, align(a, b, self.broadcast, self.axis))
