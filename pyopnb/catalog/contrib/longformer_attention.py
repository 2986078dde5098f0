"""LongformerAttention of com.microsoft, local attention with a few tokens that see all.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, after Beltagy and others (2020). Differs: rows of masked tokens, which the definition leaves
open, are computed like any other row. Tested against a loop by its definition, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.attention import attend_heads, split_heads
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::LongformerAttention",)


class LongformerAttention:
    """Attend to the tokens within a window and to the global ones; global tokens attend to all.

    Global tokens have projections of their own: of their queries, and of the keys and
    values that they look at.
    """

    def __init__(self, num_heads: int, window: int):
        self.heads = num_heads
        self.window = window

    def infer(self, x, weight, bias, mask, global_weight, global_bias, is_global):
        return x

    def compute(self, x, weight, bias, mask, global_weight, global_bias, is_global):
        attended = np.empty_like(x)
        length = x.shape[1]
        positions = np.arange(length)
        is_near = np.abs(positions[:, None] - positions) <= self.window
        for image, tokens in enumerate(widen(x)):
            local_heads = self._project(tokens, weight, bias)
            global_heads = self._project(tokens, global_weight, global_bias)
            additive = widen(mask[image])
            looks_everywhere = is_global[image] != 0
            # Everybody sees the global tokens, however far away they are.
            is_visible = is_near | looks_everywhere
            local = attend_heads(*local_heads, bias=additive, is_visible=is_visible)
            everywhere = attend_heads(*global_heads, bias=additive)
            # Both results are computed for all tokens: global ones are few, but need all keys.
            attended[image] = np.where(looks_everywhere[:, None], everywhere, local)
        return attended

    def _project(self, tokens, weight, bias):
        """Return queries, keys and values of heads."""
        projected = tokens @ widen(weight)
        projected = projected + widen(bias)
        return [split_heads(part, self.heads) for part in np.split(projected, 3, axis=1)]
