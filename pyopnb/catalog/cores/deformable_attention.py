"""The attention of deformable DETR (Zhu and others, 2020)."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.sampling import bilinear, unnormalize

__all__ = ["attend"]


def attend(
    value: np.ndarray,
    shapes: np.ndarray,
    level_start: np.ndarray,
    locations: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Sum samples of feature maps by attention weights.

    Parameters
    ----------
    value : ndarray
        float[B,S,M,D], the pixels of all levels one after the other, for each head.
    shapes : ndarray
        int[L,2], height and width of each level.
    level_start : ndarray
        int[L], where each level begins in ``value``.
    locations : ndarray
        float[B,Q,M,L,P,2], x and y from 0 to 1.
    weights : ndarray
        float[B,Q,M,L,P].

    Returns
    -------
    ndarray
        float[B,Q,M,D].
    """
    batch, _, heads, size = value.shape
    queries = locations.shape[1]
    total = np.zeros((batch, queries, heads, size), np.float32)
    for level, (height, width) in enumerate(shapes):
        start = int(level_start[level])
        # The pixels of all levels come one after the other.
        pixels = value[:, start : start + height * width].astype(np.float32)
        for image in range(batch):
            for head in range(heads):
                feature_map = pixels[image, :, head].T.reshape(size, height, width)
                points = locations[image, :, head, level].astype(np.float32) * 2 - 1
                columns = unnormalize(points[..., 0], int(width), align_corners=False)
                rows = unnormalize(points[..., 1], int(height), align_corners=False)
                samples = bilinear(feature_map, rows, columns)
                weighted = samples * weights[image, :, head, level].astype(np.float32)
                total[image, :, head] += weighted.sum(-1).T
    return total.astype(value.dtype)
