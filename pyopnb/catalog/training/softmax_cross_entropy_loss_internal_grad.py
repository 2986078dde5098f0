"""SoftmaxCrossEntropyLossInternalGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences of the ONNX Runtime SoftmaxCrossEntropyLoss, to 1e-5.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.cross_entropy import IGNORED, loss_gradient, output_dtype

NAMES = ("com.microsoft::SoftmaxCrossEntropyLossInternalGrad",)


class SoftmaxCrossEntropyLossInternalGrad:
    """Compute the gradient of the logits from the logarithms of their softmax."""

    def __init__(self, reduction: Literal["mean", "sum", "none"] = "mean", output_type: int = 0):
        self.reduction = reduction
        self.output_type = output_type

    def infer(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        return log_probability.like(dtype=self.output_type or None)

    def compute(self, gradient, log_probability, label, weight=None, ignore_index=None, bias=None):
        ignored = IGNORED if ignore_index is None else int(ignore_index.item())
        slope = loss_gradient(gradient, log_probability, label, weight, ignored, self.reduction)
        if bias is not None:
            slope = slope + bias.reshape(slope.shape).astype(np.float64)
        return slope.astype(output_dtype(self.output_type, log_probability.dtype))
