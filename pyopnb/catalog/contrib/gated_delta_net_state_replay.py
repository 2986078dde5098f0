"""GatedDeltaNetStateReplay of com.microsoft, which repeats captured steps of a recurrent state.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula. Differs: the destination is returned as a new tensor. Tested against a loop by
its definition, to 1e-5.
"""

import numpy as np

NAMES = ("com.microsoft::GatedDeltaNetStateReplay",)


class GatedDeltaNetStateReplay:
    """Let a state decay and add the products of keys and deltas, for each step that is kept."""

    def infer(self, source, capsule, destination, metadata):
        return destination

    def compute(self, source, capsule, destination, metadata):
        numbers = [int(number) for number in metadata]
        source_start, destination_start, decay_start, key_start, delta_start = numbers[:5]
        heads, values, keys, key_heads, capacity, kept = numbers[5:]
        size = heads * values * keys
        state = source[source_start:][:size].reshape(heads, values, keys)
        state = state.copy()
        # A decay is one number a head, or one for each channel of the keys.
        if key_start - decay_start == capacity * heads * keys:
            widths = (keys,)
        else:
            widths = (1,)
        decay_size = capacity * heads * widths[0]
        decay = capsule[decay_start:][:decay_size].reshape(capacity, heads, 1, *widths)
        key = capsule[key_start:][: capacity * key_heads * keys].reshape(
            capacity, key_heads, 1, keys
        )
        delta = capsule[delta_start:][: capacity * heads * values]
        delta = delta.reshape(capacity, heads, values, 1)
        # Several heads share the keys of one.
        head_keys = np.arange(heads) * key_heads // heads
        for step in range(kept):
            state = state * decay[step] + key[step][head_keys] * delta[step]
        # Memory around the destination's view stays as it was.
        replayed = destination.copy()
        replayed[destination_start : destination_start + size] = state.ravel()
        return replayed
