"""Boxes that lie along the axes: their forms, overlaps, and greedy suppression.

A box is four numbers in the last axis: two opposite corners, in any order, unless a name says otherwise.
"""

from __future__ import annotations

import numpy as np

__all__ = ["corners_from_centers", "overlaps", "sort_corners", "suppress"]


def corners_from_centers(boxes: np.ndarray) -> np.ndarray:
    """Convert boxes given by a center and a size to two corners."""
    center = boxes[..., :2]
    half_size = boxes[..., 2:] / 2
    return np.concatenate([center - half_size, center + half_size], axis=-1)


def sort_corners(boxes: np.ndarray) -> np.ndarray:
    """Put the lower corner of each box first."""
    low = np.minimum(boxes[..., :2], boxes[..., 2:])
    high = np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], axis=-1)


def overlaps(box: np.ndarray, boxes: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """Compute the intersection over union of one box with many.

    Parameters
    ----------
    box : ndarray
        float[4], with the lower corner first.
    boxes : ndarray
        float[N,4], likewise.
    offset : float
        Is added to widths and heights; 1 where corners are the first and last pixel of a box.

    Returns
    -------
    ndarray
        float[N]; 0 where both boxes have no area.
    """
    low = np.maximum(box[:2], boxes[:, :2])
    high = np.minimum(box[2:], boxes[:, 2:])
    intersection = np.prod(np.maximum(high - low + offset, 0), axis=-1)
    union = _areas(box, offset) + _areas(boxes, offset) - intersection
    has_area = union > 0
    return np.divide(intersection, union, out=np.zeros_like(union), where=has_area)


def _areas(boxes: np.ndarray, offset: float) -> np.ndarray:
    return np.prod(np.maximum(boxes[..., 2:] - boxes[..., :2] + offset, 0), axis=-1)


def suppress(
    boxes: np.ndarray,
    iou_threshold: float,
    *,
    inclusive: bool = False,
    offset: float = 0.0,
    classes: np.ndarray | None = None,
    limit: int | None = None,
) -> np.ndarray:
    """Keep each box that overlaps no box kept before it by more than a threshold.

    Parameters
    ----------
    boxes : ndarray
        float[N,4], the lower corner first, the best box first.
    iou_threshold : float
    inclusive : bool
        Whether a box is suppressed at exactly the threshold.
    offset : float
        As `overlaps` takes it.
    classes : ndarray, optional
        int[N]; a box is only suppressed by boxes of its class.
    limit : int, optional
        Stop after so many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    # Boxes that are suppressed leave the candidates, so that each step has fewer of them.
    candidates = np.arange(len(boxes))
    threshold = np.float32(iou_threshold)
    kept: list[int] = []
    while len(candidates) and (limit is None or len(kept) < limit):
        best, candidates = candidates[0], candidates[1:]
        kept.append(int(best))
        overlap = overlaps(boxes[best], boxes[candidates], offset)
        is_suppressed = overlap >= threshold if inclusive else overlap > threshold
        if classes is not None:
            is_suppressed &= classes[candidates] == classes[best]
        candidates = candidates[~is_suppressed]
    return np.array(kept, np.int64)
