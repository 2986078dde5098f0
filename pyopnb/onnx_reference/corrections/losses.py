"""Losses and the choice of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.catalog import widen

__all__ = ["negative_log_likelihood", "non_max_suppression"]


def negative_log_likelihood(
    scores: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    reduction: str,
    ignore_index: int | None = None,
) -> np.ndarray:
    """Return the weighted scores of the targets, with the other sign."""
    counted = np.ones(target.shape, bool)
    if ignore_index is not None:
        counted = target != ignore_index
    places = np.where(counted, target, 0)
    factors = np.ones(target.shape) if weight is None else widen(weight)[places]
    factors = np.where(counted, factors, 0)
    values = np.take_along_axis(widen(scores), places[:, None], 1)[:, 0]
    losses = np.where(counted, -values * factors, 0)
    if reduction == "mean":
        losses = losses.sum() / factors.sum()
    elif reduction == "sum":
        losses = losses.sum()
    return np.asarray(losses, scores.dtype)


def non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: Any = None,
    overlap: Any = None,
    threshold: Any = None,
    *,
    center_point_box: int,
) -> np.ndarray:
    """Choose the best boxes of each class that do not overlap."""
    count = 0 if most is None else int(np.asarray(most).item())
    limit = 0.0 if overlap is None else float(np.asarray(overlap).item())
    chosen = []
    for batch, image in enumerate(scores):
        corners = _corners(boxes[batch], center_point_box)
        for label, row in enumerate(image):
            kept: list[int] = []
            for place in np.argsort(-row, kind="stable"):
                if len(kept) == count:
                    break
                if threshold is not None and not row[place] > np.asarray(threshold).item():
                    continue
                if not any(_overlap(corners[place], corners[other]) > limit for other in kept):
                    kept.append(int(place))
            chosen += [(batch, label, place) for place in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: np.ndarray, are_centers: int) -> np.ndarray:
    first, second = boxes[:, :2], boxes[:, 2:]
    if are_centers:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return the common part of two boxes, as a share of both together."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    both = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - common
    return common / both if common else 0.0
