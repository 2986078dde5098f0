"""SoftmaxCrossEntropyLossInternalGrad of onnxruntime-training.

Defined in microsoft/onnxruntime, orttraining/orttraining/core/graph/training_op_defs.cc, version 1.
Tested against central differences of ONNX Runtime's SoftmaxCrossEntropyLoss, to 1e-5.
"""

from typing import Literal

from pyopnb.catalog.cores.cross_entropy import loss_gradient

NAMES = ("com.microsoft::SoftmaxCrossEntropyLossInternalGrad",)


class SoftmaxCrossEntropyLossInternalGrad:
    """Compute the gradient of the logits from the logarithms of their softmax."""

    def __init__(self, reduction: Literal["mean", "sum", "none"] = "mean", output_type: int = 0):
        self.reduction = reduction
        self.output_type = output_type

    def infer(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        return log_probability

    def compute(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        ignored = None
        # Without the input, all labels count.
        if ignore_index is not None:
            ignored = int(ignore_index.item())
        slope = loss_gradient(gradient, log_probability, label, weight, ignored, self.reduction)
        if bias is None:
            return slope
        return slope + bias.reshape(slope.shape)
