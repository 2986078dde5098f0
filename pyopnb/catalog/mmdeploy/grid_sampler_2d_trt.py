"""GridSampler2DTRT of BEVFormer_tensorrt, whose grids go from -10 to 10.

Defined in DerryHub/BEVFormer_tensorrt 303d314, det2trt/models/functions/grid_sampler.py. The wide
range keeps digits in int8. Tested against the ONNX Runtime GridSample, to 1e-3.
"""

import numpy as np

from pyopnb.catalog.mmdeploy import grid_sampler
from pyopnb.engine import TensorType

NAMES = ("::GridSampler2DTRT", "::GridSampler2DTRT2")


class GridSampler2DTRT(grid_sampler.grid_sampler):
    """Sample an image at the points of a grid, whose coordinates are its second axis."""

    def infer(self, x, grid):
        if x.shape is None or grid.shape is None:
            return TensorType(x.dtype, None)
        shape = (*x.shape[:2], *grid.shape[2:])
        return x.like(shape=shape)

    def compute(self, x, grid):
        # Otherwise it is the torch function.
        return super().compute(x, np.moveaxis(grid.astype(np.float32) / 10, 1, -1))

    def lowered(self, x, grid):
        # Points come to the last axis and into -1…1 first.
        form = super().lowered(x, grid)
        first = """(x, wide_grid) => (y) {
            last = Transpose<perm = [0, 2, 3, 1]>(wide_grid)
            last_32 = Cast<to = 1>(last)
            ten = Constant<value_float = 10.0>()
            grid = Div(last_32, ten)"""
        return form.replace("(x, grid) => (y) {", first, 1)
