"""SoftmaxCrossEntropyLossGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences of the ONNX Runtime SoftmaxCrossEntropyLoss, to 1e-5.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.cross_entropy import IGNORED, loss_gradient

NAMES = ("com.microsoft::SoftmaxCrossEntropyLossGrad",)


class SoftmaxCrossEntropyLossGrad:
    """Compute the gradient of the logits from the logarithms of their softmax."""

    def __init__(
        self,
        reduction: Literal["mean", "sum", "none"] = "mean",
        ignore_index: int = IGNORED,
        output_type: int = 0,
    ):
        self.reduction = reduction
        self.ignore_index = ignore_index

    def infer(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        return log_probability

    def compute(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        ignored = self.ignore_index
        # As an input, the label goes before the attribute.
        if ignore_index is not None:
            ignored = int(ignore_index.item())
        slope = loss_gradient(gradient, log_probability, label, weight, ignored, self.reduction)
        if bias is not None:
            # The bias is the gradient that other branches have left for the scores.
            slope = slope + bias.reshape(slope.shape).astype(np.float64)
        return slope.astype(log_probability.dtype)
