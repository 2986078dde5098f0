"""PillarScatterPlugin, with which TAO's PointPillars puts columns of points on a map.

Defined in NVIDIA/TensorRT v10.12.0, plugin/pillarScatterPlugin/pillarScatter.cpp. Tested against
columns whose cells are known, exactly.
"""

import numpy as np

NAMES = ("::PillarScatterPlugin", "TRT::PillarScatterPlugin")


class PillarScatterPlugin:
    """Write the features of each pillar to its cell of the map; other cells are 0."""

    def __init__(
        self, dense_shape: list[int], plugin_version: str = "1", plugin_namespace: str = ""
    ):
        self.height, self.width = dense_shape

    def infer(self, features, coordinates, count):
        batch, _, channels = features.shape or (None, None, None)
        shape = (batch, channels, self.height, self.width)
        return features.like(shape=shape)

    def compute(self, features, coordinates, count):
        batch, _, channels = features.shape
        shape = (batch, channels, self.height, self.width)
        maps = np.zeros(shape, features.dtype)
        for frame in range(batch):
            pillars = int(count[frame])
            # Coordinates are frame, z, y and x.
            row, column = coordinates[frame, :pillars, 2:4].astype(np.int64).T
            # Rows after the count are left-overs of other frames.
            maps[frame][:, row, column] = features[frame, :pillars].T
        return maps
