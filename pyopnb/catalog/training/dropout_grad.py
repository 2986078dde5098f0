"""DropoutGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Differs: outside training the gradient is given back as it is, where the original scales
it all the same. Tested against its formula in NumPy with the mask that it gets, to 1e-6.
"""

from pyopnb.catalog.cores.dropout import dropped_gradient

NAMES = ("com.microsoft::DropoutGrad",)


class DropoutGrad:
    """Pass the gradient on where the mask is set, scaled as the dropout scaled its elements."""

    def infer(self, gradient, mask, ratio=None, training_mode=None):
        return gradient

    def compute(self, gradient, mask, ratio=None, training_mode=None):
        # The mask marks the elements that the forward pass has kept.
        return dropped_gradient(gradient, mask, ratio, training_mode)
