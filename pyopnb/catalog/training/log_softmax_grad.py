"""LogSoftmaxGrad_13 of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences in float64, to 1e-6.
"""

from pyopnb.catalog.cores.onnx_text import dtype_number, wide
from pyopnb.catalog.cores.softmax_gradients import log_softmax_gradient

NAMES = ("com.microsoft::LogSoftmaxGrad_13",)


class LogSoftmaxGrad_13:
    """Compute the gradient of a logarithm of a softmax from its result."""

    def __init__(self, axis: int = -1):
        self.axis = axis

    def infer(self, gradient, y):
        return gradient

    def compute(self, gradient, y):
        # The result of the forward pass is all that is needed of it.
        return log_softmax_gradient(gradient, y, self.axis)

    lowered_finite = True

    def lowered(self, gradient, y):
        return f"""(gradient, y) => (of_x) {{
            wide_gradient = Cast<to = {wide(gradient)}>(gradient)
            wide_y = Cast<to = {wide(gradient)}>(y)
            axis = Constant<value_ints = [{self.axis}]>()
            total = ReduceSum<keepdims = 1>(wide_gradient, axis)
            share = Exp(wide_y)
            taken = Mul(share, total)
            slope = Sub(wide_gradient, taken)
            of_x = Cast<to = {dtype_number(gradient)}>(slope)
        }}"""
