"""grid_sampler, which mmdeploy and mmcv 1.x write for the torch grid_sample.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/onnxruntime/grid_sample/grid_sample.cpp. It is the ONNX GridSample of
version 16 with the modes as numbers. Differs: mmdeploy's kernel lacks the cubic mode, which is
torch's here. Tested against the ONNX Runtime GridSample, to 1e-4.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.onnx_text import dtype_number
from pyopnb.catalog.cores.sampling import bicubic, bilinear, nearest, reflect, unnormalize
from pyopnb.engine import TensorType

NAMES = ("mmdeploy::grid_sampler", "mmcv::grid_sampler")

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


class grid_sampler:
    """Sample an image at the points of a grid, whose coordinates x and y go from -1 to 1."""

    def __init__(
        self,
        interpolation_mode: Literal[0, 1, 2] = 0,
        padding_mode: Literal[0, 1, 2] = 0,
        align_corners: int = 0,
    ):
        self.interpolation = interpolation_mode
        self.padding = padding_mode
        self.align_corners = bool(align_corners)

    def infer(self, x, grid):
        if x.shape is None or grid.shape is None:
            return TensorType(x.dtype, None)
        shape = (*x.shape[:2], *grid.shape[1:3])
        return x.like(shape=shape)

    def compute(self, x, grid):
        height, width = x.shape[2:]
        # Coordinates in float16 could not tell the pixels of a large image apart.
        images = x.astype(np.float32)
        points = grid.astype(np.float32)
        shape = (*x.shape[:2], *grid.shape[1:3])
        sampled = np.empty(shape, x.dtype)
        for number, image in enumerate(images):
            rows = unnormalize(points[number, ..., 1], height, align_corners=self.align_corners)
            columns = unnormalize(points[number, ..., 0], width, align_corners=self.align_corners)
            sampled[number] = self._sample(image, rows, columns)
        return sampled

    def _sample(self, image, rows, columns):
        height, width = image.shape[1:]
        if self.interpolation == BICUBIC:
            # The sixteen pixels are brought inside, and not the point.
            return bicubic(
                image,
                rows,
                columns,
                lambda row: self._pad(row, height),
                lambda column: self._pad(column, width),
            )
        # Otherwise the point itself is brought inside.
        rows = self._pad(rows, height)
        columns = self._pad(columns, width)
        if self.interpolation == NEAREST:
            return nearest(image, rows, columns)
        return bilinear(image, rows, columns)

    def _pad(self, coordinate, size):
        """Bring coordinates into the image, as the padding mode says."""
        if self.padding == REFLECTION:
            coordinate = reflect(coordinate, size, align_corners=self.align_corners)
        # Points outside stay there, and are 0.
        if self.padding == ZEROS:
            return coordinate
        return coordinate.clip(0, size - 1)

    lowered_opset = 20
    lowered_finite = True

    def lowered(self, x, grid):
        mode = ("linear", "nearest", "cubic")[self.interpolation]
        padding = ("zeros", "border", "reflection")[self.padding]
        corners = int(self.align_corners)
        # ONNX Runtime turns pixels into integers, and points too far out would overflow.
        near = """low = Constant<value_float = -10.0>()
            high = Constant<value_float = 10.0>()
            near_grid = Clip(grid_32, low, high)"""
        if self.padding == REFLECTION:
            near = (
                "period = Constant<value_float = 4.0>()  near_grid = Mod<fmod = 1>(grid_32, period)"
            )
        return f"""(x, grid) => (y) {{
            x_32 = Cast<to = 1>(x)
            grid_32 = Cast<to = 1>(grid)
            {near}
            y_32 = GridSample<mode = "{mode}", padding_mode = "{padding}",
                align_corners = {corners}>(x_32, near_grid)
            y = Cast<to = {dtype_number(x)}>(y_32)
        }}"""
