"""adaptive_max_pool2d of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.adaptive_max_pool2d; lists and numbers are constant
inputs. Tested against the maxima of the torch windows in a loop, exactly.
"""

from pyopnb.catalog.cores.adaptive_pooling import adaptive_maxima_form, maxima_adaptively

NAMES = ("org.pytorch.aten::adaptive_max_pool2d", "::adaptive_max_pool2d")


class adaptive_max_pool2d:
    """Return the maxima of ``output_size`` windows of each image, and the places of the maxima."""

    # The sizes are an input, which is known at run time only.
    def infer(self, x, output_size):
        # Images may have an axis of the batch, or not.
        shape = None if x.shape is None else (*x.shape[:-2], None, None)
        return x.like(shape=shape), x.like(dtype="int64", shape=shape)

    def compute(self, x, output_size) -> ("any[...]", "int64[...]"):
        return maxima_adaptively(x, output_size)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, output_size):
        # Windows are spread along an axis of their own, first of rows and then of columns.
        return adaptive_maxima_form(x, output_size)
