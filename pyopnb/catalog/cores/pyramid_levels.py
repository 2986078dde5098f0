"""The levels of a feature pyramid that regions belong to."""

from __future__ import annotations

import numpy as np

__all__ = ["distribute", "find_levels"]


def find_levels(
    boxes: np.ndarray,
    lowest: int,
    highest: int,
    *,
    scale: float = 224,
    level: int = 4,
    plus_one: float = 0.0,
) -> np.ndarray:
    """Return the level of each box after Lin and others (2017), equation 1.

    Parameters
    ----------
    boxes : ndarray
        float[N,4].
    scale, level : float, int
        A square of this size belongs to this level.
    plus_one : float
        As `pyopnb.catalog.cores.box_deltas.move_boxes` takes it.
    """
    sizes = boxes[:, 2:] - boxes[:, :2] + plus_one
    roots = np.maximum(sizes.prod(axis=1), 0)
    roots = roots.astype(np.float32)
    roots = np.sqrt(roots)
    # The small number keeps boxes of exactly the size on the level, and log2 of none finite.
    ratios = roots / np.float32(scale)
    levels = level + np.log2(ratios + np.float32(1e-6))
    levels = np.floor(levels)
    return levels.clip(lowest, highest).astype(np.int64)


def distribute(
    regions: np.ndarray, levels: np.ndarray, lowest: int, highest: int
) -> list[np.ndarray]:
    """Return the regions of each level, and the places of the original ones among all of these."""
    rows = [np.flatnonzero(levels == level) for level in range(lowest, highest + 1)]
    # Sorting the order inverts it.
    restore = np.argsort(np.concatenate(rows), kind="stable")
    return [*(regions[numbers] for numbers in rows), restore.astype(np.int32)]
