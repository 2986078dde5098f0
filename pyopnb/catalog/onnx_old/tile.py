"""Tile of ONNX version 1, which repeats along one axis.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Tile-1. Tested against the NumPy tile, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.onnx_text import item_of
from pyopnb.engine import TensorType

NAMES = ("::Tile",)
VERSIONS = (1,)


class Tile_1:
    """Repeat a tensor along an axis; the number and the axis have the tensor's dtype."""

    def infer(self, x, tiles, axis):
        return TensorType(x.dtype, None)

    def compute(self, x, tiles, axis):
        repeats = [1] * x.ndim
        # Both numbers come in the dtype of the tensor, which may be float.
        repeats[int(axis.item())] = int(tiles.item())
        return np.tile(x, repeats)

    def lowered(self, x, tiles, axis):
        # Both numbers decide on the shape, and so have to be constants.
        repeats = [1] * x.rank
        repeats[int(item_of(axis, 0))] = int(item_of(tiles, 1))
        return f"""(x, tiles, axis) => (y) {{
            repeats = Constant<value_ints = {repeats}>()
            y = Tile(x, repeats)
        }}"""
