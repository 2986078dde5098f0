"""GemmaRotaryEmbedding of com.microsoft, the rotation of queries and keys in Gemma.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula. Sines and cosines are rounded to float16 first, and so is each product. Tested
against its formula in NumPy, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::GemmaRotaryEmbedding",)


class GemmaRotaryEmbedding:
    """Rotate queries and keys: each times the cosine, plus its turned half times the sine."""

    def infer(self, angles, query, turned_query, key, turned_key):
        return query, key

    def compute(self, angles, query, turned_query, key, turned_key) -> ("any[...]", "any[...]"):
        # Heads share the angles of a position.
        sine = np.sin(angles).astype(query.dtype)[:, None]
        cosine = np.cos(angles).astype(query.dtype)[:, None]
        rotated_query = query * cosine
        rotated_query = rotated_query + turned_query * sine
        rotated_key = key * cosine
        rotated_key = rotated_key + turned_key * sine
        return rotated_query, rotated_key
