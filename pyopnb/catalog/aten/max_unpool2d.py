"""max_unpool2d of torch, whose exporter writes it where it falls through.

Defined by torch 2.13.0, torch.nn.functional.max_unpool2d; lists are constant inputs. Tested against
the ONNX Runtime MaxUnpool, exactly.
"""

import math

import numpy as np

from pyopnb.catalog.cores.onnx_text import dtype_number, ints, value_of

NAMES = ("org.pytorch.aten::max_unpool2d", "::max_unpool2d")


class max_unpool2d:
    """Write elements to their positions in larger images; other positions are 0."""

    def infer(self, x, indices, output_size):
        # Images may have an axis of the batch, or not.
        shape = None if x.shape is None else (*x.shape[:-2], None, None)
        return x.like(shape=shape)

    def compute(self, x, indices, output_size):
        height, width = (int(size) for size in output_size)
        shape = (*x.shape[:-2], height * width)
        images = np.zeros(shape, x.dtype)
        # Places are counted inside each image and channel, unlike in the ONNX MaxUnpool.
        positions = indices.reshape(*x.shape[:-2], math.prod(x.shape[-2:]))
        np.put_along_axis(images, positions, x.reshape(positions.shape), axis=-1)
        return images.reshape(*x.shape[:-2], height, width)

    lowered_opset = 15

    def lowered(self, x, indices, output_size):
        # The size of the images decides on the shape, and so has to be a constant.
        height, width = value_of(output_size)
        return f"""(x, indices, output_size) => (y) {{
            leading = Shape<end = -2>(x)
            pixels = Shape<start = -2>(x)
            rest = ReduceProd(pixels)
            area = Constant<value_ints = [{height * width}]>()
            size = Constant<value_ints = {ints((height, width))}>()
            row_shape = Concat<axis = 0>(leading, rest)
            rows = Reshape<allowzero = 1>(x, row_shape)
            positions = Reshape<allowzero = 1>(indices, row_shape)
            empty_shape = Concat<axis = 0>(leading, area)
            zeros_32 = ConstantOfShape(empty_shape)
            zeros = Cast<to = {dtype_number(x)}>(zeros_32)
            images = ScatterElements<axis = -1>(zeros, positions, rows)
            shape = Concat<axis = 0>(leading, size)
            y = Reshape<allowzero = 1>(images, shape)
        }}"""
