"""FusedMatMulActivation of com.microsoft, which DirectML's optimizer writes.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Tested against the ONNX Runtime FusedMatMul and activations, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.activations import activate
from pyopnb.catalog.cores.precision import wide_dtype
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::FusedMatMulActivation",)


class FusedMatMulActivation:
    """Multiply matrices that may be transposed, scale the product, and apply an activation."""

    def __init__(
        self,
        activation: str,
        alpha: float = 1.0,
        activation_alpha: float = 0.0,
        activation_beta: float = 0.0,
        activation_gamma: float = 0.0,
        activation_axis: int = -1,
        transA: int = 0,
        transB: int = 0,
        transBatchA: int = 0,
        transBatchB: int = 0,
    ):
        self.activation = activation
        self.alpha = alpha
        self.numbers = (activation_alpha, activation_beta, activation_gamma, activation_axis)
        self.transposes = ((transA, transBatchA), (transB, transBatchB))

    def infer(self, a, b):
        return TensorType(a.dtype, None)

    def compute(self, a, b):
        wide = wide_dtype(a.dtype)
        factors = []
        for array, (transposes, moves_batch) in zip((a, b), self.transposes, strict=True):
            matrix = array.astype(wide)
            if moves_batch:
                # The first axis goes after the batch's.
                matrix = np.moveaxis(matrix, 0, -2)
            factors.append(np.swapaxes(matrix, -1, -2) if transposes else matrix)
        # The activation sees the scaled product before it is rounded.
        product = self.alpha * (factors[0] @ factors[1])
        result = activate(self.activation, product.astype(wide), *self.numbers)
        return result.astype(a.dtype)
