"""Affine, a product and a sum with two numbers.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

from pyopnb.catalog.cores.precision import widen

NAMES = ("::Affine",)


class Affine:
    """Compute alpha · x + beta."""

    def __init__(self, alpha: float = 1.0, beta: float = 0.0):
        self.alpha = alpha
        self.beta = beta

    def infer(self, x):
        return x

    def compute(self, x):
        # Both steps are rounded once together.
        scaled = self.alpha * widen(x)
        return (scaled + self.beta).astype(x.dtype)
