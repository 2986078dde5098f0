"""SwiGLU of com.microsoft, the gated activation of a feed-forward block or an expert.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula. Tested against its formula in NumPy in float64, to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.swiglu import swiglu

NAMES = ("com.microsoft::SwiGLU",)


class SwiGLU:
    """Multiply a projection by an activated gate.

    Without ``up``, one tensor holds both: the gate first, then the projection.
    """

    def __init__(
        self,
        activation_alpha: float = 1.0,
        activation_beta: float = 0.0,
        limit: float = 0.0,
        round_activation: int = 0,
    ):
        self.attrs = {
            "alpha": activation_alpha,
            "beta": activation_beta,
            "limit": limit,
            "rounds_activation": bool(round_activation),
        }

    def infer(self, gate, up=None):
        if up is not None or not gate.shape:
            return gate
        width = gate.shape[-1]
        half = None
        if isinstance(width, int):
            half = width // 2
        return gate.like(shape=(*gate.shape[:-1], half))

    def compute(self, gate, up=None):
        # The gate is the first half.
        if up is None:
            gate, up = np.split(gate, 2, axis=-1)
        return swiglu(gate, up, **self.attrs)
