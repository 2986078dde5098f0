"""Convolutions of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pyopnb.catalog.cores.precision import wide_dtype

__all__ = ["convolve", "pads_of"]


def pads_of(
    auto_pad: str,
    pads: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return the padding of the ONNX ``auto_pad`` at the begin of each axis, then at the end."""
    if auto_pad == "NOTSET":
        return list(pads)
    begins, ends = [], []
    for axis, length in enumerate(size):
        total = 0
        if auto_pad != "VALID":
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            outputs = -(-length // strides[axis])
            total = max(0, (outputs - 1) * strides[axis] + reach - length)
        smaller = total // 2
        larger = total - total // 2
        # The odd pixel comes first for SAME_LOWER and last for SAME_UPPER.
        begins.append(larger if auto_pad == "SAME_LOWER" else smaller)
        ends.append(smaller if auto_pad == "SAME_LOWER" else larger)
    return begins + ends


def convolve(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> np.ndarray:
    """Convolve in float32, or in float64 if the images have it.

    Parameters
    ----------
    x : ndarray
        float[N,C,H,W].
    weight : ndarray
        float[M,C/group,kh,kw].
    bias : ndarray, optional
        float[M].
    pads : four int
        Top, left, bottom, right.

    Returns
    -------
    ndarray
        float[N,M,oh,ow], with the dtype of ``x``.
    """
    wide = wide_dtype(x.dtype)
    top, left, bottom, right = pads
    margins = ((0, 0), (0, 0), (top, bottom), (left, right))
    # Padding once is cheaper than testing each window.
    padded = np.pad(x.astype(wide), margins)
    kernel_height, kernel_width = weight.shape[2:]
    height_reach = (kernel_height - 1) * dilations[0] + 1
    width_reach = (kernel_width - 1) * dilations[1] + 1
    reach = (height_reach, width_reach)
    # A view of all windows; only the patches are copied.
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    batch, _, height, width = windows.shape[:4]
    outputs = len(weight)
    patches = windows.transpose(0, 2, 3, 1, 4, 5)
    elements = math.prod(weight.shape[1:])
    patches = patches.reshape(batch, height, width, group, elements)
    matrix = weight.astype(wide).reshape(group, outputs // group, elements)
    # One product for each group: patches of its channels with its kernels.
    products = patches[..., None, :] @ matrix.transpose(0, 2, 1)
    convolved = products.reshape(batch, height, width, outputs)
    convolved = np.moveaxis(convolved, -1, 1)
    if bias is not None:
        convolved = convolved + bias.astype(wide)[:, None, None]
    return convolved.astype(x.dtype)
