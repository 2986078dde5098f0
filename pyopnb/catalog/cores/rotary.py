"""Rotations of queries and keys by their positions."""

from __future__ import annotations

import numpy as np

__all__ = ["rms_normalize", "rotate"]


def rms_normalize(x: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    """Divide rows by the root of their mean square, and scale them."""
    mean_square = np.square(x).mean(axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + np.float32(epsilon)) * scale


def rotate(
    x: np.ndarray, cosine: np.ndarray, sine: np.ndarray, *, is_interleaved: bool = False
) -> np.ndarray:
    """Rotate pairs of channels.

    Parameters
    ----------
    x : ndarray
        float32[...,D].
    cosine, sine : ndarray
        float32[...,R], with 2·R ≤ D; channels after the first 2·R stay.
    is_interleaved : bool
        Whether the two channels of a pair are neighbors; otherwise they are R apart.
    """
    width = 2 * cosine.shape[-1]
    # Channels that are not rotated stay as they are.
    rotated = x.copy()
    if is_interleaved:
        first = slice(0, width, 2)
        second = slice(1, width, 2)
    else:
        first = slice(0, width // 2)
        second = slice(width // 2, width)
    real = x[..., first]
    imaginary = x[..., second]
    rotated[..., first] = real * cosine - imaginary * sine
    rotated[..., second] = real * sine + imaginary * cosine
    return rotated
