"""Maxima of windows, and their places."""

from __future__ import annotations

import numpy as np

__all__ = ["pool_maxima"]


def _pair(numbers: np.ndarray | None, default: tuple[int, int]) -> tuple[int, int]:
    """Return two numbers, of which a file may give one; an empty list stands for the default."""
    if numbers is None or not numbers.size:
        return default
    down, across = np.broadcast_to(numbers, 2)
    return int(down), int(across)


def pool_maxima(
    x: np.ndarray,
    kernel: np.ndarray,
    stride: np.ndarray | None = None,
    padding: np.ndarray | None = None,
    dilation: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Pool the last two axes.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    kernel, stride, padding, dilation : ndarray of one or two int
        The stride is the kernel where none is given.

    Returns
    -------
    maxima, places : ndarray
        Places are counted along the rows of the image that is not padded.
    """
    size = _pair(kernel, (1, 1))
    steps = _pair(stride, size)
    pads = _pair(padding, (0, 0))
    gaps = _pair(dilation, (1, 1))
    width = x.shape[-1]
    untouched = [(0, 0)] * (x.ndim - 2)
    margins = [*untouched, (pads[0], pads[0]), (pads[1], pads[1])]
    # A padded pixel is never the maximum.
    padded = np.pad(x, margins, constant_values=-np.inf)
    reach = tuple((length - 1) * gap + 1 for length, gap in zip(size, gaps, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(-2, -1))
    windows = windows[..., :: steps[0], :: steps[1], :: gaps[0], :: gaps[1]]
    flat = windows.reshape(*windows.shape[:-2], -1)
    first = flat.argmax(axis=-1)
    down, across = np.divmod(first, size[1])
    # From positions in a window to positions in the image without padding.
    rows = np.arange(flat.shape[-3])[:, None] * steps[0]
    rows = rows - pads[0]
    rows = rows + down * gaps[0]
    columns = np.arange(flat.shape[-2])
    columns = columns * steps[1]
    columns = columns - pads[1]
    columns = columns + across * gaps[1]
    maxima = np.take_along_axis(flat, first[..., None], -1)[..., 0]
    return maxima, (rows * width + columns).astype(np.int64)
