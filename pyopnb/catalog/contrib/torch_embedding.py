"""TorchEmbedding of com.microsoft, the torch embedding as a node.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. ``padding_idx`` and ``scale_grad_by_freq`` change gradients only. Tested against NumPy's
indexing, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::TorchEmbedding",)


class TorchEmbedding:
    """Look up a row of the weights for each index."""

    def infer(self, weight, indices, padding_idx=None, scale_grad_by_freq=None):
        if weight.shape is None or indices.shape is None:
            return TensorType(weight.dtype, None)
        shape = (*indices.shape, *weight.shape[1:])
        return weight.like(shape=shape)

    def compute(self, weight, indices, padding_idx=None, scale_grad_by_freq=None):
        # NumPy would take a negative index from the end, which torch refuses.
        if indices.size and not 0 <= indices.min() <= indices.max() < len(weight):
            raise IndexError(f"expected indices from 0 to {len(weight) - 1}, got {indices}")
        return np.take(weight, indices, axis=0)

    def lowered(self, weight, indices, padding_idx=None, scale_grad_by_freq=None):
        return """(weight, indices, padding_idx, scale_grad_by_freq) => (rows) {
            rows = Gather<axis = 0>(weight, indices)
        }"""
