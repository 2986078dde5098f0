"""Place numbers along axes of charts and color scales, and round numbers beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["ChartAxis", "axis_for", "quantity", "tick_texts"]

# Numbers that need more digits to be told apart are written as differences.
_MOST_DIGITS = 6
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}


@dataclass(frozen=True)
class ChartAxis:
    """The range of an axis.

    Attributes
    ----------
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
            # Halved first: the distance of two floats can overflow, but not of their halves.
            return (numbers / 2 - low / 2) / (high / 2 - low / 2)

    def value_at(self, position: float) -> float:
        """Return the number at a position from 0 to 1."""
        if self.log:
            low = math.log(self.low)
            high = math.log(self.high)
            return math.exp(low + position * (high - low))
        return self.low * (1 - position) + self.high * position

    def ticks(self, most: int) -> list[float]:
        """Choose about this many round numbers on the axis.

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
    """Make the axis that covers all finite numbers, or the positive ones if it is logarithmic."""
    covered = values[np.isfinite(values)]
    if log:
        covered = covered[covered > 0]
    if not covered.size:
        return ChartAxis(0.0, 1.0)
    return ChartAxis(float(covered.min()), float(covered.max()), log)


def quantity(value: float, unit: str = "") -> str:
    """Write a number with three digits, and its unit with a prefix.

    Examples
    --------
    >>> quantity(0.00351, "s"), quantity(3512.0), quantity(-1.5e9), quantity(0.0, "s")
    ('3.51 ms', '3,510', '-1.5e+09', '0 s')
    """
    power = _prefix_power(value, unit)
    number = float(f"{value / 10.0**power:.3g}")
    text = f"{number:.3g}"
    # 3,510 is read more easily than 3.51e+03.
    if 1000 <= abs(number) < 1e5:
        text = f"{number:,.0f}"
    if unit:
        return f"{text} {_PREFIXES[power]}{unit}"
    return text


def _prefix_power(value: float, unit: str) -> int:
    """Choose the power of ten whose prefix leaves one to three digits before the point."""
    if not unit or not value or not math.isfinite(value):
        return 0
    # Three digits are written, and 0.9999 ms is 1 ms with them.
    written = float(f"{abs(value):.2e}")
    power = math.floor(math.log10(written)) // 3 * 3
    # There are no kiloseconds.
    largest = 12
    if unit == "s":
        largest = 0
    return min(largest, max(-9, power))


def tick_texts(ticks: Sequence[float], *, log: bool = False) -> list[str]:
    """Write the numbers beside an axis in one format, with enough digits to distinguish them.

    Examples
    --------
    >>> tick_texts([0, 0.5, 1]), tick_texts([0, 5000]), tick_texts([1e-6, 1e-3], log=True)
    (['0.0', '0.5', '1.0'], ['0', '5,000'], ['1e-06', '0.001'])
    >>> tick_texts([1e9, 1e9 + 1, 1e9 + 2])
    ['1000000000', '+1', '+2']
    """
    largest = max(map(abs, ticks))
    if log or len(set(ticks)) < 2 or not largest:
        return [quantity(tick) for tick in ticks]
    size = math.floor(math.log10(largest))
    # Of huge numbers some are equal.
    distance = math.log10(max(b - a for a, b in pairwise(ticks)))
    decimals = -math.floor(distance + 1e-9)
    if size + decimals >= _MOST_DIGITS:
        # Ten digits beside each line are too many: the others show their distance from the first.
        first = f"{ticks[0]:.{size + decimals + 1}g}"
        return [first, *(f"+{quantity(tick - ticks[0])}" for tick in ticks[1:])]
    notation = f",.{max(0, decimals)}f"
    if not -4 <= size < 7:
        notation = f".{max(1, size + decimals + 1)}g"
    return [f"{tick:{notation}}" for tick in ticks]
