"""Suppression inside each class, then the best boxes of all classes, as in TensorRT's plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["Detections", "select_per_class"]


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
    suppress: Callable[[np.ndarray, int], np.ndarray],
    *,
    score_threshold: float,
    top_k: int,
    keep: int,
    keep_per_class: int | None = None,
    background: int = -1,
) -> Iterator[Detections]:
    """Yield the best boxes of each image of a batch.

    Parameters
    ----------
    boxes : ndarray
        float[B,N,1 or C,4 or 5] as `pyopnb.catalog.cores.boxes.boxes_by_class` returns them.
    scores : ndarray
        float[B,N,C].
    suppress : callable
        Takes the boxes of a class, float32 and the best one first, and how many are kept at most.
        Returns the positions of the boxes that are kept.
    score_threshold : float
        A box is dropped if its score is not over it.
    top_k : int
        How many boxes of a class take part; all of them if it is not positive.
    keep : int
        How many boxes are returned at most.
    keep_per_class : int, optional
        How many boxes of one class are returned at most.
    background : int
        A class that is left out.
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
            kept = suppress(class_boxes, per_class)
            labels = np.full(len(kept), label)
            pairs.append(np.column_stack([candidates[kept], labels]))
        selected, classes = np.concatenate(pairs).T
        # The best of all classes, after each class has been thinned out.
        order = np.argsort(-wide_scores[selected, classes], kind="stable")[:keep]
        selected, classes = selected[order], classes[order]
        best_boxes = boxes[image, selected, _column(boxes, classes)]
        yield Detections(image, best_boxes, image_scores[selected, classes], selected, classes)


def _column(boxes: np.ndarray, label: int | np.ndarray) -> int | np.ndarray:
    """Return which box belongs to a class: all classes may share one."""
    return label if boxes.shape[2] > 1 else 0
