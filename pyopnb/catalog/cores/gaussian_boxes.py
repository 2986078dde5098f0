"""Turned boxes as normal distributions, and suppression by how similar these are.

After Llerena and others (2021), "Gaussian Bounding Boxes and Probabilistic
Intersection-over-Union". A box is five numbers: two opposite corners before it is turned, and an
angle in radians.
"""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.boxes import suppress_greedily

__all__ = ["gaussian_overlaps", "suppress_gaussian"]

_TINY = 1e-7


def _covariances(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variances along x and y, and the covariance, of uniform distributions on boxes."""
    across = np.square(boxes[..., 2] - boxes[..., 0]) / 12
    along = np.square(boxes[..., 3] - boxes[..., 1]) / 12
    cosine = np.cos(boxes[..., 4])
    sine = np.sin(boxes[..., 4])
    in_x = across * cosine**2
    in_x = in_x + along * sine**2
    in_y = across * sine**2
    in_y = in_y + along * cosine**2
    together = across - along
    together = together * cosine * sine
    return in_x, in_y, together


def gaussian_overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Compute 1 minus the Hellinger distance of one box to many, float64[N]."""
    first = box.astype(np.float64)
    others = boxes.astype(np.float64)
    center = (first[:2] + first[2:4]) / 2
    centers = (others[:, :2] + others[:, 2:4]) / 2
    xx, yy, xy = _covariances(first)
    other_xx, other_yy, other_xy = _covariances(others)
    sum_xx = xx + other_xx
    sum_yy = yy + other_yy
    sum_xy = xy + other_xy
    across, down = (center - centers).T
    determinant = sum_xx * sum_yy - sum_xy**2
    # The squared distance of the centers, in units of both distributions.
    squares = sum_xx * down**2
    squares = squares + sum_yy * across**2
    squares = squares - 2 * sum_xy * across * down
    # Of boxes without an area, the determinants are 0.
    product = xx * yy - xy**2
    product = np.maximum(product, 0)
    other_product = other_xx * other_yy - other_xy**2
    product = product * np.maximum(other_product, 0)
    # How different the shapes are, without their places.
    smallest = 4 * np.sqrt(product) + _TINY
    ratio = determinant / smallest
    shape_term = np.log(ratio + _TINY) / 2
    distance = squares / (determinant + _TINY)
    distance = distance / 4 + shape_term
    distance = distance.clip(_TINY, 100)
    coefficient = np.exp(-distance)
    return 1 - np.sqrt(1 - coefficient + _TINY)


def suppress_gaussian(
    boxes: np.ndarray, classes: np.ndarray, threshold: float, limit: int
) -> np.ndarray:
    """Keep each box that is less similar than a threshold to all kept before it in its class.

    Parameters
    ----------
    boxes : ndarray
        float[N,5], the best box first.
    classes : ndarray
        int[N].
    limit : int
        Stop after this many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """

    def find_beaten(best: int, rivals: np.ndarray) -> np.ndarray:
        is_beaten = gaussian_overlaps(boxes[best], boxes[rivals]) >= threshold
        # Boxes of other classes may overlap.
        is_of_class = classes[rivals] == classes[best]
        return is_beaten & is_of_class

    return suppress_greedily(len(boxes), find_beaten, limit)
