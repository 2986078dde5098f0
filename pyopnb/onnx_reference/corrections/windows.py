"""Windows that slide over the axes of space, in poolings and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.catalog import pads_of

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a node lie; each attribute has an entry for each axis of space."""

    sizes: Sequence[int]
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]
    counts: Sequence[int]

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        *,
        kernel_shape: Sequence[int],
        auto_pad: str = "NOTSET",
        ceil_mode: int = 0,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Windows:
        """Find them by the attrs of a node."""
        kernel, sizes = kernel_shape, x.shape[2:]
        axes = len(sizes)
        strides, dilations = strides or [1] * axes, dilations or [1] * axes
        pads = pads_of(auto_pad, pads or [0] * 2 * axes, sizes, kernel, strides, dilations)
        begins, ends = pads[:axes], pads[axes:]
        counts = []
        for axis, size in enumerate(sizes):
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            room = size + begins[axis] + ends[axis] - reach
            count = room // strides[axis] + 1
            if ceil_mode:
                count = -(-room // strides[axis]) + 1
                # A window that would begin in the padding at the end is left out.
                if (count - 1) * strides[axis] >= size + begins[axis]:
                    count -= 1
            counts.append(count)
        return cls(sizes, kernel, strides, dilations, begins, ends, counts)

    def elements(self, x: np.ndarray, outside: Any) -> Any:
        """Return the elements of each window along a last axis, with a value for the padding."""
        margins = [(0, 0)] * (x.ndim - len(self.sizes))
        reaches = []
        for axis, size in enumerate(self.sizes):
            reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            needed = (self.counts[axis] - 1) * self.strides[axis] + reach
            # With ceil_mode, the last window may reach beyond the padding.
            margins.append((self.begins[axis], max(0, needed - size - self.begins[axis])))
            reaches.append(reach)
        padded = np.pad(x, margins, constant_values=outside)
        axes = tuple(range(-len(self.sizes), 0))
        views: Any = np.lib.stride_tricks.sliding_window_view(padded, reaches, axis=axes)
        places = []
        for stride, count in zip(self.strides, self.counts, strict=True):
            places.append(slice(0, (count - 1) * stride + 1, stride))
        steps = [slice(None, None, dilation) for dilation in self.dilations]
        views = views[(..., *places, *steps)]
        return views.reshape(*views.shape[: -len(steps)], math.prod(self.kernel))
