"""HeatmapMaxKeypoint of Caffe2, which finds the points of a pose in heat maps.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/heatmap_max_keypoint_op.cc. It is a quadratic
through the nine pixels around the maximum. Tested against quadratics whose maxima are known, to
1e-4.
"""

import numpy as np

NAMES = ("org.pytorch._caffe2::HeatmapMaxKeypoint",)

FLAT = 1e-4  # determinants below leave the maximum where it is
REACH = 1.5  # pixels that a maximum may move


class HeatmapMaxKeypoint:
    """Return x, y, score and probability of each point, float[box,4,point]."""

    def __init__(self, should_output_softmax: int = 0):
        self.has_probability = bool(should_output_softmax)

    def infer(self, heatmaps, boxes):
        regions, points = (heatmaps.shape or (None, None))[:2]
        return heatmaps.like(shape=(regions, 4, points))

    def compute(self, heatmaps, boxes):
        count, points, size, _ = heatmaps.shape
        keypoints = np.zeros((count, 4, points), heatmaps.dtype)
        for box, point in np.ndindex(count, points):
            heatmap = heatmaps[box, point].astype(np.float64)
            row, column = np.divmod(int(heatmap.argmax()), size)
            shift, score = self._refine(heatmap, row, column)
            corner = boxes[box, :2]
            # Boxes are at least a pixel wide.
            scale = np.maximum(boxes[box, 2:4] - corner, 1) / size
            position = np.array([column, row]) + 0.5
            position = position + shift
            keypoints[box, :2, point] = corner + position * scale
            keypoints[box, 2, point] = score
            if self.has_probability:
                exponentials = np.exp(heatmap - heatmap.max())
                keypoints[box, 3, point] = 1 / exponentials.sum()
        return keypoints

    def _refine(self, heatmap, row, column):
        """Return how far the quadratic's maximum is from the pixel, in x and y, and its value."""
        # Beyond the edge, the pixel on the other side replaces the missing one.
        padded = np.pad(heatmap, 1, mode="reflect")
        window = padded[row : row + 3, column : column + 3]
        slope_across = window[1, 2] - window[1, 0]
        slope_down = window[2, 1] - window[0, 1]
        slope = np.array([slope_across, slope_down]) / 2
        mixed = window[2, 2] - window[2, 0]
        mixed = mixed - window[0, 2]
        mixed = (mixed + window[0, 0]) / 4
        across = window[1, 0] - 2 * window[1, 1]
        across = across + window[1, 2]
        down = window[0, 1] - 2 * window[1, 1]
        down = down + window[2, 1]
        curvature = np.array([[across, mixed], [mixed, down]])
        if abs(np.linalg.det(curvature)) < FLAT:
            return np.zeros(2), window[1, 1]
        # At the maximum of the quadratic its slope is 0.
        shift = np.linalg.solve(curvature, -slope)
        # A flat quadratic has its maximum far away, where it says nothing.
        largest = np.abs(shift).max()
        if largest > REACH:
            shift = shift / largest * REACH
        score = window[1, 1] + slope @ shift
        score = score + 0.5 * shift @ curvature @ shift
        return shift, score
