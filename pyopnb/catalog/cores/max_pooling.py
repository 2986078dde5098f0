"""Maxima of windows, and their places."""

from __future__ import annotations

import math

import numpy as np

from pyopnb.catalog.cores.onnx_text import dtype_number, ints, item_of, value_of, wide
from pyopnb.engine import TensorType

__all__ = ["max_pool_form", "pool_maxima"]

_Pair = tuple[int, int]


def _pair(numbers: np.ndarray | None, default: _Pair) -> _Pair:
    """Return a pair of numbers from one or two, or the default from none."""
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
    form = (size, steps, pads, _pair(dilation, (1, 1)))
    # A padded pixel is never the maximum.
    flat = _windows(x, -np.inf, *form)
    image_shape = x.shape[-2:]
    count = math.prod(image_shape)
    numbers = np.arange(count).reshape(image_shape)
    flat_numbers = np.broadcast_to(_windows(numbers, -1, *form), flat.shape)
    first = flat.argmax(axis=-1, keepdims=True)
    maxima = np.take_along_axis(flat, first, -1)
    places = np.take_along_axis(flat_numbers, first, -1)
    return maxima[..., 0], places[..., 0]


def _windows(
    x: np.ndarray, outside: float, size: _Pair, steps: _Pair, pads: _Pair, gaps: _Pair
) -> np.ndarray:
    """Return the elements of each window along a last axis, [...,oh,ow,kh·kw]."""
    margins = [(0, 0)] * (x.ndim - 2)
    margins += [(pad, pad) for pad in pads]
    padded = np.pad(x, margins, constant_values=outside)
    reach = [(length - 1) * gap + 1 for length, gap in zip(size, gaps, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(-2, -1))
    windows = windows[..., :: steps[0], :: steps[1], :: gaps[0], :: gaps[1]]
    return windows.reshape(*windows.shape[:-2], math.prod(size))


def max_pool_form(
    x: TensorType,
    kernel: TensorType,
    stride: TensorType | None,
    padding: TensorType | None,
    dilation: TensorType | None,
    ceil_mode: TensorType | None,
) -> str:
    """Write `pool_maxima` as a function with MaxPool.

    MaxPool's places count through all images and channels, so they are taken modulo the image.
    """
    # MaxPool takes a third axis for pixels.
    if x.rank != 4:
        raise NotImplementedError(f"an image of rank {x.rank}")
    if item_of(ceil_mode, False):
        raise NotImplementedError("ceil_mode")
    numbers = [None if item is None else value_of(item) for item in (stride, padding, dilation)]
    size = _pair(value_of(kernel), (1, 1))
    steps = _pair(numbers[0], size)
    pads = _pair(numbers[1], (0, 0))
    gaps = _pair(numbers[2], (1, 1))
    return f"""(x, kernel, stride, padding, dilation, ceil_mode) => (maxima, places) {{
        x_wide = Cast<to = {wide(x)}>(x)
        pooled, numbers = MaxPool<kernel_shape = {ints(size)}, strides = {ints(steps)},
            pads = {ints(pads * 2)}, dilations = {ints(gaps)}>(x_wide)
        maxima = Cast<to = {dtype_number(x)}>(pooled)
        sizes = Shape<start = 2>(x)
        area = ReduceProd<keepdims = 0>(sizes)
        places = Mod(numbers, area)
    }}"""
