"""ScaledTanh, an activation with two numbers.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen

NAMES = ("::ScaledTanh",)


class ScaledTanh:
    """Compute alpha · tanh(beta · x)."""

    def __init__(self, alpha: float = 1.0, beta: float = 1.0):
        self.alpha = alpha
        self.beta = beta

    def infer(self, x):
        return x

    def compute(self, x):
        # Rounded once, after the last product.
        squashed = np.tanh(self.beta * widen(x))
        return (self.alpha * squashed).astype(x.dtype)
