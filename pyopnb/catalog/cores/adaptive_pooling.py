"""Pooling into a fixed number of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

__all__ = ["maxima_adaptively", "pool_adaptively"]


def _windows(length: int, count: int) -> Iterator[slice]:
    """Yield windows that cover a length; where it does not divide, they overlap by one."""
    for number in range(count):
        start = number * length // count
        end = -((-(number + 1) * length) // count)
        yield slice(start, end)


def _sizes(x: np.ndarray, output_size: np.ndarray) -> tuple[int, int]:
    rows, columns = np.broadcast_to(output_size, 2)
    return int(rows), int(columns)


def pool_adaptively(
    x: np.ndarray, output_size: np.ndarray, pool: Callable[..., np.ndarray]
) -> np.ndarray:
    """Pool the last two axes, float16 in float32.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    output_size : ndarray
        int[2], or int[1] for a square.
    pool : callable
        `numpy.mean` or another reduction with ``axis``.

    Returns
    -------
    ndarray
    """
    rows, columns = _sizes(x, output_size)
    if x.dtype == np.float16:
        # Sums of many float16 would lose their digits.
        wide = x.astype(np.float32)
    else:
        wide = x
    shape = (*x.shape[:-2], rows, columns)
    pooled = np.empty(shape, x.dtype)
    for row, down in enumerate(_windows(x.shape[-2], rows)):
        for column, across in enumerate(_windows(x.shape[-1], columns)):
            pooled[..., row, column] = pool(wide[..., down, across], axis=(-2, -1))
    return pooled


def maxima_adaptively(x: np.ndarray, output_size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take maxima of the last two axes, and their places counted along rows.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    output_size : ndarray
        int[2], or int[1] for a square.

    Returns
    -------
    maxima, places : ndarray
        Of equal maxima the first; NaN counts as the largest number.
    """
    rows, columns = _sizes(x, output_size)
    width = x.shape[-1]
    shape = (*x.shape[:-2], rows, columns)
    maxima = np.empty(shape, x.dtype)
    places = np.empty(maxima.shape, np.int64)
    for row, down in enumerate(_windows(x.shape[-2], rows)):
        for column, across in enumerate(_windows(width, columns)):
            window = x[..., down, across]
            flat = window.reshape(*window.shape[:-2], -1)
            # argmax takes the first of equal maxima, and the first NaN.
            first = flat.argmax(-1)
            maxima[..., row, column] = np.take_along_axis(flat, first[..., None], -1)[..., 0]
            # Positions inside a window become positions in the image.
            inner_row, inner_column = np.divmod(first, window.shape[-1])
            places[..., row, column] = (
                (down.start + inner_row) * width + across.start + inner_column
            )
    return maxima, places
