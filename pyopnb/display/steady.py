"""Results and diffs drawn one after the other, in colours that keep their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.array_diff import headline_html, part_picture
from pyopnb.display.html import join
from pyopnb.display.picture import Look
from pyopnb.display.tensors import view_arrays
from pyopnb.errors import InputError
from pyopnb.ops.result import Result
from pyopnb.traces.summary import summary_of

__all__ = ["SteadyColours"]

_Limits = tuple[float, float]


class SteadyColours:
    """The limits of the colours of outputs and of a diff.

    They widen when a number leaves them, and never narrow: while a slider moves, equal colours are equal numbers.

    Examples
    --------
    >>> from pyopnb.ops.result import Result
    >>> colours = SteadyColours()
    >>> for end in (2.0, 1.0, 3.0):
    ...     html = colours.result_html(Result({"y": np.linspace(0, end, 400).reshape(20, 20)}))
    ...     print(colours.limits["y"])
    (0.0, 2.0)
    (0.0, 2.0)
    (0.0, 3.0)
    """

    def __init__(self) -> None:
        self.limits: dict[str, _Limits] = {}
        self._errors: dict[str, _Limits] = {}

    def result_html(self, result: Result) -> str:
        """The HTML of a result."""
        for name, value in result.items():
            if limits := _limits_of(value):
                self.limits[name] = _wider(self.limits.get(name), limits)
        return view_arrays(
            result, result.items(), f"{len(result)} outputs", limits=self.limits
        ).body

    def diff_html(self, diff: Diff) -> str:
        """The headline of a diff and a picture of its worst part, and nothing that opens or moves."""
        part = diff.worst
        largest = part.facts.largest if part.facts is not None else None
        if largest and math.isfinite(largest):
            self._errors[part.name] = _wider(self._errors.get(part.name), (0.0, float(largest)))
        return join(
            [
                headline_html(diff),
                part_picture(part, "difference", self._errors.get(part.name), most=1),
            ]
        )


def _limits_of(value: Any) -> _Limits | None:
    """The least and the largest number of an array, with 0 in the middle where there are negative ones."""
    if (
        not isinstance(value, np.ndarray) or Look(rgb=True).fitting(value).rgb
    ):  # a photograph has limits of its own
        return None
    try:
        summary = summary_of(value)
    except InputError:
        return None
    if summary.least is None or summary.greatest is None or value.dtype == bool:
        return None
    low, high = float(summary.least), float(summary.greatest)
    if low < 0:
        low, high = -max(-low, high), max(-low, high)
    return (min(low, 0.0), high) if math.isfinite(high - low) and high > 0 else None


def _wider(limits: _Limits | None, other: _Limits) -> _Limits:
    low, high = other if limits is None else (min(limits[0], other[0]), max(limits[1], other[1]))
    return (-max(-low, high), max(-low, high)) if low < 0 else (low, high)
