"""Split of ONNX version 1, whose lengths are an attribute or an input.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Split-1. Differs: a node with neither sizes nor an
attribute is refused: it is split evenly among its outputs, whose number an op cannot know. Tested
against NumPy slices, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("::Split",)
VERSIONS = (1,)


class Split_1:
    """Split a tensor into parts of given lengths along an axis."""

    def __init__(self, axis: int = 0, split: list[int] = []):
        self.axis = axis
        self.lengths = split

    def infer(self, x, lengths=None):
        # Without the attribute, the number of parts is known at run time only.
        return tuple(TensorType(x.dtype, None) for _ in range(max(len(self.lengths), 16)))

    def compute(self, x, lengths=None):
        if lengths is None:
            # As an input, the lengths have the dtype of the tensor.
            sizes = self.lengths
        else:
            sizes = lengths.astype(np.int64).tolist()
        if not sizes:
            raise ValueError("Split: expected lengths, got none. Try: the attribute split=[…]")
        stops = np.cumsum(sizes)[:-1]
        return tuple(np.ascontiguousarray(part) for part in np.split(x, stops, self.axis))
