"""BitmaskDropoutGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. A mask has a bit for each element, the lowest for the first. Differs: outside training
the gradient is given back as it is, where the original still scales it. Tested against its
formula in NumPy with the mask that it gets, to 1e-6.
"""

from pyopnb.catalog.cores.dropout import bits_of, dropped_gradient

NAMES = ("com.microsoft::BitmaskDropoutGrad",)


class BitmaskDropoutGrad:
    """Scale the gradient as the dropout did where the mask's bit is set, and return 0 elsewhere."""

    def infer(self, gradient, mask, ratio=None, training_mode=None):
        return gradient

    def compute(self, gradient, mask, ratio=None, training_mode=None):
        # A mask has whole words, and may be longer than the gradient.
        bits = bits_of(mask, gradient.size).reshape(gradient.shape)
        return dropped_gradient(gradient, bits, ratio, training_mode)
