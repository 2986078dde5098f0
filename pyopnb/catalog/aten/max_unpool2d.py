"""max_unpool2d of torch, whose exporter writes it where it falls through.

Defined by torch 2.13, torch.nn.functional.max_unpool2d; lists are constant inputs.
Tested against ONNX Runtime's MaxUnpool, exactly.
"""

import numpy as np

NAMES = ("org.pytorch.aten::max_unpool2d", "::max_unpool2d")


class max_unpool2d:
    """Write elements to their positions in larger images; other positions are 0."""

    def infer(self, x, indices, output_size):
        shape = (*(x.shape or (None,) * 4)[:-2], None, None)
        return x.like(shape=shape)

    def compute(self, x, indices, output_size):
        height, width = (int(size) for size in output_size)
        shape = (*x.shape[:-2], height * width)
        images = np.zeros(shape, x.dtype)
        # Places are counted inside each image and channel, unlike those of ONNX's MaxUnpool.
        positions = indices.reshape(*x.shape[:-2], -1)
        np.put_along_axis(images, positions, x.reshape(positions.shape), axis=-1)
        return images.reshape(*x.shape[:-2], height, width)
