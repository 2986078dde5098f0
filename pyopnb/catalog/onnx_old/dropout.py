"""Dropout of ONNX before version 7, which says by an attribute whether it is a test.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Dropout-1 and Dropout-6. Differs: in training it is
random, and is refused. Tested against its input, exactly.
"""

import numpy as np

NAMES = ("::Dropout",)
VERSIONS = (1, 6)


class Dropout_1:
    """Return the data as they are, and a mask of ones."""

    def __init__(self, ratio: float = 0.5, is_test: int = 0, consumed_inputs: list[int] = []):
        # The default is training, which exporters for inference never left.
        if not is_test and ratio > 0:
            raise ValueError(
                "Dropout: expected is_test=1, got 0: the elements that it drops are random. "
                "Try: export the model for inference"
            )

    def infer(self, data):
        return data, data

    def compute(self, data) -> ("any[...]", "any[...]"):
        return data.copy(), np.ones_like(data)
