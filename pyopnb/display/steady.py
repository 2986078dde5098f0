"""Results and diffs drawn one after another, in colours that keep their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.array_diff import headline_html, part_picture
from pyopnb.display.html import join
from pyopnb.display.photographs import channel_axis
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
        """Draw a result."""
        for name, value in result.items():
            limits = _limits_of(value)
            if limits is not None:
                self.limits[name] = _wider(self.limits.get(name, limits), limits)
        title = f"{len(result)} outputs"
        return view_arrays(result, result.items(), title, limits=self.limits).body

    def diff_html(self, diff: Diff) -> str:
        """Draw the headline of a diff and a picture of its worst part, and nothing that opens or moves."""
        part = diff.worst
        largest = part.facts.largest if part.facts is not None else None
        if largest and math.isfinite(largest):
            limits = (0.0, float(largest))
            self._errors[part.name] = _wider(self._errors.get(part.name, limits), limits)
        picture = part_picture(part, "difference", self._errors.get(part.name))
        return join([headline_html(diff), picture])


def _limits_of(value: Any) -> _Limits | None:
    """Return the least and the largest number of an array, with 0 in the middle where there are negative ones."""
    # What may be a photograph has limits of its own, and so have booleans.
    if not isinstance(value, np.ndarray) or channel_axis(value) is not None or value.dtype == bool:
        return None
    try:
        summary = summary_of(value)
    except InputError:  # of a dtype that ONNX does not have
        return None
    if summary.least is None or summary.greatest is None:
        return None
    low, high = min(float(summary.least), 0.0), float(summary.greatest)
    if not math.isfinite(high - low) or max(-low, high) <= 0:
        return None
    return _wider((low, high), (low, high))


def _wider(limits: _Limits, added: _Limits) -> _Limits:
    low, high = min(limits[0], added[0]), max(limits[1], added[1])
    if low < 0:
        low, high = -max(-low, high), max(-low, high)
    return low, high
