"""QOrderedMatMul of com.microsoft, a product of int8 matrices in the orders of cuBLASLt.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1: the first matrix by rows and the second one by columns. Differs: orders in tiles are
refused. Tested against its formula in NumPy, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.matrix_orders import COLUMNS, ROWS, quantize, refuse_tiles

NAMES = ("com.microsoft::QOrderedMatMul",)


class QOrderedMatMul:
    """Multiply int8 matrices, add a bias and a third matrix, and quantize with ``scale_y``."""

    def __init__(self, order_A: int, order_B: int, order_Y: int):
        refuse_tiles("QOrderedMatMul", order_A, order_B, order_Y)
        if (order_A, order_B, order_Y) != (ROWS, COLUMNS, ROWS):
            raise ValueError(
                f"orders: expected order_A=1, order_B=0, order_Y=1, "
                f"got {order_A}, {order_B}, {order_Y}"
            )

    def infer(self, a, scale_a, b, scale_b, scale_y, bias=None, c=None, scale_c=None):
        return a.like(shape=(*a.shape[:-1], None) if a.shape else None)

    def compute(self, a, scale_a, b, scale_b, scale_y, bias=None, c=None, scale_c=None):
        # By columns, each column of B lies in one piece, for both shapes that files
        # give it.
        columns = b.reshape(*b.shape[:-2], -1, a.shape[-1])
        columns = columns.astype(np.int32)
        # Sums of int8 products need 32 bits.
        product = a.astype(np.int32) @ columns.swapaxes(-1, -2)
        # Scales may be one a column.
        total = product.astype(np.float32) * (scale_a * scale_b)
        if bias is not None:
            total = total + bias
        if c is not None:
            total = total + c.astype(np.float32) * scale_c
        return quantize(total, scale_y)
