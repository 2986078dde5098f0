"""ConcatTraining of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against the NumPy concatenate, exactly.
"""

import numpy as np

from pyopnb.engine import TensorType

NAMES = ("com.microsoft::ConcatTraining",)


class ConcatTraining:
    """Concatenate tensors, and return how long each was along the axis."""

    def __init__(self, axis: int):
        self.axis = axis

    def infer(self, *tensors):
        # The gradient splits again by these.
        lengths = tensors[0].like(dtype="int64", shape=(len(tensors),))
        return TensorType(tensors[0].dtype, None), lengths

    def compute(self, *tensors) -> ("any[...]", "int64[?]"):
        lengths = [tensor.shape[self.axis] for tensor in tensors]
        return np.concatenate(tensors, axis=self.axis), np.int64(lengths)

    lowered_opset = 15

    def lowered(self, *tensors):
        names = [f"tensors_{number}" for number in range(len(tensors))]
        nodes = ""
        for name in names:
            nodes += f"""
            {name}_shape = Shape({name})
            {name}_length = Gather<axis = 0>({name}_shape, axis)"""
        lengths = ", ".join(f"{name}_length" for name in names)
        return f"""({", ".join(names)}) => (joined, lengths) {{
            axis = Constant<value_ints = [{self.axis}]>()
            {nodes}
            joined = Concat<axis = {self.axis}>({", ".join(names)})
            lengths = Concat<axis = 0>({lengths})
        }}"""
