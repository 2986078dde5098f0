"""DequantizeWithOrder of com.microsoft, which converts a matrix of cuBLASLt back to floats.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Differs: orders in tiles (COL32 and its kin) are refused: NVIDIA does not document them.
Tested against its formula in NumPy, exactly.
"""

import numpy as np
import onnx

from pyopnb.catalog.cores.matrix_orders import from_order, refuse_tiles, to_order

NAMES = ("com.microsoft::DequantizeWithOrder",)


class DequantizeWithOrder:
    """Multiply int8 by one scale, by rows or by columns."""

    def __init__(self, order_input: int, order_output: int, to: int):
        refuse_tiles("DequantizeWithOrder", order_input, order_output)
        self.orders = (order_input, order_output)
        self.dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(to))

    def infer(self, x, scale):
        return x.like(dtype=self.dtype.name)

    def compute(self, x, scale):
        matrix = x.astype(np.float32) * scale
        # Elements are scaled alike, so that only their order changes.
        matrix = from_order(matrix, self.orders[0])
        result = to_order(matrix, self.orders[1])
        return result.astype(self.dtype)
