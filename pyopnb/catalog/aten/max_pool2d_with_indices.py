"""max_pool2d_with_indices of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.max_pool2d with return_indices; lists and numbers are
constant inputs. Tested against the ONNX Runtime MaxPool, exactly.
"""

from pyopnb.catalog.cores.max_pooling import max_pool_form, pool_maxima

NAMES = ("org.pytorch.aten::max_pool2d_with_indices", "::max_pool2d_with_indices")


class max_pool2d_with_indices:
    """Take the maxima of windows, and where they are in their image."""

    def infer(self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None):
        # Images may have an axis of the batch, or not.
        shape = None if x.shape is None else (*x.shape[:-2], None, None)
        return x.like(shape=shape), x.like(dtype="int64", shape=shape)

    def compute(
        self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None
    ) -> ("any[...]", "int64[...]"):
        # Windows that reach beyond the padding have rules of their own in torch.
        if ceil_mode is not None and ceil_mode.item():
            raise ValueError("ceil_mode: expected False, got True")
        return pool_maxima(x, kernel, stride, padding, dilation)

    lowered_opset = 15
    lowered_finite = True

    def lowered(self, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=None):
        # ONNX counts places through all images, and the form brings them back into one.
        return max_pool_form(x, kernel, stride, padding, dilation, ceil_mode)
