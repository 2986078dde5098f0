"""Normalization over groups of channels."""

from __future__ import annotations

import math

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

    Returns
    -------
    ndarray
        float32[N,C,...], a new array.
    """
    if x.shape[1] % groups:
        raise ValueError(f"expected {groups} groups that divide the channels, got {x.shape[1]}")
    # Moments of channels first: then no pass needs channels in order, and images of
    # any layout keep theirs.
    pixels = tuple(range(2, x.ndim))
    per_channel = (*x.shape[:2], *[1] * len(pixels))
    wide = x.astype(np.float32, copy=False)
    means = _over_groups(wide.mean(axis=pixels), groups)
    normalized = wide - means.reshape(per_channel)
    # A long sum in float32 loses digits of a large mean; they are taken away now.
    means = _over_groups(normalized.mean(axis=pixels), groups)
    normalized -= means.reshape(per_channel)
    # Two passes: a mean of squares would lose the digits of a large mean.
    axes = "abcdefgh"[: x.ndim]
    squares = np.einsum(f"{axes},{axes}->ab", normalized, normalized)
    variance = _over_groups(squares, groups) / max(math.prod(x.shape[2:]), 1)
    normalized /= np.sqrt(variance + np.float32(epsilon)).reshape(per_channel)
    normalized *= gamma.astype(np.float32).reshape(per_channel[1:])
    normalized += beta.astype(np.float32).reshape(per_channel[1:])
    return normalized


def _over_groups(values: np.ndarray, groups: int) -> np.ndarray:
    """Replace a value of each channel, float[N,C], by the mean of its group."""
    batch, channels = values.shape
    means = values.reshape(batch, groups, channels // groups).mean(axis=-1)
    return np.repeat(means, channels // groups, axis=1).astype(np.float32)
