"""LoopIndexTensor, with which the first loops took a slice of a tensor at each step.

Defined in onnx/onnx v1.2.2, docs/Operators.md, as an experimental operator; removed in version 10.
Tested against arrays that are known, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("::LoopIndexTensor",)


class LoopIndexTensor:
    """Return the slice at an index along an axis."""

    def __init__(self, axis: int = 0):
        self.axis = axis

    def infer(self, tensor, index):
        if tensor.shape is None:
            return TensorType(tensor.dtype, None)
        sizes = list(tensor.shape)
        del sizes[self.axis]
        return tensor.like(shape=sizes)

    def compute(self, tensor, index):
        result = np.take(tensor, int(index.item()), axis=self.axis)
        # The axis of the index disappears.
        return np.ascontiguousarray(result)

    def lowered(self, tensor, index):
        return f"""(tensor, index) => (slice) {{
            shape = Constant<value_ints = [1]>()
            indices = Reshape(index, shape)
            scalar = Squeeze(indices)
            slice = Gather<axis = {self.axis}>(tensor, scalar)
        }}"""
