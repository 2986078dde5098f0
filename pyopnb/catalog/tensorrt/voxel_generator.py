"""VoxelGeneratorPlugin, with which TAO's PointPillars gathers points in columns.

Defined in NVIDIA/TensorRT v10.12.0, plugin/voxelGeneratorPlugin/voxelGenerator.cpp. Differs: the
columns, and the points in them, have the order of the points in the input; on the GPU it is a
race. Tested against a loop by its definition, to 1e-4.
"""

import numpy as np

NAMES = ("::VoxelGeneratorPlugin", "TRT::VoxelGeneratorPlugin")


class VoxelGeneratorPlugin:
    """Gather the points of each column that has some, with ten features a point.

    The features are the point's members four, its distance from the mean of the points of its
    column, and from the column's center. The other outputs are frame, z, y and x of each column,
    and the number of columns.
    """

    def __init__(
        self,
        max_num_points_per_voxel: int,
        max_voxels: int,
        point_cloud_range: list[float],
        voxel_feature_num: int,
        voxel_size: list[float],
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        if voxel_feature_num != 10:
            raise ValueError(f"voxel_feature_num: expected 10, got {voxel_feature_num}")
        self.points, self.voxels = max_num_points_per_voxel, max_voxels
        self.low, self.high = np.float32(point_cloud_range).reshape(2, 3)
        self.size = np.float32(voxel_size)

    def infer(self, points, counts):
        if points.shape:
            batch = points.shape[0]
        else:
            batch = None
        features = points.like(shape=(batch, self.voxels, self.points, 10))
        coordinates = points.like(shape=(batch, self.voxels, 4))
        voxel_counts = counts.like(dtype="int32", shape=(batch,))
        return features, coordinates, voxel_counts

    def compute(self, points, counts) -> ("any[B,V,P,10]", "any[B,V,4]", "int32[B]"):
        batch = len(points)
        shape = (batch, self.voxels, self.points, 10)
        features = np.zeros(shape, np.float32)
        coordinates = np.zeros((batch, self.voxels, 4), np.float32)
        voxel_counts = np.zeros(batch, np.int32)
        for frame in range(batch):
            cloud = points[frame, : int(counts[frame])].astype(np.float32)
            # Points outside the range belong to no column.
            positions = cloud[:, :3]
            is_inside = (positions >= self.low) & (positions < self.high)
            is_inside = is_inside.all(axis=1)
            cloud = cloud[is_inside]
            cells = cloud[:, :2] - self.low[:2]
            cells = cells / self.size[:2]
            # Columns reach from the floor to the ceiling.
            cells = np.floor(cells)
            cells = cells.astype(np.int64)
            columns: dict[tuple[int, ...], list[int]] = {}
            for number, cell in enumerate(cells.tolist()):
                columns.setdefault(tuple(cell), []).append(number)
            for voxel, (cell, numbers) in enumerate(list(columns.items())[: self.voxels]):
                members = cloud[numbers[: self.points]]
                middle = np.float32([*cell, 0]) + np.float32(0.5)
                middle = self.low + middle * self.size
                positions = members[:, :3]
                # Only the points that fit count for the mean.
                from_mean = positions - positions.mean(axis=0)
                parts = [members[:, :4], from_mean, positions - middle]
                features[frame, voxel, : len(members)] = np.concatenate(parts, axis=1)
                coordinates[frame, voxel] = (frame, 0, cell[1], cell[0])
            voxel_counts[frame] = min(len(columns), self.voxels)
        return features.astype(points.dtype), coordinates.astype(points.dtype), voxel_counts
