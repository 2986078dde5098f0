"""Numbers beside axes and legends: with few digits, and with prefixes where they have a unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["quantity", "tick_texts"]

# Numbers that are told apart by more digits only are written as differences.
_MOST_DIGITS = 6
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}


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
    # Nobody says kilosecond.
    largest = 0 if unit == "s" else 12
    return min(largest, max(-9, power))


def tick_texts(ticks: Sequence[float], *, log: bool = False, unit: str = "") -> list[str]:
    """Write the numbers beside an axis: alike, with as many digits as tell them apart.

    Examples
    --------
    >>> tick_texts([0, 0.5, 1]), tick_texts([0, 5000]), tick_texts([1e-6, 1e-3], log=True)
    (['0.0', '0.5', '1.0'], ['0', '5,000'], ['1e-06', '0.001'])
    >>> tick_texts([0, 0.001, 0.002], unit="s"), tick_texts([1e9, 1e9 + 1, 1e9 + 2])
    (['0 ms', '1 ms', '2 ms'], ['1000000000', '+1', '+2'])
    """
    largest = max(map(abs, ticks))
    if log or len(ticks) < 2 or not largest:
        return [quantity(tick, unit) for tick in ticks]
    power = _prefix_power(largest, unit)
    factor = 10.0**power
    scaled = [tick / factor for tick in ticks]
    size = math.floor(math.log10(largest / factor))
    distance = math.log10(scaled[1] - scaled[0])
    decimals = -math.floor(distance + 1e-9)
    suffix = ""
    if unit:
        suffix = f" {_PREFIXES[power]}{unit}"
    if size + decimals >= _MOST_DIGITS:
        # Nobody reads ten digits beside each line: the others say how far they are from the first.
        first = f"{scaled[0]:.{size + decimals + 1}g}{suffix}"
        return [first, *(f"+{quantity(tick - ticks[0], unit)}" for tick in ticks[1:])]
    notation = f",.{max(0, decimals)}f"
    if not -4 <= size < 7:
        notation = f".{max(1, size + decimals + 1)}g"
    return [f"{number:{notation}}{suffix}" for number in scaled]
