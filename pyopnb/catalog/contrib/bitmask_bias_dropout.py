"""BitmaskBiasDropout of com.microsoft, BiasDropout with a mask of bits.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Differs: in training it drops elements at random, by the generator of NumPy instead of
the kernel's. Tested against its formula in NumPy with the mask that it returns, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.dropout import bitmask, drop
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::BitmaskBiasDropout",)


class BitmaskBiasDropout:
    """Add a bias, drop, add a residual, and return a mask with a bit set for each kept element."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def infer(self, data, bias, residual=None, ratio=None, training_mode=None):
        return data, data.like(dtype="uint32", shape=(None,))

    def compute(
        self, data, bias, residual=None, ratio=None, training_mode=None
    ) -> ("any[...]", "uint32[?]"):
        # Three terms in float16 would be rounded twice.
        total = widen(data) + widen(bias)
        everything = np.ones(data.shape, bool)
        total, mask = drop(total, everything, ratio, training_mode, self.seed)
        if residual is not None:
            total = total + widen(residual)
        return total.astype(data.dtype), bitmask(mask)
