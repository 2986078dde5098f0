"""Results and diffs drawn one after another, in colors and by axes that keep their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.diffs import Diff
from pyopnb.display.array_curve import is_curve
from pyopnb.display.array_diff import headline_html, part_picture
from pyopnb.display.array_look import Limits
from pyopnb.display.page.markup import join
from pyopnb.display.photographs import channel_axis
from pyopnb.display.tensors import view_arrays
from pyopnb.engine import Result
from pyopnb.traces import Summary

__all__ = ["SteadyColors"]


class SteadyColors:
    """The limits of the colors and axes of outputs and of a diff.

    They widen when a number leaves them, and never narrow: while a slider moves, equal
    colors are equal numbers.

    Examples
    --------
    >>> from pyopnb.engine.ops.result import Result
    >>> colors = SteadyColors()
    >>> for end in (2.0, 1.0, 3.0):
    ...     html = colors.result_html(Result({"y": np.linspace(0, end, 400).reshape(20, 20)}))
    ...     print(colors.limits["y"])
    (0.0, 2.0)
    (0.0, 2.0)
    (0.0, 3.0)
    """

    def __init__(self) -> None:
        self.limits: dict[str, Limits] = {}
        self._errors: dict[str, Limits] = {}

    @staticmethod
    def limits_of(value: Any) -> Limits | None:
        """Return the ends of an array's colors or axis; None if it keeps its own or has none."""
        # Arrays that may be photographs, and booleans, have their own limits.
        if (
            not isinstance(value, np.ndarray)
            or channel_axis(value) is not None
            or value.dtype == bool
        ):
            return None
        summary = Summary.of(value)
        if summary.least is None or not summary.least < summary.greatest:
            return None
        low = float(summary.least)
        high = float(summary.greatest)
        if is_curve(value):
            return low, high
        return _centered((low, high))

    def hold(self, result: Result) -> None:
        """Let colors and axes hold a result that is drawn later."""
        for name, value in result.items():
            _widen(self.limits, name, self.limits_of(value))
            if name in self.limits and not is_curve(value):
                self.limits[name] = _centered(self.limits[name])

    def result_html(self, result: Result, feeds: Mapping[str, Any] | None = None) -> str:
        """Draw a result; ``feeds`` as for `pyopnb.show`."""
        self.hold(result)
        title = f"{len(result)} outputs"
        return view_arrays(result, result.items(), title, limits=self.limits, feeds=feeds).body

    def diff_html(self, diff: Diff, names: tuple[str, str] = ("", "")) -> str:
        """Draw a diff's headline and its worst part, without anything that opens or moves.

        Parameters
        ----------
        names : (str, str), optional
            What a and b are.
        """
        part = diff.worst
        largest = None
        if part.facts is not None:
            largest = part.facts.largest
        # A difference that is NaN has no place on an axis.
        if part.facts is not None and largest and math.isfinite(largest):
            # The difference of curves has a sign, the errors of a map have none.
            if part.facts.pairs is None:
                low = 0.0
            else:
                low = -float(largest)
            _widen(self._errors, part.name, (low, float(largest)))
        errors = self._errors.get(part.name)
        picture = part_picture(part, "difference", errors, self.limits.get(part.name), names)
        return join([headline_html(diff), picture])


def _centered(limits: Limits) -> Limits:
    """Begin colors at 0, or put it in their middle where there are negative numbers."""
    low, high = limits
    if low < 0:
        high = max(-low, high)
        low = -high
    return min(low, 0.0), high


def _widen(limits: dict[str, Limits], name: str, added: Limits | None) -> None:
    """Let the limits of a name hold others."""
    if added is not None:
        low, high = limits.get(name, added)
        limits[name] = (min(low, added[0]), max(high, added[1]))
