"""MatMulBlockQuantizedFp8Weight of com.microsoft, a product with weights of 8-bit floats.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. Tested against a loop by its definition, to 2e-3 (float16).
"""

import numpy as np
from ml_dtypes import float8_e4m3fn

from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::MatMulBlockQuantizedFp8Weight",)

LARGEST = 448  # of float8_e4m3fn, at which the conversion saturates


class MatMulBlockQuantizedFp8Weight:
    """Multiply by the transpose of weights that share a scale in blocks of a row."""

    def __init__(self, block_size: int = 128):
        self.block_size = block_size

    def infer(self, a, b, b_scale, a_scale=None, bias=None):
        if b.shape:
            outputs = b.shape[0]
        else:
            outputs = None
        return a.like(shape=(*a.shape[:-1], outputs) if a.shape else None)

    def compute(self, a, b, b_scale, a_scale=None, bias=None):
        columns = b.shape[1]
        # The last block of a row may be shorter.
        per_column = np.repeat(b_scale, self.block_size, axis=1)[:, :columns]
        weights = b.astype(np.float32) * per_column
        activation = widen(a)
        if a_scale is not None:
            # The activation loses its digits as the GPU's 8-bit product would lose them.
            levels = (activation / a_scale).clip(-LARGEST, LARGEST)
            levels = levels.astype(float8_e4m3fn)
            activation = levels.astype(np.float32) * a_scale
        product = activation @ weights.T
        if bias is not None:
            product = product + widen(bias)
        return product.astype(a.dtype)
