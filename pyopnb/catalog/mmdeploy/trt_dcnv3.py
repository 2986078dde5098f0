"""TRTDCNv3, the convolution of InternImage.

Defined in OpenGVLab/InternImage 31c962d, detection/ops_dcnv3/src/cuda/dcnv3_im2col_cuda.cuh. Its
definition in torch swaps pad_h and pad_w; the kernel does not. Tested against a loop by its
definition, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.sampling import bilinear

NAMES = ("mmdeploy::TRTDCNv3", "::TRTDCNv3")


class TRTDCNv3:
    """Sample each group of channels at the points of a kernel and sum the samples.

    Offsets move the points, and a mask weights the samples. Channels are the last axis, an offset
    is x before y, and points run column by column.
    """

    def __init__(
        self,
        kernel_h: int,
        kernel_w: int,
        group: int,
        group_channels: int,
        stride_h: int = 1,
        stride_w: int = 1,
        pad_h: int = 0,
        pad_w: int = 0,
        dilation_h: int = 1,
        dilation_w: int = 1,
        offset_scale: float = 1.0,
        im2col_step: int = 256,
    ):
        self.kernel = (kernel_h, kernel_w)
        self.stride = (stride_h, stride_w)
        self.pad = (pad_h, pad_w)
        self.dilation = (dilation_h, dilation_w)
        self.groups, self.channels = group, group_channels
        self.scale = np.float32(offset_scale)

    def infer(self, x, offset, mask):
        batch, height, width = (offset.shape or (None,) * 4)[:3]
        shape = (batch, height, width, self.groups * self.channels)
        return x.like(shape=shape)

    def compute(self, x, offset, mask):
        batch, height, width = offset.shape[:3]
        points = self.kernel[0] * self.kernel[1]
        images = x.astype(np.float32).transpose(0, 3, 1, 2)
        offsets = offset.astype(np.float32).reshape(batch, height, width, self.groups, points, 2)
        weights = mask.astype(np.float32).reshape(batch, height, width, self.groups, points)
        rows = self._grid(0, height)
        columns = self._grid(1, width)
        # The second axis of a point is the row, which runs fastest.
        down = rows[:, None, None, :]
        across = columns[None, :, :, None]
        shape = (batch, height, width, self.groups * self.channels)
        grid_shape = (height, width, *self.kernel[::-1])
        # No weights: channels are only gathered, and mixed by the layers around.
        summed = np.empty(shape, x.dtype)
        for image, group in np.ndindex(batch, self.groups):
            channels = slice(group * self.channels, (group + 1) * self.channels)
            shifts = offsets[image, :, :, group].reshape(*grid_shape, 2)
            share = weights[image, :, :, group].reshape(grid_shape)
            # Points outside the image are 0, as if it were padded.
            moved_down = down + shifts[..., 1] * self.scale
            moved_across = across + shifts[..., 0] * self.scale
            sampled = bilinear(images[image, channels], moved_down, moved_across)
            total = (sampled * share).sum(axis=(-2, -1))
            summed[image, :, :, channels] = np.moveaxis(total, 0, -1)
        return summed

    def _grid(self, axis, outputs):
        """Return coordinates of the kernel's points along an axis, float32[output,point]."""
        center = self.dilation[axis] * (self.kernel[axis] - 1) // 2
        middles = center - self.pad[axis]
        middles = middles + np.arange(outputs) * self.stride[axis]
        points = np.arange(self.kernel[axis]) * self.dilation[axis] - center
        # The scale also spreads the points around the middle.
        result = middles[:, None].astype(np.float32)
        return result + points.astype(np.float32) * self.scale
