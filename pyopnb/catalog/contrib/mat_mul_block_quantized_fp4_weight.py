"""MatMulBlockQuantizedFp4Weight of com.microsoft, a product with weights of NVFP4.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. Tested against its formula in NumPy in float64, to 2e-3 (float16).
"""

import numpy as np
from ml_dtypes import float8_e4m3fn

from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::MatMulBlockQuantizedFp4Weight",)

# The sixteen values of float4_e2m1fn, by their bits.
LEVELS = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


class MatMulBlockQuantizedFp4Weight:
    """Multiply by the transpose of 4-bit weights.

    A byte holds two weights, and each block of a row has a scale.
    """

    def __init__(self, block_size: int = 16):
        self.block_size = block_size

    def infer(self, a, b, weight_scale, weight_scale_2, input_scale=None, bias=None):
        if b.shape:
            outputs = b.shape[0]
        else:
            outputs = None
        return a.like(shape=(*a.shape[:-1], outputs) if a.shape else None)

    def compute(self, a, b, weight_scale, weight_scale_2, input_scale=None, bias=None):
        # The low half of a byte is the first weight.
        nibbles = np.stack([b & 15, b >> 4], axis=-1)
        nibbles = nibbles.reshape(len(b), -1)
        # Files store the scales as bytes.
        block_scales = weight_scale.view(float8_e4m3fn).astype(np.float32)
        per_column = np.repeat(block_scales, self.block_size, axis=1)[:, : nibbles.shape[1]]
        weights = LEVELS[nibbles] * weight_scale_2 * per_column
        # Weights are rounded to the activation's dtype, in which they are multiplied.
        product = widen(a) @ weights.astype(a.dtype).astype(np.float32).T
        if bias is not None:
            product = product + widen(bias)
        return product.astype(a.dtype)
