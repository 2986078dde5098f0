"""ComplexMulConj of com.microsoft, a product of complex numbers that are pairs in the last axis.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, and in the kernel contrib_ops/cuda/math/complex_mul.cc. Tested against the NumPy complex
product, to 1e-5.
"""

from pyopnb.catalog.cores.complex_pairs import broadcast_type, multiply_form, multiply_pairs

NAMES = ("com.microsoft::ComplexMulConj",)


class ComplexMulConj:
    """Multiply complex numbers by the conjugates of others, with NumPy broadcasting."""

    def infer(self, a, b):
        return broadcast_type(a, b)

    def compute(self, a, b):
        # Only the second factor is conjugated.
        return multiply_pairs(a, b, conjugate_b=True)

    def lowered(self, a, b):
        return multiply_form(a, conjugate_b=True)
