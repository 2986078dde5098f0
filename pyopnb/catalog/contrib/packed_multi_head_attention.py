"""PackedMultiHeadAttention of com.microsoft, attention of a batch of sentences without its padding.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. Queries, keys and values are projected before, and may be in one tensor of
[token,head,3,size]. Tested against the ONNX Runtime Attention on a sentence at a time, to 1e-5
(float32).
"""

import numpy as np

from pyopnb.catalog.cores.attention import attend_packed, split_heads
from pyopnb.catalog.cores.precision import widen
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::PackedMultiHeadAttention",)


class PackedMultiHeadAttention:
    """Attend inside each sentence, given queries, keys and values."""

    def __init__(self, num_heads: int, scale: float = 0.0, mask_filter_value: float = -10000.0):
        self.heads = num_heads
        self.scale = scale

    def infer(self, query, key, value, bias, token_offset, begins, attention_bias=None):
        return TensorType(query.dtype, None)

    def compute(
        self,
        query,
        key=None,
        value=None,
        bias=None,
        token_offset=None,
        begins=None,
        attention_bias=None,
    ):
        tokens = len(query)
        # A single tensor holds query, key and value of each head side by side.
        rows = [query, key, value]
        if key is None:
            rows = [query[:, :, part].reshape(tokens, -1) for part in range(3)]
        rows = [widen(part) for part in rows]
        if bias is not None:
            # One vector holds the three biases.
            stops = np.cumsum([part.shape[1] for part in rows])[:2]
            biases = np.split(widen(bias), stops)
            rows = [part + part_bias for part, part_bias in zip(rows, biases, strict=True)]
        heads = [split_heads(part, self.heads) for part in rows]
        result = attend_packed(heads, begins, attention_bias, self.scale)
        return result.astype(query.dtype)
