"""QuantizeWithOrder of com.microsoft, which quantizes a matrix and lays it as cuBLASLt wants it.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/quantization_defs.cc,
version 1. Differs: orders in tiles (COL32 and its kin) are refused: NVIDIA does not document them.
Tested against its formula in NumPy, exactly.
"""

from pyopnb.catalog.cores.matrix_orders import from_order, quantize, refuse_tiles, to_order
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::QuantizeWithOrder",)


class QuantizeWithOrder:
    """Quantize to int8 with one scale, by rows or by columns."""

    def __init__(self, order_input: int, order_output: int):
        refuse_tiles("QuantizeWithOrder", order_input, order_output)
        self.orders = (order_input, order_output)

    def infer(self, x, scale):
        return x.like(dtype="int8")

    def compute(self, x, scale):
        matrix = quantize(widen(x), scale)
        # Elements are quantized alike, so that only their order changes.
        matrix = from_order(matrix, self.orders[0])
        return to_order(matrix, self.orders[1])
