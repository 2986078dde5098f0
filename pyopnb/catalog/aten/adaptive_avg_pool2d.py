"""adaptive_avg_pool2d of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.adaptive_avg_pool2d; lists and numbers are constant
inputs. Tested against the means of the torch windows in a loop, to 1e-5.
"""

from pyopnb.catalog.cores.adaptive_pooling import adaptive_means_form, means_adaptively

NAMES = ("org.pytorch.aten::adaptive_avg_pool2d", "::adaptive_avg_pool2d")


class adaptive_avg_pool2d:
    """Average as many windows as the output has elements."""

    # The sizes are an input, which is known at run time only.
    def infer(self, x, output_size):
        # Images may have an axis of the batch, or not.
        shape = None if x.shape is None else (*x.shape[:-2], None, None)
        return x.like(shape=shape)

    def compute(self, x, output_size):
        return means_adaptively(x, output_size)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, x, output_size):
        # Means are two products with matrices of shares, over rows and over columns.
        return adaptive_means_form(x, output_size)
