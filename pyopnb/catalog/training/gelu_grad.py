"""GeluGrad of onnxruntime-training.

Defined in microsoft/onnxruntime, orttraining/orttraining/core/graph/training_op_defs.cc, version 1.
"""

import numpy as np

from pyopnb.catalog.cores.activations import gelu_slope

NAMES = ("com.microsoft::GeluGrad",)


class GeluGrad:
    """Multiply the gradient by the slope of the exact Gelu."""

    def infer(self, gradient, x):
        return gradient

    def compute(self, gradient, x):
        wide = np.float64 if x.dtype == np.float64 else np.float32
        slope = gelu_slope(x.astype(wide))
        return (gradient.astype(wide) * slope).astype(gradient.dtype)
