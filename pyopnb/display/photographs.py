"""Arrays as photographs: three or four channels, first or last, as the colors of pixels."""

from __future__ import annotations

import numpy as np

from pyopnb.display.array_look import ArrayLook
from pyopnb.display.svg.colors import SPECIAL
from pyopnb.display.svg.pool import pool, to_floats
from pyopnb.traces import Summary

__all__ = ["channel_axis", "looks_like_photographs", "photographs"]

# An array with fewer pixels along a side is not a photograph.
_SMALLEST = 8
# How many elements are tested to decide whether all are whole numbers.
_SAMPLE = 2**14


def channel_axis(value: np.ndarray) -> int | None:
    """Return the axis that could be the channels of RGB or RGBA."""
    if value.ndim < 3 or value.dtype.kind in "bcOUT":
        return None
    return next((axis for axis in (-1, -3) if value.shape[axis] in (3, 4)), None)


def looks_like_photographs(value: np.ndarray, summary: Summary) -> bool:
    """Tell whether an array looks like pixels by shape, dtype and range."""
    axis = channel_axis(value)
    if axis is None or summary.least is None or summary.has_nonfinite:
        return False
    sides = value.shape[-2:]
    if axis == -1:
        sides = value.shape[-3:-1]
    if min(sides) < _SMALLEST:
        return False
    if value.dtype == np.uint8:
        return value.shape[axis] == 3 or axis == -1
    if value.shape[axis] != 3 or "float" not in value.dtype.name or summary.least < 0:
        return False
    if summary.greatest <= 1:
        return bool(summary.greatest > 0)
    # Whole numbers up to 255 are pixels that were made floats.
    if not 128 <= summary.greatest <= 255:
        return False
    fractions = to_floats(np.asarray(value.flat[:_SAMPLE])) % 1
    return not fractions.any()


def photographs(
    stack: np.ndarray, rows: int, columns: int, summary: Summary, look: ArrayLook
) -> tuple[list[np.ndarray], str]:
    """Make the pixels of photographs.

    Parameters
    ----------
    stack : ndarray
        Photographs, rows, columns, channels.
    rows, columns : int
        Of the pictures.

    Returns
    -------
    tuple of list of ndarray and str
        uint8[rows, columns, channels] each, and the values of black and white.
    """
    low, high = float(summary.least or 0), float(summary.greatest or 0)
    if look.limits:
        low, high = look.limits
    elif stack.dtype == np.uint8 or (low >= 0 and 8 < high <= 255):
        low, high = 0.0, 255.0
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    channels = stack.shape[-1]
    pictures = []
    for photograph in stack:
        pooled = [pool(plane, rows, columns, "mean") for plane in np.moveaxis(photograph, -1, 0)]
        planes = np.stack(pooled, axis=-1)
        with np.errstate(all="ignore"):
            shares = (planes - low) / ((high - low) or 1.0)
            pixels = np.rint(255 * np.clip(shares, 0, 1))
            # A pixel that is not finite gets the color that NaN has in heat maps.
            pixels[~np.isfinite(planes).all(axis=-1)] = (*SPECIAL["NaN"], 255)[:channels]
            pictures.append(pixels.astype(np.uint8))
    model = "RGB"
    if channels == 4:
        model = "RGBA"
    words = f"{model}: {low:.4g} is black, {high:.4g} white."
    if not look.rgb:
        words += " rgb=False draws the channels."
    return pictures, words
