"""The boxes and classes that TensorRT's efficient suppressions begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.catalog.cores.boxes import corners_from_centers, sort_corners

__all__ = ["best_candidates", "decode_boxes", "raw_threshold"]

_MOST_CANDIDATES = 5000  # per image; the plugins drop the boxes with lower scores


def raw_threshold(threshold: float, dtype: Any, *, is_logit: bool) -> float:
    """Return the number that scores have to reach, rounded to their dtype as the plugins do.

    Scores that are logits are compared before the sigmoid, so that the threshold goes the other
    way.
    """
    raw = np.float32(threshold)
    if is_logit:
        # Of 0, 1 and more: the lowest number, and a number that no score reaches.
        with np.errstate(divide="ignore", invalid="ignore"):
            raw = np.log(raw / (1 - raw))
    return float(raw.astype(dtype))


def best_candidates(
    scores: np.ndarray, threshold: float, background: int, most: int = _MOST_CANDIDATES
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and classes whose scores reach a threshold, the best first.

    Parameters
    ----------
    scores : ndarray
        float32[N,C].
    background : int
        A class that is left out; none if there is no class of this number.
    most : int
        How many are returned at most.

    Returns
    -------
    numbers, classes : ndarray
        int64[K]; of equal scores, the first box comes first.
    """
    is_candidate = scores >= threshold
    if 0 <= background < scores.shape[1]:
        is_candidate[:, background] = False
    # Positions in one row, because NumPy finds them five times as fast as pairs.
    positions = np.flatnonzero(is_candidate)
    values = scores.ravel()[positions]
    if len(values) > most:
        # Only candidates for the best are sorted, with all that are as good as the last of them.
        lowest = np.partition(values, -most)[-most]
        is_high = values >= lowest
        positions = positions[is_high]
        values = values[is_high]
    # The plugins sort in parallel, so that any order of equal scores is right. This one is stable.
    order = np.argsort(-values, kind="stable")[:most]
    numbers, classes = np.divmod(positions[order], max(scores.shape[1], 1))
    return numbers, classes


def decode_boxes(
    boxes: np.ndarray, anchors: np.ndarray | None, image: int, *, has_centers: bool
) -> np.ndarray:
    """Return corners of an image's boxes, after the head's predictions moved the anchors.

    Parameters
    ----------
    boxes : ndarray
        float[N,1 or C,4].
    anchors : ndarray, optional
        float[1 or B,N,4], in the same coding.
    image : int
        The image's number in the batch.
    has_centers : bool
        Whether boxes are a center and a size, with anchors the logarithm of one; otherwise
        corners. With anchors, both are put in order, and added.

    Returns
    -------
    ndarray
        float32[N,1 or C,4].
    """
    boxes = boxes.astype(np.float32, copy=False)
    if anchors is not None:
        # One set of anchors may serve all images, and one anchor serves the boxes of all classes.
        number = image if len(anchors) > 1 else 0
        anchor = anchors[number, :, np.newaxis].astype(np.float32)
        if not has_centers:
            return sort_corners(boxes) + sort_corners(anchor)
        # A prediction is a share of the anchor's size.
        anchor_size = anchor[..., 2:]
        center = boxes[..., :2] * anchor_size
        center = center + anchor[..., :2]
        size = np.exp(boxes[..., 2:]) * anchor_size
        boxes = np.concatenate([center, size], axis=-1)
    return corners_from_centers(boxes) if has_centers else boxes
