"""PagedAttention of com.microsoft, attention over a cache of keys and values in blocks.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. Differs: quantized and LATENT caches are refused. Tested against a loop, to 1e-2 (float16).
"""

from itertools import pairwise

import numpy as np

from pyopnb.catalog.cores.attention import attend_heads, causal_window, find_slots
from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.rotary import rms_normalize, rotate

NAMES = ("com.microsoft::PagedAttention",)


class PagedAttention:
    """Write new keys and values to their blocks, and attend to all of each sequence."""

    def __init__(
        self,
        num_heads: int,
        kv_num_heads: int,
        scale: float = 0.0,
        softcap: float = 0.0,
        local_window_size: int = -1,
        is_causal: int = 1,
        do_rotary: int = 0,
        rotary_interleaved: int = 0,
        qk_norm_epsilon: float = 1e-6,
        kv_cache_layout: str = "SEPARATE",
        k_quant_type: str = "NONE",
        v_quant_type: str = "NONE",
    ):
        if (kv_cache_layout, k_quant_type, v_quant_type) != ("SEPARATE", "NONE", "NONE"):
            raise ValueError("PagedAttention: expected separate caches of floats")
        self.heads = num_heads
        self.key_heads = kv_num_heads
        self.epsilon = qk_norm_epsilon
        self.score_attrs = {"scale": scale, "softcap": softcap}
        self.view = {"is_causal": bool(is_causal), "window": local_window_size}
        self.rotates = bool(do_rotary)
        self.is_interleaved = bool(rotary_interleaved)

    def infer(self, query, key, value, key_cache, value_cache, *others):
        return query.like(shape=(None, None)), key_cache, value_cache

    def compute(
        self,
        query,
        key=None,
        value=None,
        key_cache=None,
        value_cache=None,
        begins=None,
        past_lengths=None,
        block_table=None,
        cos_cache=None,
        sin_cache=None,
        slot_mapping=None,
        head_sink=None,
        query_norm=None,
        key_norm=None,
    ) -> ("any[T,D]", "any[...]", "any[...]"):
        size = key_cache.shape[-1]
        if key is None:
            stops = np.cumsum([self.heads * size, self.key_heads * size])
            query, key, value = np.split(query, stops, axis=1)
        # A token's slot is its block's number times the size of blocks, and its offset.
        form = (-1, self.key_heads, size)
        slots = [cache.reshape(form).copy() for cache in (key_cache, value_cache)]
        if head_sink is None:
            sink = None
        else:
            sink = widen(head_sink)
        shape = (len(query), self.heads * size)
        attended = np.empty(shape, query.dtype)
        for sequence, (start, end) in enumerate(pairwise(begins)):
            past = int(past_lengths[sequence])
            positions = past + np.arange(end - start)
            total = past + int(end - start)
            table = find_slots(block_table[sequence], key_cache.shape[1], total)
            rotary = None
            if self.rotates:
                cosine = widen(cos_cache[positions])
                sine = widen(sin_cache[positions])
                rotary = (cosine[:, None], sine[:, None])
            # Keys are cached after normalization and rotation, so that they are rotated once.
            queries = self._prepare(query[start:end], self.heads, query_norm, rotary)
            keys = self._prepare(key[start:end], self.key_heads, key_norm, rotary)
            targets = table[past:] if slot_mapping is None else slot_mapping[start:end]
            # A slot of -1 is for tokens that are in the cache already.
            is_written = targets >= 0
            slots[0][targets[is_written]] = keys[is_written].astype(key_cache.dtype)
            new_values = value[start:end].reshape(-1, self.key_heads, size)
            slots[1][targets[is_written]] = new_values[is_written]
            repeats = self.heads // self.key_heads  # queries that share a head of keys
            all_keys = np.repeat(widen(slots[0][table]), repeats, axis=1)
            all_values = np.repeat(widen(slots[1][table]), repeats, axis=1)
            is_visible = causal_window(positions, total, **self.view)
            is_visible = is_visible & (table >= 0)
            attended[start:end] = attend_heads(
                queries.swapaxes(0, 1),
                all_keys.swapaxes(0, 1),
                all_values.swapaxes(0, 1),
                is_visible=is_visible,
                sink=sink,
                **self.score_attrs,
            )
        return attended, slots[0].reshape(key_cache.shape), slots[1].reshape(value_cache.shape)

    def _prepare(self, rows, heads, norm, rotary):
        """Normalize and rotate the heads of queries or keys, float32[token,head,size]."""
        prepared = widen(rows).reshape(len(rows), heads, -1)
        if norm is not None:
            prepared = rms_normalize(prepared, widen(norm), self.epsilon)
        if rotary is not None:
            prepared = rotate(prepared, *rotary, is_interleaved=self.is_interleaved)
        return prepared
