"""Suppression inside each class, then the best boxes of all classes, as in TensorRT's plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pyopnb.catalog.cores.boxes import sort_corners, suppress
from pyopnb.catalog.cores.rotated_boxes import suppress_rotated

__all__ = ["Detections", "select_per_class"]

_TURNED = 5
"""How many numbers a turned box has; one along the axes has four."""


class Detections(NamedTuple):
    """The best boxes of an image, the best first, in the dtypes of the inputs."""

    image: int
    boxes: np.ndarray
    scores: np.ndarray
    numbers: np.ndarray
    classes: np.ndarray


def select_per_class(
    boxes: np.ndarray,
    scores: np.ndarray,
    *,
    score_threshold: float,
    iou_threshold: float,
    top_k: int,
    keep: int,
    keep_per_class: int | None = None,
    background: int = -1,
    offset: float = 0.0,
) -> Iterator[Detections]:
    """Yield the best boxes of each image of a batch.

    Parameters
    ----------
    boxes : ndarray
        float[B,N,1 or C,4] as `pyopnb.catalog.cores.boxes.boxes_by_class` returns them; with 5
        numbers, boxes are turned.
    scores : ndarray
        float[B,N,C].
    score_threshold, iou_threshold : float
        A box is dropped if its score is not over the first, and suppressed if it overlaps a better
        one by more than the second.
    top_k : int
        How many boxes of a class take part; all of them if it is not positive.
    keep : int
        How many boxes are returned at most.
    keep_per_class : int, optional
        How many boxes of one class are returned at most.
    background : int
        A class that is left out.
    offset : float
        As `pyopnb.catalog.cores.boxes.overlaps` takes it.

    Yields
    ------
    Detections
    """
    # More boxes of one class than all together cannot be needed.
    if keep_per_class is None:
        per_class = keep
    else:
        per_class = min(keep, keep_per_class)
    for image, image_scores in enumerate(scores):
        # Thresholds are float32, and overlaps of float16 would lose their digits.
        wide_boxes = boxes[image].astype(np.float32)
        wide_scores = image_scores.astype(np.float32)
        pairs = [np.zeros((0, 2), np.int64)]
        for label in range(scores.shape[2]):
            if label == background:
                continue
            column = wide_scores[:, label]
            candidates = np.flatnonzero(column > np.float32(score_threshold))
            order = np.argsort(-column[candidates], kind="stable")
            if top_k > 0:
                order = order[:top_k]
            candidates = candidates[order]
            class_boxes = wide_boxes[candidates, _column(boxes, label)]
            if boxes.shape[3] == _TURNED:
                kept = suppress_rotated(class_boxes, iou_threshold, per_class)
            else:
                corners = sort_corners(class_boxes)
                kept = suppress(corners, iou_threshold, offset=offset, limit=per_class)
            labels = np.full(len(kept), label)
            pairs.append(np.column_stack([candidates[kept], labels]))
        selected, classes = np.concatenate(pairs).T
        # The best of all classes, after each class has been thinned out.
        order = np.argsort(-wide_scores[selected, classes], kind="stable")[:keep]
        selected, classes = selected[order], classes[order]
        best_boxes = boxes[image, selected, _column(boxes, classes)]
        yield Detections(image, best_boxes, image_scores[selected, classes], selected, classes)


def _column(boxes: np.ndarray, label: int | np.ndarray) -> int | np.ndarray:
    """Return which box is that of a class: all classes may share one."""
    return label if boxes.shape[2] > 1 else 0
