"""How an array is drawn, as far as the caller says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize

__all__ = ["ArrayLook", "Limits"]

Limits = tuple[float, float]


@dataclass(frozen=True)
class ArrayLook:
    """The options of `pyopnb.show` that arrays have.

    Attributes
    ----------
    rgb : bool, optional
        Whether three or four channels are one picture.
    limits : (float, float), optional
        The numbers of the first and the last colour.
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
            raise InputError("show, limits", expected="(low, high) with low < high", got=got)
        # The class is frozen, and whoever draws wants floats.
        object.__setattr__(self, "limits", (low, high))
