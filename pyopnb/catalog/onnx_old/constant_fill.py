"""ConstantFill, which torch 0.4 wrote before LSTM and RNN nodes.

Defined in onnx/onnx v1.2.2, docs/Operators.md, as an experimental operator; removed in version 10.
Tested against arrays that are known, exactly.
"""

import numpy as np
import onnx

NAMES = ("::ConstantFill",)


class ConstantFill:
    """Make a tensor of one value.

    The shape comes from the attribute or the input; with ``input_as_shape``, the input's
    elements are the shape. ``extra_shape`` is appended.
    """

    def __init__(
        self,
        value: float = 0.0,
        dtype: int = 1,
        shape: list[int] = [],
        extra_shape: list[int] = [],
        input_as_shape: int = 0,
    ):
        self.value = value
        self.dtype = onnx.helper.tensor_dtype_to_np_dtype(dtype)
        self.shape = tuple(shape)
        self.extra_shape = tuple(extra_shape)
        self.input_as_shape = bool(input_as_shape)

    def infer(self, x=None):
        name = self.dtype.name
        if x is None:
            shape = [*self.shape, *self.extra_shape]
        elif self.input_as_shape or x.shape is None:
            return f"{name}[...]"
        else:
            shape = [*x.shape, *self.extra_shape]
        # Sizes that are not known are question marks in the notation.
        sizes = ",".join("?" if size is None else str(size) for size in shape)
        return f"{name}[{sizes}]"

    def compute(self, x=None):
        if x is None:
            # Without an input the attribute has the shape.
            shape = self.shape
        else:
            if self.input_as_shape:
                shape = tuple(int(size) for size in x)
            else:
                shape = x.shape
        return np.full((*shape, *self.extra_shape), self.value, self.dtype)
