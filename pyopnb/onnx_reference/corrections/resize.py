"""Resize and Upsample, one axis after the other.

Coordinates are of float32, as in ONNX Runtime: of two pixels that are as near, both take the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.catalog import precision
from pyopnb.onnx_reference.corrections.filters import cubic, linear

__all__ = ["resize", "resize_10", "upsample_7"]

_F = np.float32


@dataclass(frozen=True)
class _Axis:
    """An axis to resize: its length, its length afterwards, and its part of the image."""

    length: int
    resized: int
    scale: Any
    start: Any = 0
    end: Any = 1


def upsample_7(x: Any, *, scales: Sequence[float], mode: str) -> Any:
    """Resize by scales that are attrs."""
    return resize_10(x, np.array(scales, _F), mode=mode)


def resize_10(x: Any, scales: Any, *, mode: str) -> Any:
    """Resize before version 11, where Upsample has the same meaning."""
    attrs: dict[str, Any] = {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "simple",
    }
    return resize(x, None, scales, mode=mode, **attrs)


def resize(
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:
    """Resize some axes, or all, by their scales or to their sizes."""
    places = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    lengths = [x.shape[place] for place in places]
    resized = _axes(lengths, scales, sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    result = x if mode == "nearest" else precision.widen(x)
    is_outside = np.zeros((1,) * x.ndim, bool)
    for number, (place, axis) in enumerate(zip(places, resized, strict=True)):
        if crops:
            start, end = roi[number], roi[number + len(lengths)]
            axis = _Axis(axis.length, axis.resized, axis.scale, _F(start), _F(end))
        elif axis.length == axis.resized and axis.scale == 1:
            continue
        coordinates = _coordinates(coordinate_transformation_mode, axis)
        if crops:
            outside = (coordinates < 0) | (coordinates > axis.length - 1)
            is_outside = is_outside | _along(outside, place, x.ndim)
        if mode == "nearest":
            nearest = _nearest(nearest_mode, coordinates, axis.scale < 1)
            result = result.take(nearest.clip(0, axis.length - 1), axis=place)
            continue
        filter_ = linear if mode == "linear" else cubic(cubic_coeff_a)
        support = 1 if mode == "linear" else 2
        # Where an image becomes smaller, a wider filter takes in all of its pixels.
        narrow = min(axis.scale, _F(1)) if antialias else _F(1)
        reach = int(np.ceil(support / narrow))
        pixels = np.floor(coordinates)[:, None] + np.arange(-reach, reach + 2)
        weights = filter_((pixels - coordinates[:, None]) * narrow)
        if exclude_outside:
            weights = weights * ((pixels >= 0) & (pixels < axis.length))
        if exclude_outside or antialias:
            weights = weights / weights.sum(axis=1, keepdims=True)
        pixels = pixels.astype(np.int64).clip(0, axis.length - 1)
        result = _combine(result, pixels, weights, place)
    if is_outside.any():
        result = np.where(is_outside, _F(extrapolation_value), result)
    return result.astype(x.dtype)


def _axes(lengths: Sequence[int], scales: Any, sizes: Any, policy: str) -> list[_Axis]:
    """Find the lengths afterwards by scales or sizes; an empty tensor is as good as none."""
    if sizes is None or not sizes.size:
        scales = scales.astype(_F)
        resized = [int(scale * _F(length)) for scale, length in zip(scales, lengths, strict=True)]
    else:
        scales = sizes.astype(_F) / np.array(lengths, _F)
        resized = sizes.tolist()
        if policy != "stretch":
            scale = scales.min() if policy == "not_larger" else scales.max()
            scales = [scale] * len(lengths)
            resized = [int(np.floor(scale * _F(length) + _F(0.5))) for length in lengths]
    return [_Axis(*row) for row in zip(lengths, resized, scales, strict=True)]


def _coordinates(mode: str, axis: _Axis) -> Any:
    """Return where each element of the result lies on the axis of the input."""
    places = np.arange(axis.resized, dtype=_F)
    middles = (places + _F(0.5)) / axis.scale
    last = _F(axis.length - 1)
    # One element has no next one to keep a distance to.
    steps = _F(max(1, axis.resized - 1))
    if mode == "half_pixel":
        return middles - _F(0.5)
    if mode == "half_pixel_symmetric":
        adjustment = _F(axis.resized) / (axis.scale * _F(axis.length))
        return _F(axis.length) / 2 * (1 - adjustment) + middles - _F(0.5)
    if mode == "pytorch_half_pixel":
        return middles - _F(0.5) if axis.resized > 1 else np.zeros_like(middles)
    if mode == "tf_half_pixel_for_nn":
        return middles
    if mode == "align_corners":
        # By the ONNX tests, it counts before it is rounded; ONNX Runtime takes the whole number.
        exact = axis.scale * _F(axis.length)
        if abs(exact - axis.resized) > 1e-3:
            steps = exact - 1
        return places * last / steps
    if mode == "asymmetric":
        return places / axis.scale
    if axis.resized == 1:
        return (axis.start + axis.end) * last / 2 + places
    return axis.start * last + places * (axis.end - axis.start) * last / steps


def _nearest(mode: str, coordinates: Any, is_smaller: bool) -> Any:
    """Round coordinates; version 10 leaves the mode open, and the simple one is ONNX Runtime's."""
    roundings: dict[str, Callable[[Any], Any]] = {
        "ceil": np.ceil,
        "floor": np.floor,
        "round_prefer_ceil": lambda x: np.floor(x + _F(0.5)),
        "round_prefer_floor": lambda x: np.ceil(x - _F(0.5)),
        "simple": np.ceil if is_smaller else np.trunc,
    }
    return roundings[mode](coordinates).astype(np.int64)


def _combine(x: Any, pixels: Any, weights: Any, place: int) -> Any:
    """Add the pixels of an axis times their weights; NaN beside them does not matter."""
    total: Any = 0
    for column in range(pixels.shape[1]):
        weight = _along(weights[:, column].astype(x.dtype), place, x.ndim)
        taken = x.take(pixels[:, column], axis=place)
        total = total + np.where(weight == 0, 0, taken * weight)
    return total


def _along(values: Any, place: int, rank: int) -> Any:
    """Lay a vector along one of several axes."""
    return values.reshape([1] * place + [-1] + [1] * (rank - place - 1))
