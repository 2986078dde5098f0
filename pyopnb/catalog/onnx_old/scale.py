"""Scale, a product with a number.

Defined in onnx/onnx v1.4.1, docs/Operators.md, as an experimental operator; removed in version 10.
ONNX Runtime has a kernel for it in older opsets, but files with newer opsets still use it.
Tested against the ONNX Runtime kernel of opset 9, to 1e-5.
"""

from pyopnb.catalog.cores.precision import widen

NAMES = ("::Scale",)


class Scale:
    """Multiply by a number."""

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def infer(self, x):
        return x

    def compute(self, x):
        # The number is a float32, which float16 could not hold.
        scaled = widen(x) * self.scale
        return scaled.astype(x.dtype)
