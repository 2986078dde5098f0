"""Normalization over groups of channels."""

from __future__ import annotations

import numpy as np

__all__ = ["group_norm"]


def group_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int, epsilon: float
) -> np.ndarray:
    """Normalize groups of channels in float32.

    Parameters
    ----------
    x : ndarray
        float[N,C,...].
    gamma, beta : ndarray
        float[C].
    groups : int
    epsilon : float

    Returns
    -------
    ndarray
        float32[N,C,...], a new array.
    """
    batch, channels = x.shape[:2]
    rows = x.astype(np.float32).reshape(batch, groups, -1)
    # Two passes: a mean of squares would lose the digits of a large mean.
    centered = rows - rows.mean(axis=-1, keepdims=True)
    variance = np.square(centered).mean(axis=-1, keepdims=True)
    centered /= np.sqrt(variance + np.float32(epsilon))
    normalized = centered.reshape(x.shape)
    per_channel = (channels,) + (1,) * (x.ndim - 2)
    normalized *= gamma.astype(np.float32).reshape(per_channel)
    normalized += beta.astype(np.float32).reshape(per_channel)
    return normalized
