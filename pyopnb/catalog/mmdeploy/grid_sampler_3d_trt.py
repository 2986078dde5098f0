"""GridSampler3DTRT of BEVFormer_tensorrt, whose grids go from -10 to 10.

Defined in DerryHub/BEVFormer_tensorrt 303d314, det2trt/models/functions/grid_sampler.py. Tested
against the ONNX Runtime GridSample, to 1e-3.
"""

import itertools
from typing import Literal

import numpy as np

from pyopnb.catalog.cores.sampling import reflect, unnormalize
from pyopnb.engine import TensorType

NAMES = ("::GridSampler3DTRT", "::GridSampler3DTRT2")

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2


class GridSampler3DTRT:
    """Sample a volume at the points of a grid, whose coordinates x, y and z are its second axis."""

    def __init__(
        self,
        interpolation_mode: Literal[0, 1] = 0,
        padding_mode: Literal[0, 1, 2] = 0,
        align_corners: int = 0,
    ):
        self.takes_nearest = interpolation_mode == NEAREST
        self.padding = padding_mode
        self.align_corners = bool(align_corners)

    def infer(self, x, grid):
        if x.shape is None or grid.shape is None:
            return TensorType(x.dtype, None)
        shape = (*x.shape[:2], *grid.shape[2:])
        return x.like(shape=shape)

    def compute(self, x, grid):
        volumes = x.astype(np.float32)
        points = grid.astype(np.float32) / 10
        shape = (*x.shape[:2], *grid.shape[2:])
        sampled = np.empty(shape, x.dtype)
        for number, volume in enumerate(volumes):
            coordinates = []
            # The volume's axes are z, y and x, and the grid's the other way round.
            for size, along in zip(volume.shape[1:], points[number][::-1], strict=True):
                position = unnormalize(along, size, align_corners=self.align_corners)
                coordinates.append(self._pad(position, size))
            sampled[number] = self._sample(volume, coordinates)
        return sampled

    def _sample(self, volume, coordinates):
        if self.takes_nearest:
            return _voxels(volume, [np.rint(position) for position in coordinates])
        shape = (len(volume), *coordinates[0].shape)
        total = np.zeros(shape, np.float32)
        # Eight voxels around each point, by how near they are.
        for corner in itertools.product((0, 1), repeat=3):
            weight = np.ones_like(coordinates[0])
            voxel = []
            for upper, position in zip(corner, coordinates, strict=True):
                # A point lies between a voxel and the next one of each axis.
                low = np.floor(position)
                share = position - low
                weight = weight * (share if upper else 1 - share)
                voxel.append(low + upper)
            total += _voxels(volume, voxel) * weight
        return total

    def _pad(self, coordinate, size):
        if self.padding == REFLECTION:
            coordinate = reflect(coordinate, size, align_corners=self.align_corners)
        if self.padding == ZEROS:
            return coordinate
        return coordinate.clip(0, size - 1)


def _voxels(volume, positions):
    """Return voxels of volume[C,D,H,W] at voxel coordinates, 0 outside."""
    is_inside = np.ones(positions[0].shape, bool)
    for position, size in zip(positions, volume.shape[1:], strict=True):
        is_inside &= (position >= 0) & (position < size)
    indices = [np.where(is_inside, position, 0).astype(np.int64) for position in positions]
    return volume[:, *indices] * is_inside
