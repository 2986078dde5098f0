"""max_pool2d of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.max_pool2d; lists and numbers are constant inputs.
Tested against the ONNX Runtime MaxPool, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.max_pooling import max_pool_form, pool_maxima

NAMES = ("org.pytorch.aten::max_pool2d", "::max_pool2d")


class max_pool2d:
    """Take the maxima of windows."""

    def infer(self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None):
        # Images may have an axis of the batch, or not.
        shape = None if x.shape is None else (*x.shape[:-2], None, None)
        return x.like(shape=shape)

    def compute(self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None):
        # Windows that reach beyond the padding have rules of their own in torch.
        if ceil_mode is not None and ceil_mode.item():
            raise ValueError("ceil_mode: expected False, got True")
        maxima, _ = pool_maxima(x, kernel, stride, padding, dilation)
        return np.ascontiguousarray(maxima)

    lowered_opset = 15
    lowered_finite = True

    def lowered(self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None):
        # The places are an output that this function does not have.
        form = max_pool_form(x, kernel, stride, padding, dilation, ceil_mode)
        return form.replace("(maxima, places) {", "(maxima) {")
