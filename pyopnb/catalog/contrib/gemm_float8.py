"""GemmFloat8 of com.microsoft, Gemm for 8-bit floats and for others.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, and by the product of cuBLASLt that its kernel calls: scales count for 8-bit floats, and
Gelu is the one by tanh. Tested against its formula in NumPy in float64, to 1e-4.
"""

import numpy as np
import onnx

from pyopnb.catalog.cores.activations import fast_gelu
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::GemmFloat8",)

FLOAT8 = {"float8_e4m3fn": 448, "float8_e5m2": 57344}  # and the largest number of each


class GemmFloat8:
    """Compute activation(alpha · A · B + beta · C), and scale the tensors that are 8-bit floats."""

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 0.0,
        transA: int = 0,
        transB: int = 0,
        dtype: int = 1,
        activation: str = "NONE",
    ):
        if activation not in {"NONE", "RELU", "GELU"}:
            raise ValueError(f"activation: expected RELU, GELU or NONE, got {activation!r}")
        self.alpha, self.beta = alpha, beta
        self.is_transposed = (bool(transA), bool(transB))
        self.dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
        self.activation = activation

    def infer(self, a, b, c=None, scale_a=None, scale_b=None, scale_y=None):
        return a.like(dtype=self.dtype.name, shape=(None, None))

    def compute(self, a, b, c=None, scale_a=None, scale_b=None, scale_y=None):
        factors = []
        for matrix, scale, is_transposed in zip(
            (a, b), (scale_a, scale_b), self.is_transposed, strict=True
        ):
            values = widen(matrix)
            if scale is not None and matrix.dtype.name in FLOAT8:
                values = values * scale
            factors.append(values.T if is_transposed else values)
        # Levels and scales are exact in float32; only the sum is rounded.
        total = self.alpha * (factors[0] @ factors[1])
        if c is not None:
            total = total + self.beta * widen(c)
        if self.activation == "RELU":
            total = np.maximum(total, 0)
        elif self.activation == "GELU":
            total = fast_gelu(total)
        if self.dtype.name in FLOAT8:
            largest = FLOAT8[self.dtype.name]
            total = total * (1 if scale_y is None else scale_y)
            # Without a limit, the conversion would give NaN for large numbers.
            total = total.clip(-largest, largest)
        return total.astype(self.dtype)
