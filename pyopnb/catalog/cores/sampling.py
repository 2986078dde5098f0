"""Values of images between their pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyopnb.engine import TensorType

__all__ = [
    "bicubic",
    "bilinear",
    "infer_scaled",
    "nearest",
    "nearest_up",
    "reflect",
    "unnormalize",
]

_Pick = Callable[[np.ndarray], np.ndarray]


def unnormalize(coordinate: np.ndarray, size: int, *, align_corners: bool) -> np.ndarray:
    """Convert coordinates from -1…1 to pixels.

    The ends are the centers of the outer pixels if ``align_corners``, else the edges of the image.
    """
    if align_corners:
        result = (coordinate + 1) / 2
        return result * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def infer_scaled(x: TensorType, scales: tuple[float, float]) -> TensorType:
    """Infer the type of images whose rows and columns are scaled."""
    batch, channels, *sizes = x.shape or (None,) * 4
    scaled: list[int | None] = []
    for size, scale in zip(sizes, scales, strict=True):
        scaled.append(int(size * scale) if isinstance(size, int) else None)
    return x.like(shape=(batch, channels, *scaled))


def reflect(coordinate: np.ndarray, size: int, *, align_corners: bool) -> np.ndarray:
    """Mirror coordinates at the edges until they are inside."""
    if align_corners:
        low = 0.0
        span = size - 1.0
    else:
        low = -0.5
        span = float(size)
    if span == 0:
        return np.zeros_like(coordinate)
    # Mirroring repeats after two spans.
    distance = np.abs(coordinate - low)
    turns = np.floor(distance / span)
    remainder = distance - turns * span
    is_forward = turns % 2 == 0
    return np.where(is_forward, remainder + low, span - remainder + low)


def _pixels(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return pixels of image[C,H,W] at whole coordinates, 0 outside."""
    height, width = image.shape[-2:]
    # Pixels outside are read from the corner, and multiplied by 0.
    is_inside = (y >= 0) & (y < height)
    is_inside = is_inside & (x >= 0)
    is_inside = is_inside & (x < width)
    rows = np.where(is_inside, y, 0)
    rows = rows.astype(np.int64)
    columns = np.where(is_inside, x, 0)
    columns = columns.astype(np.int64)
    # An empty image has no corner to read from.
    if not image.size:
        shape = (len(image), *y.shape)
        return np.zeros(shape, image.dtype)
    return image[:, rows, columns] * is_inside


def nearest(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the nearest pixels; halfway, the even one."""
    return _pixels(image, np.rint(y), np.rint(x))


def nearest_up(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the nearest pixels; halfway, the lower or right one."""
    return _pixels(image, np.floor(y + 0.5), np.floor(x + 0.5))


def bilinear(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Interpolate between four pixels; pixels outside are 0.

    Parameters
    ----------
    image : ndarray
        float[C,H,W].
    y, x : ndarray
        float[...], in pixels.

    Returns
    -------
    ndarray
        float[C,...].
    """
    # Coordinates between pixels belong to the four around them.
    top = np.floor(y)
    left = np.floor(x)
    down = y - top
    right = x - left
    up = 1 - down
    far = 1 - right
    result = _pixels(image, top, left) * (up * far)
    result = result + _pixels(image, top, left + 1) * (up * right)
    result = result + _pixels(image, top + 1, left) * (down * far)
    return result + _pixels(image, top + 1, left + 1) * (down * right)


def bicubic(
    image: np.ndarray, y: np.ndarray, x: np.ndarray, wrap_y: _Pick, wrap_x: _Pick
) -> np.ndarray:
    """Interpolate between sixteen pixels by cubic convolution with -0.75, as torch does.

    ``wrap_y`` and ``wrap_x`` bring the whole coordinates of each pixel into the image; pixels
    that stay outside are 0.
    """
    top = np.floor(y)
    left = np.floor(x)
    weights_y = _cubic_weights(y - top)
    weights_x = _cubic_weights(x - left)
    shape = (len(image), *y.shape)
    total = np.zeros(shape, image.dtype)
    for row, weight_y in enumerate(weights_y, -1):
        for column, weight_x in enumerate(weights_x, -1):
            pixels = _pixels(image, wrap_y(top + row), wrap_x(left + column))
            total += pixels * (weight_y * weight_x)
    return total


def _cubic_weights(offset: np.ndarray) -> list[np.ndarray]:
    """Return the weights of the pixels at -1, 0, 1 and 2."""
    sharpness = -0.75
    weights = []
    for distance in (offset + 1, offset, 1 - offset, 2 - offset):
        square, cube = distance**2, distance**3
        inner = (sharpness + 2) * cube
        inner = inner - (sharpness + 3) * square + 1
        outer = cube - 5 * square
        outer = sharpness * (outer + 8 * distance - 4)
        weights.append(np.where(distance <= 1, inner, outer))
    return weights
