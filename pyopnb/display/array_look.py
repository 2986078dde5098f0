"""The caller's options for the picture of an array, and the title above it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.common import messages, sanitize
from pyopnb.display.svg.colors import PALETTES
from pyopnb.errors import InputError
from pyopnb.traces import Summary

__all__ = ["ArrayLook", "Limits", "squeeze", "title_of_array"]

Limits = tuple[float, float]


@dataclass(frozen=True)
class ArrayLook:
    """The options of `pyopnb.show` for arrays, which `view_array` lists for callers.

    Attributes
    ----------
    rgb : bool, optional
        Whether three or four channels are one picture.
    limits : (float, float), optional
        The numbers of the first and the last color.
    colors : str, optional
        The `palette`.
    log : bool
        Whether the scale, or the upright axis of a curve, is logarithmic.
    origin : str
        Where row 0 is: ``upper`` or ``lower``.
    feeds : mapping, optional
        Arrays by name, of which one can be the x-axis of a curve.
    picture : ndarray, optional
        On which boxes are drawn.
    """

    rgb: bool | None = None
    limits: Limits | None = None
    colors: str | None = None
    log: bool = False
    origin: str = "upper"
    feeds: Mapping[str, Any] | None = field(default=None, compare=False)
    picture: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _require("colors", self.colors, (None, *PALETTES))
        _require("origin", self.origin, ("upper", "lower"))
        if self.limits is None:
            return
        try:
            low, high = map(float, self.limits)
        except (TypeError, ValueError):
            low = high = math.nan
        least = 0.0 if self.log else -math.inf
        if not least < low < high or not math.isfinite(high - low):
            got = sanitize(repr(self.limits))
            expected = "(low, high) with low < high"
            next_ = "limits=(0, 1)"
            if self.log:
                expected = "(low, high) with 0 < low < high, because log=True"
                next_ = "limits=(1e-3, 1)"
            raise InputError("show, limits", expected=expected, got=got, next=next_)
        # The class is frozen, and drawing needs floats.
        object.__setattr__(self, "limits", (low, high))


def _require(option: str, value: Any, known: Sequence[str | None]) -> None:
    """Raise `InputError` unless an option has one of these values."""
    if value not in known:
        names = [name for name in known if name]
        got = sanitize(repr(value))
        next_ = f'{option}="{messages.closest(str(value), names) or names[0]}"'
        raise InputError(f"show, {option}", expected=", ".join(names), got=got, next=next_)


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
