"""RelativePositionBias of com.microsoft, the bias that T5 adds to attention.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, after the buckets of Raffel and others (2020), section 2.1. Tested against a loop over T5's
buckets, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::RelativePositionBias",)


class RelativePositionBias:
    """Look up a bias for the distance of each key from each query, float[1,heads,query,key]."""

    def __init__(self, max_distance: int, is_bidirectional: int = 0):
        self.max_distance = max_distance
        self.is_bidirectional = bool(is_bidirectional)

    def infer(self, bias_table, query_length, key_length):
        if bias_table.shape:
            heads = bias_table.shape[1]
        else:
            heads = None
        return bias_table.like(shape=(1, heads, None, None))

    def compute(self, bias_table, query_length, key_length):
        buckets = len(bias_table)
        # Both lengths come as tensors of one element.
        queries = np.arange(int(query_length.item()))[:, None]
        distance = queries - np.arange(int(key_length.item()))
        bucket = self._bucket(distance, buckets)
        return np.ascontiguousarray(np.moveaxis(bias_table[bucket], -1, 0)[None])

    def _bucket(self, distance, buckets):
        """Return a bucket for each distance: one each up to half of them, then logarithmic ones."""
        first = np.zeros_like(distance)
        if self.is_bidirectional:
            buckets //= 2
            first = np.where(distance < 0, buckets, 0)
            distance = np.abs(distance)
        else:
            distance = np.maximum(distance, 0)
        # The first half of the buckets has one distance each.
        exact = buckets // 2
        # The kernel takes logarithms in float32, and cuts them off.
        ratio = np.maximum(distance, exact).astype(np.float32)
        ratio = ratio / np.float32(exact)
        scale = np.float32(self.max_distance) / np.float32(exact)
        scale = np.log(scale)
        share = np.log(ratio) / scale
        share = share * np.float32(buckets - exact)
        logarithmic = exact + share.astype(np.int64)
        logarithmic = np.minimum(logarithmic, buckets - 1)
        return first + np.where(distance < exact, distance, logarithmic)
