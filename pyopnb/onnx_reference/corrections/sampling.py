"""GridSample, in any number of axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pyopnb.catalog import precision, sampling
from pyopnb.onnx_reference.corrections.filters import cubic, linear

__all__ = ["grid_sample"]


def grid_sample(x: Any, grid: Any, *, mode: str, padding_mode: str, align_corners: int) -> Any:
    """Interpolate images at points, whose coordinates go from -1 to 1, the last axis first."""
    sizes, images = x.shape[2:], precision.widen(x)
    # For each axis, whole coordinates beside each point, with their weights.
    taps = []
    for axis, size in enumerate(sizes):
        values = grid[..., len(sizes) - 1 - axis].astype(images.dtype)
        point = sampling.unnormalize(values, size, align_corners=bool(align_corners))
        is_cubic = mode in ("cubic", "bicubic")
        # Cubic brings the pixels inside, and the other modes the point.
        if not is_cubic:
            point = _inside(point, size, padding_mode, align_corners)
        places = _neighbors(point, mode)
        if is_cubic:
            places = [
                (_inside(place, size, padding_mode, align_corners), weight)
                for place, weight in places
            ]
        taps.append(places)
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), images.dtype)
    for corner in itertools.product(*taps):
        is_inside = np.ones(grid.shape[:-1], bool)
        weight = np.ones(grid.shape[:-1], images.dtype)
        for (place, share), size in zip(corner, sizes, strict=True):
            is_inside &= (place >= 0) & (place < size)
            weight = weight * share
        pixels_at = [np.where(is_inside, place, 0).astype(np.int64) for place, _ in corner]
        for number, image in enumerate(images):
            counts = is_inside[number] & (weight[number] != 0)
            pixels = image[:, *[place[number] for place in pixels_at]]
            result[number] += np.where(counts, pixels * weight[number], 0)
    return result.astype(x.dtype)


def _inside(place: Any, size: int, padding_mode: str, align_corners: int) -> Any:
    """Bring coordinates into the image; zeros leaves them outside, where all is 0."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = sampling.reflect(place, size, align_corners=bool(align_corners))
    return place.clip(0, size - 1)


def _neighbors(point: Any, mode: str) -> list[tuple[Any, Any]]:
    """Return the whole coordinates around points, each with its weight."""
    if mode == "nearest":
        return [(np.rint(point), 1)]
    low = np.floor(point)
    if mode in ("linear", "bilinear"):
        return [(low + step, linear(low + step - point)) for step in (0, 1)]
    weigh = cubic(-0.75)
    return [(low + step, weigh(low + step - point)) for step in (-1, 0, 1, 2)]
