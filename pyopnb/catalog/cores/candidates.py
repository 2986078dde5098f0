"""The boxes and classes that TensorRT's efficient suppressions begin with."""

from __future__ import annotations

import numpy as np

__all__ = ["best_candidates", "decode_anchors"]

_MOST_CANDIDATES = 5000  # per image; the plugins drop the boxes with lower scores


def best_candidates(
    scores: np.ndarray, threshold: float, background: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and classes whose scores reach a threshold, the best first.

    Parameters
    ----------
    scores : ndarray
        float32[N,C].
    threshold : float
    background : int
        A class that is left out; none if there is no class of this number.

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
    if len(values) > _MOST_CANDIDATES:
        # Only what can be among the best is sorted, with all that are as good as the last of them.
        lowest = np.partition(values, -_MOST_CANDIDATES)[-_MOST_CANDIDATES]
        is_high = values >= lowest
        positions = positions[is_high]
        values = values[is_high]
    # The plugins sort in parallel, so that any order of equal scores is right. This one is stable.
    order = np.argsort(-values, kind="stable")[:_MOST_CANDIDATES]
    numbers, classes = np.divmod(positions[order], max(scores.shape[1], 1))
    return numbers, classes


def decode_anchors(boxes: np.ndarray, anchor: np.ndarray, *, has_centers: bool) -> np.ndarray:
    """Move anchors by what a head predicts.

    Parameters
    ----------
    boxes : ndarray
        float32[N,1 or C,4].
    anchor : ndarray
        float32[N,4], in the same coding.
    has_centers : bool
        Whether boxes are a center and the logarithm of a size; otherwise corners, which are added.

    Returns
    -------
    ndarray
    """
    # One anchor serves the boxes of all classes.
    anchor = anchor[:, np.newaxis]
    if not has_centers:
        return boxes + anchor
    # A prediction is a share of the anchor's size.
    anchor_size = anchor[..., 2:]
    center = boxes[..., :2] * anchor_size
    center = center + anchor[..., :2]
    size = np.exp(boxes[..., 2:]) * anchor_size
    return np.concatenate([center, size], axis=-1)
