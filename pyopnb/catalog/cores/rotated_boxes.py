"""Boxes that are turned: their corners, and overlaps of polygons.

A box is five numbers: the center's x and y, width, height, and an angle in radians.
"""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.boxes import suppress_greedily

__all__ = ["rotated_corners", "rotated_overlap", "suppress_rotated"]


def rotated_corners(boxes: np.ndarray) -> np.ndarray:
    """Compute the four corners of each box in order, float64[N,4,2]."""
    x, y, width, height, angle = boxes.astype(np.float64).T
    cosine = np.cos(angle)
    sine = np.sin(angle)
    corners = []
    for right, up in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)):
        across = right * width
        along = up * height
        corners.append(
            np.stack([x + across * cosine - along * sine, y + across * sine + along * cosine], -1)
        )
    return np.stack(corners, 1)


def rotated_overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the intersection over union of two polygons of `rotated_corners`."""
    areas = abs(_area(first)) + abs(_area(second))
    intersection = abs(_area(_clip(first, second)))
    # Two boxes without area overlap by nothing.
    union = areas - intersection
    if union > 0:
        return intersection / union
    return 0.0


def _area(polygon: np.ndarray) -> float:
    """Return the signed area, positive where the corners run counter-clockwise."""
    if len(polygon) < 3:
        return 0.0
    x, y = polygon.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _clip(polygon: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Cut a polygon along each side of a convex one, after Sutherland and Hodgman (1974)."""
    # The test for inside needs a window that runs counter-clockwise.
    if _area(window) < 0:
        window = window[::-1]
    for start, end in zip(window, np.roll(window, -1, 0), strict=True):
        if not len(polygon):
            break
        side = end - start
        # Twice the area of the triangle with the side: how far inside each corner is.
        depth = side[0] * (polygon[:, 1] - start[1])
        depth = depth - side[1] * (polygon[:, 0] - start[0])
        corners: list[np.ndarray] = []
        for number, corner in enumerate(polygon):
            previous = number - 1
            # The side cuts the edge between this corner and the one before.
            if (depth[number] >= 0) != (depth[previous] >= 0):
                share = depth[previous] / (depth[previous] - depth[number])
                corners.append(polygon[previous] + share * (corner - polygon[previous]))
            if depth[number] >= 0:
                corners.append(corner)
        polygon = np.array(corners).reshape(-1, 2)
    return polygon


def suppress_rotated(
    boxes: np.ndarray, iou_threshold: float, limit: int | None = None
) -> np.ndarray:
    """Keep each box that overlaps no box kept before it by more than a threshold.

    Parameters
    ----------
    boxes : ndarray
        float[N,5], the best box first.
    iou_threshold : float
    limit : int, optional
        Stop after so many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    corners = rotated_corners(boxes)
    # Boxes whose circles do not meet cannot overlap; most pairs are such.
    radii = np.hypot(boxes[:, 2], boxes[:, 3]).astype(np.float64) / 2
    centers = boxes[:, :2].astype(np.float64)

    def find_beaten(best: int, rivals: np.ndarray) -> np.ndarray:
        distance = np.hypot(*(centers[rivals] - centers[best]).T)
        is_beaten = np.zeros(len(rivals), bool)
        for position in np.flatnonzero(distance <= radii[rivals] + radii[best]):
            overlap = rotated_overlap(corners[best], corners[rivals[position]])
            is_beaten[position] = overlap > iou_threshold
        return is_beaten

    return suppress_greedily(len(boxes), find_beaten, limit)
