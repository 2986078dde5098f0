"""PackedAttention of com.microsoft, the attention of a batch of sentences without its padding.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. It comes between RemovePadding and RestorePadding. Tested against the ONNX Runtime Attention on
a sentence at a time, to 1e-5 (float32).
"""

import numpy as np

from pyopnb.catalog.cores.attention import attend_packed, split_heads
from pyopnb.catalog.cores.precision import widen
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::PackedAttention",)


class PackedAttention:
    """Project tokens to queries, keys and values, and attend inside each sentence."""

    def __init__(self, num_heads: int, scale: float = 0.0, qkv_hidden_sizes: list[int] = []):
        self.heads = num_heads
        self.scale = scale
        self.sizes = qkv_hidden_sizes

    def infer(self, tokens, weights, bias, token_offset, begins, attention_bias=None):
        return TensorType(tokens.dtype, None)

    def compute(self, tokens, weights, bias, token_offset, begins, attention_bias=None):
        projected = widen(tokens) @ widen(weights)
        projected = projected + widen(bias)
        # Queries, keys and values are equally wide unless the node says otherwise.
        sizes = self.sizes or [projected.shape[1] // 3] * 3
        parts = np.split(projected, np.cumsum(sizes)[:2], axis=1)
        heads = [split_heads(part, self.heads) for part in parts]
        result = attend_packed(heads, begins, attention_bias, self.scale)
        return result.astype(tokens.dtype)
