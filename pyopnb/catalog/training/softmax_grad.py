"""SoftmaxGrad_13 of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences in float64, to 1e-6.
"""

from pyopnb.catalog.cores.softmax_gradients import softmax_gradient

NAMES = ("com.microsoft::SoftmaxGrad_13",)


class SoftmaxGrad_13:
    """Compute the gradient of a softmax from its result."""

    def __init__(self, axis: int = -1):
        self.axis = axis

    def infer(self, gradient, y):
        return gradient

    def compute(self, gradient, y):
        # The result of the forward pass is all that is needed of it.
        return softmax_gradient(gradient, y, self.axis)
