"""Crops of images that are resized as TensorFlow does it."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.sampling import bilinear, nearest_up

__all__ = ["crop_and_resize"]


def crop_and_resize(
    image: np.ndarray,
    box: np.ndarray,
    size: tuple[int, int],
    *,
    takes_nearest: bool = False,
    outside: float = 0.0,
) -> np.ndarray:
    """Sample a crop, whose corners are samples.

    Parameters
    ----------
    image : ndarray
        float32[C,H,W].
    box : ndarray
        float32[4], y1, x1, y2 and x2; 0 is the middle of the first pixel, and 1
        the middle of the last one.
    size : pair of int
        A crop of one row or column samples its middle.
    outside : float
        The value of samples outside the image.

    Returns
    -------
    ndarray
        float32[C, *size].
    """
    coordinates = []
    for low, high, length, count in zip(box[:2], box[2:], image.shape[1:], size, strict=True):
        last = np.float32(length - 1)
        if count > 1:
            step = (high - low) * last
            step = step / np.float32(count - 1)
            coordinates.append(low * last + np.arange(count, dtype=np.float32) * step)
        else:
            coordinates.append(np.array([(low + high) * last / 2], np.float32))
    rows, columns = np.meshgrid(*coordinates, indexing="ij")
    height, width = image.shape[1:]
    # Points outside are not interpolated with the border, but have a value of their own.
    is_inside = (rows >= 0) & (rows <= height - 1)
    is_inside = is_inside & (columns >= 0)
    is_inside = is_inside & (columns <= width - 1)
    if takes_nearest:
        sample = nearest_up
    else:
        sample = bilinear
    return np.where(is_inside, sample(image, rows, columns), np.float32(outside))
