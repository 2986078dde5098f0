"""MatMulNBitsQLoRA of com.microsoft, a product of a few bits with an adapter of low rank beside it.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. The adapter's inner product is rounded to the dtype of the input, as a
node's output is. Tested against the ONNX Runtime MatMulNBits, to 1e-3.
"""

from pyopnb.catalog.cores.nbits import multiply_nbits

NAMES = ("com.microsoft::MatMulNBitsQLoRA",)


class MatMulNBitsQLoRA:
    """Multiply by the base's weights, and add the product with the two matrices of the adapter."""

    def __init__(
        self,
        K: int,
        N: int,
        bits: int = 4,
        block_size: int = 32,
        lora_bits: int = 8,
        lora_block_size: int = 32,
        accuracy_level: int = 0,
    ):
        self.outputs = N
        self.base = {"bits": bits, "block_size": block_size}
        self.adapter = {"bits": lora_bits, "block_size": lora_block_size}

    def infer(self, x, *others):
        return x.like(shape=(*x.shape[:-1], self.outputs) if x.shape else None)

    def compute(self, x, packed, scales, down_packed, down_scales, up_packed, up_scales):
        product = multiply_nbits(x, packed, scales, **self.base)
        # An empty matrix switches the adapter off.
        if down_packed.size and up_packed.size:
            inner = multiply_nbits(x, down_packed, down_scales, **self.adapter)
            inner = inner.astype(x.dtype)
            product = product + multiply_nbits(inner, up_packed, up_scales, **self.adapter)
        return product.astype(x.dtype)
