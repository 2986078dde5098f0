"""GeluGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences in float64, to 1e-6.
"""

from pyopnb.catalog.cores.activations import gelu_slope
from pyopnb.catalog.cores.onnx_text import dtype_number, wide
from pyopnb.catalog.cores.precision import wide_dtype

NAMES = ("com.microsoft::GeluGrad",)


class GeluGrad:
    """Multiply the gradient by the slope of the exact Gelu."""

    def infer(self, gradient, x):
        return gradient

    def compute(self, gradient, x):
        wide = wide_dtype(x.dtype)
        # The slope belongs to erf, not to an approximation by tanh.
        slope = gelu_slope(x.astype(wide))
        result = gradient.astype(wide) * slope
        return result.astype(gradient.dtype)

    lowered_opset = 15
    lowered_finite = True

    def lowered(self, gradient, x):
        return f"""(gradient, x) => (of_x) {{
            wide_x = Cast<to = {wide(x)}>(x)
            wide_gradient = Cast<to = {wide(x)}>(gradient)
            half_32 = Constant<value_float = 0.5>()
            half = CastLike(half_32, wide_x)
            one_32 = Constant<value_float = 1.0>()
            one = CastLike(one_32, wide_x)
            two = Add(one, one)
            root = Sqrt(two)
            scaled = Div(wide_x, root)
            erf = Erf(scaled)
            shifted = Add(erf, one)
            share = Mul(shifted, half)
            square = Mul(scaled, scaled)
            exponent = Neg(square)
            bell = Exp(exponent)
            circle = Constant<value = double {{2.5066282746310002}}>()
            width = CastLike(circle, wide_x)
            density = Div(bell, width)
            rise = Mul(wide_x, density)
            slope = Add(share, rise)
            wide_of_x = Mul(wide_gradient, slope)
            of_x = Cast<to = {dtype_number(gradient)}>(wide_of_x)
        }}"""
