"""Means and maxima of regions of a feature map."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.sampling import bilinear
from pyopnb.engine import TensorType

__all__ = ["image_of", "infer_regions", "pool_region"]


def infer_regions(x: TensorType, rois: TensorType, size: tuple[int, int]) -> TensorType:
    """Infer the type of regions of maps, each of one size."""
    # A shape may be unknown as a whole.
    regions = (rois.shape or (None,))[0]
    channels = (x.shape or (None, None))[1]
    return x.like(shape=(regions, channels, *size))


def image_of(images: np.ndarray, roi: np.ndarray) -> np.ndarray:
    """Return the image that the first column of a region names.

    Raises
    ------
    ValueError
        There is no such image; -1 would be the last one.
    """
    number = int(roi[0])
    if not 0 <= number < len(images):
        raise ValueError(f"rois: expected images 0 to {len(images) - 1}, got {roi[0]:g}")
    return images[number]


def pool_region(
    image: np.ndarray,
    center: tuple[float, float],
    size: tuple[float, float],
    output_size: tuple[int, int],
    *,
    samples: int = 0,
    cosine: float = 1.0,
    sine: float = 0.0,
    takes_maximum: bool = False,
) -> np.ndarray:
    """Pool a region of an image in bins, each sampled on a grid.

    Parameters
    ----------
    image : ndarray
        float32[C,H,W].
    center, size : pair of float
        Rows, then columns, in pixels.
    output_size : pair of int
        Bins in rows and columns.
    samples : int
        Samples along each side of a bin; if not positive, one a pixel.
    cosine, sine : float
        Of the angle by which the region is turned.
    takes_maximum : bool
        Whether bins are maxima; otherwise means.

    Returns
    -------
    ndarray
        float32[C, *output_size].
    """
    offsets, counts = [], []
    for length, bins in zip(size, output_size, strict=True):
        if samples > 0:
            count = samples
        else:
            count = int(np.ceil(length / bins))
        # Samples are in the middles of equal parts of a bin.
        positions = np.arange(bins * max(count, 1)) + 0.5
        positions = positions / max(count, 1)
        positions = positions * (length / bins)
        if count <= 0 and not takes_maximum:
            # Without a size, a region has no samples, and their sum is 0.
            return np.zeros((len(image), *output_size), np.float32)
        offsets.append((positions - length / 2).astype(np.float32))
        counts.append(max(count, 1))
    down = offsets[0][:, None]
    across = offsets[1][None, :]
    rows = center[0] + down * cosine
    rows = rows - across * sine
    columns = center[1] + down * sine
    columns = columns + across * cosine
    values = _inside(image, rows, columns)
    shape = (len(image), output_size[0], counts[0], output_size[1], counts[1])
    # Samples of a bin lie side by side in both axes.
    binned = values.reshape(shape)
    if takes_maximum:
        return binned.max(axis=(2, 4))
    return binned.mean(axis=(2, 4), dtype=np.float32)


def _inside(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Interpolate with the pixels at the border repeated; farther than one pixel outside is 0."""
    height, width = image.shape[1:]
    is_near = (rows >= -1) & (rows <= height)
    is_near = is_near & (columns >= -1)
    is_near = is_near & (columns <= width)
    near_rows = rows.clip(0, height - 1)
    near_columns = columns.clip(0, width - 1)
    values = bilinear(image, near_rows, near_columns)
    return np.where(is_near, values, np.float32(0))
