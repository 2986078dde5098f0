"""YieldOp of onnxruntime-training, at which a program takes outputs and gives their gradients.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. No file has the program. Differs: the gradients are 1, as of the outputs' sum: of a
model that returns its loss they are right, and for others the cell that pyopnb.skeleton writes is
the one to change. Tested against the derivative of a sum, exactly.
"""

import warnings

import numpy as np

NAMES = ("com.microsoft::YieldOp",)


class YieldOp:
    """Return a gradient of 1 for each element of each output that has gradients."""

    def __init__(
        self, full_shape_outputs: list[int] = [], non_differentiable_outputs: list[int] = []
    ):
        self.without_gradients = set(non_differentiable_outputs)
        # Warn of invented numbers, once, where the session is made.
        warnings.warn(
            "YieldOp: no program gives the gradients of the outputs, so they are 1, as of their "
            "sum. Try: pyopnb.skeleton(model, node) to give others",
            stacklevel=2,
        )

    def infer(self, *outputs):
        return self._differentiable(outputs)

    def compute(self, *outputs):
        return tuple(np.ones_like(output) for output in self._differentiable(outputs))

    def _differentiable(self, outputs):
        chosen = []
        for number, output in enumerate(outputs):
            if number not in self.without_gradients:
                chosen.append(output)
        return tuple(chosen)
