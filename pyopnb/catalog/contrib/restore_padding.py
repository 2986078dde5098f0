"""RestorePadding of com.microsoft, which puts packed tokens back into their sentences.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. Tested against sentences whose rows are known, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::RestorePadding",)


class RestorePadding:
    """Scatter packed tokens to their offsets; padding is 0."""

    def infer(self, tokens, token_offset):
        if token_offset.shape is None or tokens.shape is None:
            return TensorType(tokens.dtype, None)
        shape = (*token_offset.shape, tokens.shape[-1])
        return tokens.like(shape=shape)

    def compute(self, tokens, token_offset):
        batch, length = token_offset.shape
        shape = (batch * length, tokens.shape[-1])
        restored = np.zeros(shape, tokens.dtype)
        # Offsets of the tokens come first, and offsets of the padding after them.
        restored[token_offset.ravel()[: len(tokens)]] = tokens
        return restored.reshape(batch, length, -1)

    lowered_opset = 15

    def lowered(self, tokens, token_offset):
        return """(tokens, token_offset) => (restored) {
            offset_shape = Shape(token_offset)
            size = Shape<start = 1>(tokens)
            every = Constant<value_ints = [-1]>()
            all_offsets = Reshape(token_offset, every)
            zero = Constant<value_ints = [0]>()
            token_count = Shape<end = 1>(tokens)
            offsets_32 = Slice(all_offsets, zero, token_count)
            offsets = Cast<to = 7>(offsets_32)
            column = Constant<value_ints = [1]>()
            positions = Unsqueeze(offsets, column)
            slots = Size(token_offset)
            slot_count = Unsqueeze(slots, zero)
            flat_shape = Concat<axis = 0>(slot_count, size)
            nothing = Constant<value_float = 0.0>()
            padding = CastLike(nothing, tokens)
            empty = Expand(padding, flat_shape)
            flat = ScatterND(empty, positions, tokens)
            shape = Concat<axis = 0>(offset_shape, size)
            restored = Reshape(flat, shape)
        }"""
