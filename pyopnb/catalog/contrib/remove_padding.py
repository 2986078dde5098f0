"""RemovePadding of com.microsoft, which packs a batch's tokens for PackedAttention.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. Padding is on the right. Tested against sentences whose rows are known, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::RemovePadding",)


class RemovePadding:
    """Gather the tokens that are not padding, and return where they stood.

    The outputs are the tokens, the offsets of all positions with the padding last, where each
    sentence begins among the tokens, and the length of the longest sentence.
    """

    def infer(self, x, token_count):
        if x.shape is None:
            return (
                TensorType(x.dtype, None),
                TensorType(token_count.dtype, None),
                token_count,
                token_count,
            )
        batch, length, size = x.shape
        # ONNX Runtime 1.32 infers 0 for the output of its Attention where the
        # weights' sizes are symbols.
        size = size or None
        if isinstance(batch, int):
            begins = batch + 1
        else:
            begins = None
        rows = x.like(shape=(None, size))
        order = token_count.like(shape=(batch, length))
        longest = token_count.like(shape=(1,))
        return rows, order, token_count.like(shape=(begins,)), longest

    def compute(self, x, token_count) -> ("any[T, D]", "int32[B, S]", "int32[?]", "int32[1]"):
        batch, length, size = x.shape
        # Padding is on the right, so the counts tell which positions are tokens.
        is_token = np.arange(length) < token_count[:, None]
        offsets = np.arange(batch * length, dtype=np.int32)
        offsets = offsets.reshape(batch, length)
        tokens = offsets[is_token]
        padding = offsets[~is_token]
        # The last number is the count of all tokens.
        begins = np.concatenate([[0], np.cumsum(token_count)])
        begins = begins.astype(np.int32)
        rows = x.reshape(-1, size)
        order = np.concatenate([tokens, padding])
        order = order.reshape(batch, length)
        longest = token_count.max(keepdims=True, initial=0)
        return rows[tokens], order, begins, longest
