"""BiasSoftmax of com.microsoft, a softmax of scores with an additive mask.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Tested against the ONNX Runtime Softmax of the sum, to 1e-5.
"""

import math

import numpy as np

from pyopnb.catalog.cores.precision import wide_dtype

NAMES = ("com.microsoft::BiasSoftmax",)


class BiasSoftmax:
    """Add a bias that rows share, and take the softmax over the axes from ``axis`` on.

    With ``is_inner_broadcast``, consecutive rows share a row of the bias; without it, the rows of
    the bias are repeated from the first.
    """

    def __init__(self, is_inner_broadcast: int, axis: int = 1):
        self.is_inner_broadcast = bool(is_inner_broadcast)
        self.axis = axis

    def infer(self, data, bias):
        return data

    def compute(self, data, bias):
        axis = self.axis % data.ndim
        columns = math.prod(data.shape[axis:])
        wide = wide_dtype(data.dtype)
        rows = data.astype(wide).reshape(-1, columns)
        bias_rows = bias.astype(wide).reshape(-1, columns)
        # An empty bias would divide by zero.
        repeats = len(rows) // max(len(bias_rows), 1)
        if self.is_inner_broadcast:
            rows = rows + np.repeat(bias_rows, repeats, axis=0)
        else:
            rows = rows + np.tile(bias_rows, (repeats, 1))
        # The largest logit is subtracted so that no exponential overflows.
        exponentials = rows - rows.max(axis=-1, keepdims=True)
        exponentials = np.exp(exponentials)
        softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return softmax.reshape(data.shape).astype(data.dtype)
