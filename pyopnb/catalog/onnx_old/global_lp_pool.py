"""GlobalLpPool of ONNX version 1, whose power is a float.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, GlobalLpPool-1. Tested against the NumPy norm, to
1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen

NAMES = ("::GlobalLpPool",)
VERSIONS = (1,)


class GlobalLpPool_1:
    """Take the p-norm of each channel."""

    def __init__(self, p: float = 2.0):
        self.p = p

    def infer(self, x):
        if not x.shape:
            return x
        shape = (*x.shape[:2], *(1,) * (len(x.shape) - 2))
        return x.like(shape=shape)

    def compute(self, x):
        axes = tuple(range(2, x.ndim))
        # The sum of powers overflows float16 early.
        powers = np.abs(widen(x)) ** self.p
        result = powers.sum(axis=axes, keepdims=True)
        result = result ** (1 / self.p)
        return result.astype(x.dtype)
