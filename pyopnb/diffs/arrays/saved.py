"""The statistics of a saved diff, checked to be within what a comparison can give.

What is read is displayed and judged like what was compared. A corner below 0 would be searched for
without end, a histogram of huge exponents drawn in as much memory, and an index beyond its axis point
nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pyopnb.diffs.arrays.stats import ArrayStats
from pyopnb.diffs.documents import from_plain
from pyopnb.ops.types import tensor_type

__all__ = ["read_statistics"]

_MOST_CELLS = 256  # of a picture's row or column
_BINS = range(-1, 2**14)  # eighths of an octave of a float64, and no difference
_EXPONENTS = range(-1023, 1025)
_DIGITS = range(129)  # binary digits of a number of units in the last place


def read_statistics(value: Any, array_type: str) -> ArrayStats:
    """Read the statistics of two arrays of a type.

    Raises
    ------
    ValueError, TypeError, KeyError
        They are something else, or cannot be those of such arrays.
    """
    facts: ArrayStats = from_plain(ArrayStats, value)
    sizes = _sizes(array_type)
    counts = (facts.finite, facts.bits, facts.differing, facts.odd, facts.over or 0)
    _require(facts.count == math.prod(sizes), f"{facts.count} elements of type {array_type}")
    _require(all(0 <= count <= facts.count for count in counts), "more elements than there are")
    _require(not facts.differing or facts.worst, "differences, and no element that has one")
    numbers = (facts.largest, facts.mean, facts.rms, facts.peak, facts.ulp, *(facts.parts or ()))
    _require(not any(x is not None and x < 0 for x in numbers), "no number from 0 on")
    _require(1 <= facts.stride <= 2**63, "no stride")
    for index in (facts.first, *(element.index for element in facts.worst)):
        _require(index is None or _is_inside(index, sizes), "no index of an element")
    for axis in facts.axes:
        along = (axis.size, axis.hit, axis.index, axis.most, axis.seen)
        _require(0 <= axis.axis < len(sizes) and min(along) >= 0, "no axis of the arrays")
    _check_corners(facts)
    _require_bins(facts.sizes, _BINS)
    _require_bins(facts.ulps, _DIGITS)
    _require_bins((exponent for pair in facts.spread for exponent in pair), _EXPONENTS)
    _check_picture(facts)
    return facts


def _sizes(array_type: str) -> list[int]:
    """Read the lengths of the axes from the type of an array."""
    shape = tensor_type(array_type).shape
    is_fixed = shape is not None and all(type(size) is int for size in shape)
    _require(is_fixed, f"statistics of an array of type {array_type}")
    return list(shape)  # type: ignore[arg-type]  # all of them are known


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _require_bins(bins: Iterable[int], known: range) -> None:
    _require(all(number in known for number in bins), "a bin that no histogram has")


def _is_inside(index: tuple[int, ...], sizes: list[int]) -> bool:
    if len(index) != len(sizes):
        return False
    return all(0 <= position < size for position, size in zip(index, sizes, strict=True))


def _check_corners(facts: ArrayStats) -> None:
    before = (0.0, 0.0)
    for corner in facts.frontier.corners:
        rises = before[0] < corner[0] < math.inf and before[1] <= corner[1] < math.inf
        _require(rises, "corners that do not rise from above 0")
        before = corner
    _require(0 <= facts.frontier.at_zero < math.inf, "at_zero is no size")


def _check_picture(facts: ArrayStats) -> None:
    for row in facts.grid:
        _require_bins(row, _BINS)
    if facts.matrix is None:
        return
    rows, columns = facts.matrix
    widths = {len(row) for row in facts.grid}
    fits = rows * columns == facts.count and 0 < len(facts.grid) <= min(rows, _MOST_CELLS)
    fits = fits and len(widths) == 1 and 0 < max(widths) <= min(columns, _MOST_CELLS)
    _require(fits, f"a picture of {len(facts.grid)} rows of a matrix of {rows} × {columns}")
