"""The caller's options for the picture of an array, and the title above it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pyopnb.common import sanitize
from pyopnb.errors import InputError
from pyopnb.traces import Summary

__all__ = ["ArrayLook", "Limits", "squeeze", "title_of_array"]

Limits = tuple[float, float]


@dataclass(frozen=True)
class ArrayLook:
    """The options of `pyopnb.show` for arrays.

    Attributes
    ----------
    rgb : bool, optional
        Whether three or four channels are one picture.
    limits : (float, float), optional
        The numbers of the first and the last color.
    """

    rgb: bool | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        if self.limits is None:
            return
        try:
            low, high = map(float, self.limits)
        except (TypeError, ValueError):
            low = high = math.nan
        if not low < high or not math.isfinite(high - low):
            got = sanitize(repr(self.limits))
            expected = "(low, high) with low < high"
            raise InputError("show, limits", expected=expected, got=got, next="limits=(0, 1)")
        # The class is frozen, and drawing needs floats.
        object.__setattr__(self, "limits", (low, high))


def squeeze(value: np.ndarray) -> np.ndarray:
    """Drop axes of length 1, but keep at least one axis."""
    return value.reshape([size for size in value.shape if size != 1] or [1])


def title_of_array(value: np.ndarray, summary: Summary, name: str) -> str:
    """Write the caption of a picture: a name, and the type."""
    title = str(summary.type)
    if value.dtype.kind == "c":
        title = f"|x|, {title}"
    if name:
        return f"{name}: {title}"
    return title
