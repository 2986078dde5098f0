"""Boxes that are moved and scaled by the predictions of a detector's head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["clip_boxes", "move_boxes"]

_LARGEST_GROWTH = np.float32(np.log(1000 / 16))  # keeps exp() of a bad prediction finite


def move_boxes(
    boxes: np.ndarray,
    deltas: np.ndarray,
    weights: Sequence[float] = (1, 1, 1, 1),
    *,
    plus_one: float = 0.0,
) -> np.ndarray:
    """Move the centers of boxes by shares of their sizes, and scale their sizes by exponentials.

    Parameters
    ----------
    boxes : ndarray
        float32[N,4], x1, y1, x2 and y2.
    deltas : ndarray
        float32[N,4], of the center's x and y, and of the logarithms of width and height.
    weights : four float
        By which the deltas are divided.
    plus_one : float
        1 where the second corner is the last pixel of a box.

    Returns
    -------
    ndarray
        float32[N,4].
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    sizes = sizes + np.float32(plus_one)
    centers = boxes[:, :2] + sizes / 2
    # Heads are trained on deltas that are multiplied by the weights.
    shares = deltas / np.asarray(weights, np.float32)
    growth = np.minimum(shares[:, 2:], _LARGEST_GROWTH)
    new_centers = shares[:, :2] * sizes + centers
    half_sizes = np.exp(growth) * sizes / 2
    corners = [new_centers - half_sizes, new_centers + half_sizes - np.float32(plus_one)]
    return np.concatenate(corners, axis=1)


def clip_boxes(
    boxes: np.ndarray, height: float, width: float, *, plus_one: float = 0.0
) -> np.ndarray:
    """Cut boxes at the edges of an image."""
    limits = np.array([width, height, width, height], np.float32)
    limits = limits - np.float32(plus_one)
    return np.minimum(np.maximum(boxes, 0), np.maximum(limits, 0))
