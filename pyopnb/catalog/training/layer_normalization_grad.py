"""LayerNormalizationGrad of onnxruntime-training.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against central differences in float64, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.precision import wide_dtype

NAMES = ("com.microsoft::LayerNormalizationGrad",)


class LayerNormalizationGrad:
    """Compute the gradients of the input, the scale and the bias of a layer normalization."""

    def __init__(self, axis: int = -1):
        self.axis = axis

    def infer(self, gradient, x, scale, mean, inverse_deviation):
        return x, scale, scale

    def compute(
        self, gradient, x, scale, mean, inverse_deviation
    ) -> (
        "any[...]",
        "any[...]",
        "any[...]",
    ):
        axis = self.axis % x.ndim
        rows = np.prod(x.shape[:axis])
        rows = int(rows)
        columns = np.prod(x.shape[axis:])
        columns = int(columns)
        wide = wide_dtype(x.dtype)
        slope = gradient.astype(wide).reshape(rows, columns)
        centered = x.astype(wide).reshape(rows, columns)
        centered = centered - mean.astype(wide).reshape(rows, 1)
        deviation = inverse_deviation.astype(wide).reshape(rows, 1)
        # The forward pass has saved the mean and the inverse deviation.
        normalized = centered * deviation
        scaled = slope * scale.astype(wide).reshape(1, columns)
        # The parts that the mean and the deviation take away again.
        along = (scaled * normalized).mean(axis=1, keepdims=True)
        shared = scaled.mean(axis=1, keepdims=True)
        remaining = scaled - shared
        remaining = remaining - normalized * along
        of_input = deviation * remaining
        # Parameters are shared by all rows, whose gradients add up.
        of_scale = (slope * normalized).sum(axis=0)
        of_scale = of_scale.reshape(scale.shape)
        of_bias = slope.sum(axis=0)
        of_bias = of_bias.reshape(scale.shape)
        of_input = of_input.reshape(x.shape)
        dtype = scale.dtype
        return of_input.astype(x.dtype), of_scale.astype(dtype), of_bias.astype(dtype)
