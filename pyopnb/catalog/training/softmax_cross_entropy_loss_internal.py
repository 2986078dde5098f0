"""SoftmaxCrossEntropyLossInternal of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. It is the ONNX SoftmaxCrossEntropyLoss with the ignored label as an input. Tested against
the ONNX Runtime SoftmaxCrossEntropyLoss, to 1e-9 (float64).
"""

from typing import Literal

from pyopnb.catalog.cores.cross_entropy import IGNORED, cross_entropy, output_dtype
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::SoftmaxCrossEntropyLossInternal",)


class SoftmaxCrossEntropyLossInternal:
    """Compute the loss of scores, and the logarithms of their softmax."""

    def __init__(self, reduction: Literal["mean", "sum", "none"] = "mean", output_type: int = 0):
        self.reduction = reduction
        self.output_type = output_type

    def infer(self, scores, labels, weights=None, ignore_index=None):
        loss = scores.like(dtype=self.output_type or None, shape=())
        if self.reduction == "none":
            loss = TensorType(loss.dtype, None)
        return loss, scores

    def compute(self, scores, labels, weights=None, ignore_index=None) -> ("any[...]", "any[...]"):
        ignored = IGNORED if ignore_index is None else int(ignore_index.item())
        dtype = output_dtype(self.output_type, scores.dtype)
        return cross_entropy(scores, labels, weights, ignored, self.reduction, dtype)
