"""Max of ONNX version 1, with an attribute that lets it write into its inputs.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Max-1. ``consumed_inputs`` changes no result. Tested
against the ONNX Runtime Max of today, to 1e-6.
"""

import numpy as np

NAMES = ("::Max",)
VERSIONS = (1,)


class Max_1:
    """Take the largest of tensors of one shape."""

    def __init__(self, consumed_inputs: list[int] = []):
        self.consumed_inputs = consumed_inputs

    def infer(self, *tensors):
        return tensors[0]

    def compute(self, *tensors):
        total = tensors[0].copy()
        # Inputs have one shape: that version does not broadcast.
        for tensor in tensors[1:]:
            total = np.maximum(total, tensor)
        return total
