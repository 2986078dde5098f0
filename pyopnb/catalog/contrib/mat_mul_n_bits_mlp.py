"""MatMulNBitsMlp of com.microsoft, the gated first half of a decoder's feed-forward block.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. The one activation that its kernel has is SiLU. Tested against ONNX
Runtime's MatMulNBits, to 1e-3.
"""

from pyopnb.catalog.cores.nbits import multiply_nbits, normalize_skip
from pyopnb.catalog.cores.precision import sigmoid

NAMES = ("com.microsoft::MatMulNBitsMlp",)


class MatMulNBitsMlp:
    """Normalize, multiply by two matrices of a few bits, and gate one product by the other."""

    def __init__(
        self,
        K: int,
        N: int,
        block_size: int,
        activation: str,
        bits: int = 4,
        accuracy_level: int = 0,
        epsilon: float = 1e-5,
    ):
        if activation.lower() != "silu":
            raise ValueError(f"activation: expected silu, got {activation!r}")
        self.outputs = N
        self.form = {"bits": bits, "block_size": block_size}
        self.epsilon = epsilon

    def infer(self, x, *others):
        return x.like(shape=(*x.shape[:-1], self.outputs) if x.shape else None), x

    def compute(
        self,
        x,
        skip=None,
        norm_scale=None,
        gate_packed=None,
        gate_scales=None,
        gate_bias=None,
        up_packed=None,
        up_scales=None,
        up_bias=None,
    ) -> ("any[...]", "any[...]"):
        normalized, total = normalize_skip(x, skip, norm_scale, self.epsilon)
        # Both projections read the same normalized activation.
        gate = multiply_nbits(normalized, gate_packed, gate_scales, gate_bias, **self.form)
        up = multiply_nbits(normalized, up_packed, up_scales, up_bias, **self.form)
        return (gate * sigmoid(gate) * up).astype(x.dtype), total.copy()
