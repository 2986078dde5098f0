"""Gemm of ONNX versions 1 and 6, which broadcast the third input only if told to.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Gemm-1 and Gemm-6. Tested against ONNX Runtime's
Gemm of today, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen
from pyopnb.engine import TensorType

NAMES = ("::Gemm",)
VERSIONS = (1, 6)


class Gemm_1:
    """Compute alpha · A · B + beta · C, where the matrices may be transposed."""

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        broadcast: int = 0,
        transA: int = 0,
        transB: int = 0,
    ):
        self.alpha = alpha
        self.beta = beta
        self.is_transposed = (bool(transA), bool(transB))

    def infer(self, a, b, c):
        if a.shape is None or b.shape is None:
            return TensorType(a.dtype, None)
        rows = a.shape[1 if self.is_transposed[0] else 0]
        columns = b.shape[0 if self.is_transposed[1] else 1]
        return a.like(shape=(rows, columns))

    def compute(self, a, b, c):
        first = widen(a)
        second = widen(b)
        if self.is_transposed[0]:
            first = first.T
        if self.is_transposed[1]:
            second = second.T
        # Without broadcasting, C has the shape of the product, and the NumPy rule changes nothing.
        total = self.alpha * (first @ second)
        total = total + self.beta * widen(c)
        return np.asarray(total).astype(a.dtype)
