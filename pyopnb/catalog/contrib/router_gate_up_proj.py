"""RouterGateUpProj of com.microsoft, the first product of a layer of experts with a shared one.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1, with its formula. Tested against its formula in NumPy in float64, to 5e-3 (float16).
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.swiglu import swiglu

NAMES = ("com.microsoft::RouterGateUpProj",)


class RouterGateUpProj:
    """Multiply by a matrix whose columns are the router's, the gate's and the up projection's."""

    def __init__(
        self,
        router_size: int,
        activation: str = "swiglu",
        activation_alpha: float = 1.0,
        activation_beta: float = 0.0,
        limit: float = 0.0,
    ):
        if activation != "swiglu":
            raise ValueError(f"activation: expected swiglu, got {activation!r}")
        self.router_size = router_size
        self.attrs = {"alpha": activation_alpha, "beta": activation_beta, "limit": limit}

    def infer(self, x, weight):
        if x.shape:
            front = tuple(x.shape[:-1])
        else:
            front = (None,)
        inner = None
        if weight.shape and isinstance(weight.shape[1], int):
            inner = (weight.shape[1] - self.router_size) // 2
        return x.like(shape=(*front, self.router_size)), x.like(shape=(*front, inner))

    def compute(self, x, weight) -> ("any[...]", "any[...]"):
        # The halves of the gated activation are rounded before, as if a MatMul stood there.
        product = widen(x) @ widen(weight)
        product = product.astype(x.dtype)
        # The router's columns come first.
        router, gated = np.split(product, [self.router_size], axis=-1)
        gate, up = np.split(gated, 2, axis=-1)
        return np.ascontiguousarray(router), swiglu(gate, up, **self.attrs)
