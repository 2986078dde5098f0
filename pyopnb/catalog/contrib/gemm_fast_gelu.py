"""GemmFastGelu of com.microsoft, a MatMul and a FastGelu in one node for AMD's GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. Tested against the ONNX Runtime MatMul and FastGelu, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.activations import fast_gelu
from pyopnb.catalog.cores.onnx_text import dtype_number
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::GemmFastGelu",)


class GemmFastGelu:
    """Multiply matrices, add a bias, and apply Gelu by its approximation with tanh."""

    def infer(self, x, weight, bias=None):
        if not x.shape or weight.shape is None:
            return TensorType(x.dtype, None)
        shape = (*x.shape[:-1], weight.shape[-1])
        return x.like(shape=shape)

    def compute(self, x, weight, bias=None):
        # Float16 is multiplied in float32, as the GPU's tensor cores accumulate it.
        product = x.astype(np.float32) @ weight.astype(np.float32)
        if bias is not None:
            product += bias.astype(np.float32)
        return fast_gelu(product).astype(x.dtype)

    lowered_opset = 20
    lowered_finite = True

    def lowered(self, x, weight, bias=None):
        # A bias that is left out is no input of the function.
        added = "product" if bias is None else "sum"
        return f"""(x, weight, bias) => (y) {{
            x_32 = Cast<to = 1>(x)
            weight_32 = Cast<to = 1>(weight)
            product = MatMul(x_32, weight_32)
            {"" if bias is None else "bias_32 = Cast<to = 1>(bias)  sum = Add(product, bias_32)"}
            activated = Gelu<approximate = "tanh">({added})
            y = Cast<to = {dtype_number(x)}>(activated)
        }}"""
