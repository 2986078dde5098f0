"""ParametricSoftplus, an activation with two numbers.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen

NAMES = ("::ParametricSoftplus",)


class ParametricSoftplus:
    """Compute alpha · log(1 + exp(beta · x))."""

    def __init__(self, alpha: float = 1.0, beta: float = 1.0):
        self.alpha = alpha
        self.beta = beta

    def infer(self, x):
        return x

    def compute(self, x):
        # logaddexp does not overflow where exp would.
        softplus = np.logaddexp(self.beta * widen(x), 0)
        return (self.alpha * softplus).astype(x.dtype)
