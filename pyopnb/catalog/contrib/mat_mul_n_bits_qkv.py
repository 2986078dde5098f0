"""MatMulNBitsQkv of com.microsoft, the projections of a decoder's queries, keys and values.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. Tested against the ONNX Runtime MatMulNBits, to 1e-3.
"""

from pyopnb.catalog.cores.nbits import multiply_nbits, normalize_skip

NAMES = ("com.microsoft::MatMulNBitsQkv",)


class MatMulNBitsQkv:
    """Add a skip connection, normalize, and multiply by three matrices of a few bits."""

    def __init__(
        self,
        K: int,
        Nq: int,
        Nkv: int,
        block_size: int,
        bits: int = 4,
        accuracy_level: int = 0,
        epsilon: float = 1e-6,
    ):
        self.outputs = (Nq, Nkv, Nkv)
        self.form = {"bits": bits, "block_size": block_size}
        self.epsilon = epsilon

    def infer(self, x, *others):
        # Without a known shape nothing can be said of the widths.
        if not x.shape:
            return x, x, x, x
        projections = [x.like(shape=(*x.shape[:-1], size)) for size in self.outputs]
        return (*projections, x)

    def compute(
        self,
        x,
        skip=None,
        norm_scale=None,
        query_packed=None,
        query_scales=None,
        query_bias=None,
        key_packed=None,
        key_scales=None,
        key_bias=None,
        value_packed=None,
        value_scales=None,
        value_bias=None,
    ) -> ("any[...]", "any[...]", "any[...]", "any[...]"):
        normalized, total = normalize_skip(x, skip, norm_scale, self.epsilon)
        # Keys and values may have fewer heads than queries.
        projections = []
        for packed, scales, bias in (
            (query_packed, query_scales, query_bias),
            (key_packed, key_scales, key_bias),
            (value_packed, value_scales, value_bias),
        ):
            product = multiply_nbits(normalized, packed, scales, bias, **self.form)
            projections.append(product.astype(x.dtype))
        return (*projections, total.copy())
