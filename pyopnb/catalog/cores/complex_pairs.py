"""Complex numbers as pairs of a real and an imaginary part in the last axis."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.onnx_text import dtype_number, wide
from pyopnb.catalog.cores.precision import wide_dtype
from pyopnb.engine import TensorType

__all__ = ["broadcast_type", "multiply_form", "multiply_pairs"]


def broadcast_type(a: TensorType, b: TensorType) -> TensorType:
    """Infer the type of a product with NumPy broadcasting."""
    # Unknown sizes broadcast only where both are the same.
    if a.shape == b.shape:
        return a
    sizes = [*(a.shape or ("?",)), *(b.shape or ("?",))]
    if not all(isinstance(size, int) for size in sizes):
        return TensorType(a.dtype, None)
    shape = np.broadcast_shapes(a.shape, b.shape)  # type: ignore[arg-type]  # all are numbers
    return a.like(shape=shape)


def multiply_pairs(a: np.ndarray, b: np.ndarray, *, conjugate_b: bool) -> np.ndarray:
    """Multiply pairs; float16 is computed in float32 and rounded once."""
    wide = wide_dtype(a.dtype)
    a_real, a_imaginary = np.moveaxis(a.astype(wide), -1, 0)
    b_real, b_imaginary = np.moveaxis(b.astype(wide), -1, 0)
    if conjugate_b:
        b_imaginary = -b_imaginary
    real = a_real * b_real - a_imaginary * b_imaginary
    imaginary = a_real * b_imaginary + a_imaginary * b_real
    result = np.stack([real, imaginary], axis=-1)
    return result.astype(a.dtype)


def multiply_form(a: TensorType, *, conjugate_b: bool) -> str:
    """Write `multiply_pairs` of ``a`` and ``b`` in the ONNX operators."""
    return f"""(a, b) => (product) {{
        one_and_one = Constant<value_ints = [1, 1]>()
        wide_a = Cast<to = {wide(a)}>(a)
        wide_b = Cast<to = {wide(a)}>(b)
        a_real, a_imaginary = Split<axis = -1>(wide_a, one_and_one)
        b_real, positive = Split<axis = -1>(wide_b, one_and_one)
        b_imaginary = {"Neg" if conjugate_b else "Identity"}(positive)
        reals = Mul(a_real, b_real)
        imaginaries = Mul(a_imaginary, b_imaginary)
        real = Sub(reals, imaginaries)
        outer = Mul(a_real, b_imaginary)
        inner = Mul(a_imaginary, b_real)
        imaginary = Add(outer, inner)
        pairs = Concat<axis = -1>(real, imaginary)
        product = Cast<to = {dtype_number(a)}>(pairs)
    }}"""
