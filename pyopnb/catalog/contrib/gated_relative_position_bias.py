"""GatedRelativePositionBias of com.microsoft, the position bias of WavLM.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula. Differs: queries without padding, with a sixth input ``token_offset``, are
refused. Tested against a loop by its definition, to 1e-4.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::GatedRelativePositionBias",)


class GatedRelativePositionBias:
    """Scale a relative position bias by gates that each query computes."""

    def __init__(self, num_heads: int):
        self.heads = num_heads

    def infer(self, query, query_bias, bias, weight, gate_bias, scale):
        if query.shape is None:
            return TensorType(query.dtype, None)
        batch, length, _ = query.shape
        return query.like(shape=(batch, self.heads, length, length))

    def compute(self, query, query_bias, bias, weight, gate_bias, scale):
        batch, length, _ = query.shape
        heads = query.astype(np.float32) + query_bias.astype(np.float32)
        heads = heads.reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3)
        gates = heads @ weight.astype(np.float32)
        gates = gates + gate_bias.astype(np.float32)
        # The gates' channels are summed in two halves, one for each gate.
        gates = gates.reshape(batch, self.heads, length, 2, -1).sum(-1)
        gates = 1 / (1 + np.exp(-gates))
        update, reset = np.moveaxis(gates, -1, 0)
        head_scale = scale.astype(np.float32).reshape(1, -1, 1)
        share = reset * head_scale - 1
        share = update * share + 2
        result = share[..., None] * bias.astype(np.float32)
        return result.astype(query.dtype)
