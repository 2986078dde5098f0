"""Boxes that lie along the axes: their forms, overlaps, and greedy suppression.

A box is four numbers in the last axis: two opposite corners, in any order, unless a name says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.engine import TensorType

__all__ = [
    "boxes_by_class",
    "corners_from_centers",
    "infer_detections",
    "overlaps",
    "sort_corners",
    "suppress",
    "suppress_greedily",
    "suppress_pixels",
]


def boxes_by_class(boxes: np.ndarray, scores: np.ndarray, numbers: int = 4) -> np.ndarray:
    """Give boxes an axis for the classes, which boxes for all classes may lack.

    Parameters
    ----------
    boxes : ndarray
        float[B,N,4], float[B,N,1,4] or float[B,N,C,4].
    scores : ndarray
        float[B,N,C].
    numbers : int
        How many a box has, in place of 4.

    Returns
    -------
    ndarray
        float[B,N,1 or C,4].

    Raises
    ------
    ValueError
        The boxes or scores have other axes.
    """
    if boxes.ndim not in (3, 4) or boxes.shape[-1] != numbers:
        raise ValueError(
            f"boxes: expected [B,N,{numbers}] or [B,N,C,{numbers}], got {list(boxes.shape)}"
        )
    images, count = boxes.shape[:2]
    if scores.ndim != 3 or scores.shape[:2] != (images, count):
        raise ValueError(f"scores: expected [{images},{count},C], got {list(scores.shape)}")
    if boxes.ndim == 3:
        return boxes[:, :, np.newaxis]
    classes = scores.shape[2]
    if boxes.shape[2] not in (1, classes):
        raise ValueError(f"boxes: expected 1 or {classes} for each score, got {boxes.shape[2]}")
    return boxes


def infer_detections(
    boxes: TensorType, scores: TensorType, most: int, *, numbers: int = 4, classes: Any = "int32"
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """Infer a plugin's outputs: the number of boxes in each image, boxes, scores and classes."""
    # Plugins pad each image to one number of rows.
    batch = (scores.shape or (None,))[0]
    best = scores.like(shape=(batch, most))
    found = scores.like(dtype="int32", shape=(batch, 1))
    return found, boxes.like(shape=(batch, most, numbers)), best, best.like(dtype=classes)


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
    # Boxes that do not meet give a negative width.
    right = np.minimum(box[2], boxes[:, 2])
    left = np.maximum(box[0], boxes[:, 0])
    width = right - left + offset
    bottom = np.minimum(box[3], boxes[:, 3])
    top = np.maximum(box[1], boxes[:, 1])
    height = bottom - top + offset
    intersection = np.maximum(width, 0) * np.maximum(height, 0)
    union = _areas(box, offset) + _areas(boxes, offset) - intersection
    # Two boxes without area would be 0 / 0.
    has_area = union > 0
    return np.divide(intersection, union, out=np.zeros_like(union), where=has_area)


def _areas(boxes: np.ndarray, offset: float) -> np.ndarray:
    width = boxes[..., 2] - boxes[..., 0] + offset
    height = boxes[..., 3] - boxes[..., 1] + offset
    return np.maximum(width, 0) * np.maximum(height, 0)


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
    inclusive : bool
        Whether a box is suppressed at exactly the threshold.
    offset : float
        As `overlaps` takes it.
    classes : ndarray, optional
        int[N]; a box is only suppressed by boxes of its class.
    limit : int, optional
        Stop after this many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    threshold = np.float32(iou_threshold)
    rivals_by_class = _positions_by_class(classes, len(boxes))
    is_suppressed = np.zeros(len(boxes), bool)
    kept: list[int] = []
    for position in range(len(boxes)):
        if limit is not None and len(kept) >= limit:
            break
        if is_suppressed[position]:
            continue
        kept.append(position)
        if classes is None:
            label = 0
        else:
            label = int(classes[position])
        # Only boxes of the class that are still there are looked at, and ever fewer of them.
        rivals = rivals_by_class[label]
        rivals = rivals[rivals > position]
        overlap = overlaps(boxes[position], boxes[rivals], offset)
        if inclusive:
            is_beaten = overlap >= threshold
        else:
            is_beaten = overlap > threshold
        is_suppressed[rivals[is_beaten]] = True
        rivals_by_class[label] = rivals[~is_beaten]
    return np.array(kept, np.int64)


def suppress_greedily(
    count: int, find_beaten: Callable[[int, np.ndarray], np.ndarray], limit: int | None = None
) -> np.ndarray:
    """Keep each box that no box kept before it beats.

    Parameters
    ----------
    count : int
        Of the boxes, which are in order, the best one first.
    find_beaten : callable
        Takes the position of a box and the positions of the remaining worse boxes, and tells which
        of these the box suppresses.
    limit : int, optional
        Stop after this many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    candidates = np.arange(count)
    kept: list[int] = []
    while len(candidates) and (limit is None or len(kept) < limit):
        best = int(candidates[0])
        kept.append(best)
        rivals = candidates[1:]
        candidates = rivals[~find_beaten(best, rivals)]
    return np.array(kept, np.int64)


def suppress_pixels(
    boxes: np.ndarray, iou_threshold: float, offset: float, limit: int
) -> np.ndarray:
    """Keep boxes as `suppress` does, where areas count the pixels of both corners.

    Parameters
    ----------
    boxes : ndarray
        float32[N,4], the lower corner first, the best box first.
    offset : float
        Is added to the widths and heights of intersections.
    limit : int
        Stop after this many boxes.

    Returns
    -------
    ndarray
        int64[K], the positions of the boxes that are kept.
    """
    areas = (boxes[:, 2:] - boxes[:, :2] + np.float32(1)).prod(axis=1)

    def find_beaten(best: int, rivals: np.ndarray) -> np.ndarray:
        low = np.maximum(boxes[best, :2], boxes[rivals, :2])
        high = np.minimum(boxes[best, 2:], boxes[rivals, 2:])
        # Boxes that do not meet have an intersection from 0 to 0, which can be one pixel.
        sizes = np.where((low > high).any(axis=1, keepdims=True), 0, high - low)
        intersection = (sizes + np.float32(offset)).prod(axis=1)
        union = areas[best] + areas[rivals] - intersection
        return intersection / union > np.float32(iou_threshold)

    return suppress_greedily(len(boxes), find_beaten, limit)


def _positions_by_class(classes: np.ndarray | None, count: int) -> dict[int, np.ndarray]:
    if classes is None or not count:
        return {0: np.arange(count)}
    order = np.argsort(classes, kind="stable")
    labels, starts = np.unique(classes[order], return_index=True)
    result = zip(labels.tolist(), np.split(order, starts[1:]), strict=True)
    return dict(result)
