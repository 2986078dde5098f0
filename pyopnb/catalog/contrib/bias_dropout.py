"""BiasDropout of com.microsoft, an addition, a dropout and a residual in one node.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Differs: in training it drops elements at random, by the generator of NumPy instead of
the kernel's. Tested against its formula in NumPy with the mask that it returns, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.dropout import drop
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::BiasDropout",)


class BiasDropout:
    """Add a bias, drop, and add a residual; outside training nothing is dropped."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def infer(self, data, bias, residual=None, ratio=None, training_mode=None):
        return data, data.like(dtype="bool")

    def compute(
        self, data, bias, residual=None, ratio=None, training_mode=None
    ) -> ("any[...]", "bool[...]"):
        # Three terms in float16 would be rounded twice.
        total = widen(data) + widen(bias)
        everything = np.ones(data.shape, bool)
        total, mask = drop(total, everything, ratio, training_mode, self.seed)
        if residual is not None:
            total = total + widen(residual)
        return total.astype(data.dtype), mask
