"""Axes: where numbers lie between the ends of a chart or a colour scale, and which round numbers stand beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ChartAxis", "axis_for"]


@dataclass(frozen=True)
class ChartAxis:
    """The range of an axis.

    Attributes
    ----------
    low, high : float
    log : bool
        Whether it is logarithmic; numbers of 0 and less then lie at the low end.
    """

    low: float
    high: float
    log: bool = False

    def positions(self, values: Any) -> np.ndarray:
        """Place numbers between 0 at the low end and 1 at the high one; NaN stays NaN."""
        low, high = self.low, self.high
        numbers = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            if self.log:
                numbers = np.log(np.maximum(numbers, low))
                low, high = math.log(low), math.log(high)
            if not low < high:
                return np.full(numbers.shape, 0.5)
            # Halved first: the distance of two floats can overflow, that of their halves cannot.
            return (numbers / 2 - low / 2) / (high / 2 - low / 2)

    def value_at(self, position: float) -> float:
        """Return the number at a position from 0 to 1."""
        if self.log:
            low = math.log(self.low)
            high = math.log(self.high)
            return math.exp(low + position * (high - low))
        return self.low * (1 - position) + self.high * position

    def ticks(self, most: int) -> list[float]:
        """Choose about so many round numbers on the axis.

        Examples
        --------
        >>> ChartAxis(0, 9960).ticks(4), ChartAxis(1e-6, 1, log=True).ticks(4)
        ([0.0, 2000.0, 4000.0, 6000.0, 8000.0], [1e-06, 0.0001, 0.01, 1.0])
        """
        if not self.low < self.high:
            return [self.low]
        if self.log:
            # The rounding of a logarithm must not lose a power of ten at an end.
            first = math.ceil(math.log10(self.low) - 1e-9)
            last = math.floor(math.log10(self.high) + 1e-9)
            if first < last:
                step = math.ceil((last - first + 1) / most)
                return [10.0**power for power in range(first, last + 1, step)]
        return _round_numbers(self.low, self.high, most)


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """List the multiples of 1, 2 or 5 times a power of ten between two numbers."""
    # Each divided for itself, as the distance of two floats can overflow.
    least_step = high / most - low / most
    if not least_step > 1e-300:
        return [low, high]
    power = 10.0 ** math.floor(math.log10(least_step))
    for factor in (1, 2, 5, 10):
        step = power * factor
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first <= most:
            break
    return [number * step for number in range(first, last + 1)]


def axis_for(values: np.ndarray, *, log: bool = False) -> ChartAxis:
    """Make the axis that covers the finite ones of some numbers, of a logarithmic one the positive ones."""
    covered = values[np.isfinite(values)]
    if log:
        covered = covered[covered > 0]
    if not covered.size:
        return ChartAxis(0.0, 1.0)
    return ChartAxis(float(covered.min()), float(covered.max()), log)
