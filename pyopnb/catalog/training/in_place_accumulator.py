"""InPlaceAccumulatorV2 of onnxruntime-training, with which gradients of several batches are added.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Differs: nothing is written in place: the second output has the sum. Tested against sums
that are known, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::InPlaceAccumulatorV2",)


class InPlaceAccumulatorV2:
    """Add a value to the accumulated sum, or start again with it."""

    def infer(self, accumulated, value, overwrite=None):
        return accumulated.like(dtype="bool", shape=(1,)), accumulated

    def compute(self, accumulated, value, overwrite=None) -> ("bool[1]", "any[...]"):
        total = value.astype(accumulated.dtype)
        # The flag resets the buffer after a step of the optimizer.
        if overwrite is None or not overwrite.item():
            total = accumulated + total
        return np.array([True]), total

    lowered_opset = 15

    def lowered(self, accumulated, value, overwrite=None):
        total = "total = Add(accumulated, like)"
        if overwrite is not None:
            total = """is_new = Squeeze(overwrite)
            sum = Add(accumulated, like)
            total = Where(is_new, like, sum)"""
        return f"""(accumulated, value, overwrite) => (is_updated, total) {{
            like = CastLike(value, accumulated)
            {total}
            yes = Constant<value_ints = [1]>()
            is_updated = Cast<to = 9>(yes)
        }}"""
