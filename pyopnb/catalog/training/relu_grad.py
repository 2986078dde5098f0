"""ReluGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. The schema calls the second input X; builders of gradients pass Y, whose sign is the
same. Tested against its formula in NumPy, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::ReluGrad",)


class ReluGrad:
    """Pass the gradient on where the second input is positive."""

    def infer(self, gradient, x):
        return gradient

    def compute(self, gradient, x):
        result = np.where(x > 0, gradient, 0)
        return result.astype(gradient.dtype)
