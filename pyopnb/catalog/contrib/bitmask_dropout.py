"""BitmaskDropout of com.microsoft, the ONNX Dropout with a mask of bits.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Differs: in training it drops elements at random, by the generator of NumPy instead of
the kernel's. Tested against its formula in NumPy with the mask that it returns, to 1e-6.
"""

import numpy as np

from pyopnb.catalog.cores.dropout import bitmask, drop

NAMES = ("com.microsoft::BitmaskDropout",)


class BitmaskDropout:
    """Drop elements in training, and return a mask with a bit set for each kept one."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def infer(self, data, ratio=None, training_mode=None):
        return data, data.like(dtype="uint32", shape=(None,))

    def compute(self, data, ratio=None, training_mode=None) -> ("any[...]", "uint32[?]"):
        everything = np.ones(data.shape, bool)
        kept, mask = drop(data, everything, ratio, training_mode, self.seed)
        return kept.astype(data.dtype), bitmask(mask)
