"""DecoderAttention of com.microsoft, the attention of a decoder with a cache of keys and values.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1; which projections are computed follows the kernel, contrib_ops/cuda/bert/decoder_attention.cc.
Tokens are the first axis, and a padded key is left out. Tested against a loop by its definition, to
1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.attention import attend_heads
from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::DecoderAttention",)


class DecoderAttention:
    """Attend to the tokens so far, or with ``static_kv`` to the encoder's tokens.

    With ``use_past``, the cache is longer by the new tokens afterwards, or for the encoder's
    tokens it is all there is.
    """

    def __init__(self, num_heads: int, mask_filter_value: float = -10000.0):
        self.heads = num_heads

    def infer(self, query, key, *others):
        cache = query.like(shape=(None, self.heads, None, None))
        return query, cache, cache

    def compute(
        self,
        query,
        key,
        query_weight,
        key_value_weight,
        bias,
        key_padding_mask=None,
        key_cache=None,
        value_cache=None,
        static_kv=None,
        use_past=None,
        has_layer_state=None,
        has_key_padding_mask=None,
    ) -> ("any[S,B,D]", "any[B,H,T,E]", "any[B,H,T,E]"):
        is_cross = bool(static_kv.item())
        has_past = bool(use_past.item())
        width = query.shape[-1]
        queries = widen(query) @ widen(query_weight)
        queries = queries + widen(bias[:width])
        queries = self._heads(queries)
        if is_cross and has_past:
            # The encoder's tokens do not change: their keys and values are projected only once.
            keys = widen(key_cache)
            values = widen(value_cache)
        else:
            source = widen(key if is_cross else query)
            projected = source @ widen(key_value_weight)
            projected = projected + widen(bias[width:])
            keys, values = (self._heads(part) for part in np.split(projected, 2, axis=-1))
            if has_past:
                # New tokens come after the tokens in the cache.
                keys = np.concatenate([widen(key_cache), keys], axis=2)
                values = np.concatenate([widen(value_cache), values], axis=2)
        attended = np.empty(query.shape, query.dtype)
        for image in range(query.shape[1]):
            is_visible = None
            if has_key_padding_mask.item():
                is_visible = ~key_padding_mask[image]
            attended[:, image] = attend_heads(
                queries[image], keys[image], values[image], is_visible=is_visible
            )
        return attended, keys.astype(query.dtype), values.astype(query.dtype)

    def _heads(self, rows):
        """Convert [token,batch,width] to [batch,head,token,size]."""
        length, batch, _ = rows.shape
        result = rows.reshape(length, batch, self.heads, -1)
        return result.transpose(1, 2, 0, 3)
