"""A pair of values with the statistics of their difference, and the verdict on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.stats import ArrayStats, array_stats, family, scale_of, verdict_counts
from pyopnb.diffs.documents import from_plain, read_fields, to_plain
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine import dtype

__all__ = ["VERDICTS", "Part", "PartPath", "largest_difference", "named", "part_of"]

VERDICTS = ("bit-identical", "value-identical", "close", "different", "incomparable")
"""From the best to the worst."""

# The statistics of longer arrays are computed at once.
_SHORT = 4096

PartPath = tuple[str | int, ...]
"""The names and positions that lead to an array."""


@dataclass(eq=False, slots=True)
class LazyStats:
    """The facts of two short arrays, computed only as far as the verdict needs them.

    The others are computed at first use.

    Attributes
    ----------
    a, b : ndarray
        Copies, as the caller may modify the originals before the statistics are computed.
    bits, differing, over : int
        As in `ArrayStats`.
    """

    a: np.ndarray
    b: np.ndarray
    rtol: float
    atol: float
    bits: int
    differing: int
    over: int

    def make(self) -> ArrayStats:
        """Compute the deferred statistics."""
        return array_stats(self.a, self.b, self.rtol, self.atol)


def quick_stats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> LazyStats | ArrayStats:
    """Compare short arrays as `array_stats` does, but defer what no verdict needs."""
    if a.size > _SHORT or family(a.dtype) == "string":
        return array_stats(a, b, rtol, atol)
    a, b = a.copy(), b.copy()
    return LazyStats(a, b, rtol, atol, *verdict_counts(a, b, rtol, atol))


@dataclass(frozen=True, eq=False)
class Part:
    """A pair of values, and the statistics of their difference.

    Attributes
    ----------
    path : tuple of str and int
        Names and positions that lead to the arrays; empty if two arrays were compared directly.
    a, b : str
        Their types.
    reason : str
        Why they cannot be compared; empty where they can.
    rtol, atol, stol : float
        The tolerance that was applied: 0 where the dtype is exact.
    counted : ArrayStats or LazyStats or None
        None where there are no two arrays of the same type.
    """

    path: PartPath
    a: str
    b: str
    reason: str = ""
    rtol: float = 0.0
    atol: float = 0.0
    counted: ArrayStats | LazyStats | None = None
    stol: float = 0.0

    @property
    def name(self) -> str:
        """Return the path as it would be typed."""
        return named(self.path)

    @property
    def facts(self) -> ArrayStats | None:
        """Return the statistics; None where there are no two arrays of the same type."""
        if isinstance(self.counted, LazyStats):
            # They are computed once, and no fact that equality looks at changes.
            # The dataclass is frozen for its users only.
            object.__setattr__(self, "counted", self.counted.make())
        return self.counted  # type: ignore[return-value]  # no longer lazy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self._to_plain() == other._to_plain()

    __hash__ = None  # type: ignore[assignment]  # facts hold dicts

    @property
    def verdict(self) -> str:
        """Return one of `VERDICTS`."""
        if self.reason:
            return "incomparable"
        facts = self.counted
        if facts is None or not facts.bits:
            return "bit-identical"
        if not facts.differing:
            return "value-identical"
        if facts.over is None or facts.over:
            return "different"
        return "close"

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    @property
    def scale(self) -> float:
        """Return the largest finite ``|b|``, to which ``stol`` is relative."""
        if self.facts is None:
            return 0.0
        return self.facts.peak or 0.0

    @property
    def floor(self) -> float:
        """Return the tolerance at b = 0: ``atol + stol * scale``."""
        # The scale of short arrays is computed only on demand.
        if self.stol:
            return self.atol + self.stol * self.scale
        return self.atol

    def judged(self, tolerances: Tolerances) -> Part:
        """Judge the same statistics by another tolerance."""
        facts = self.facts
        if facts is None:
            return self
        rtol, atol, stol = tolerances.of(self.a.partition("[")[0])
        # The number of elements over this tolerance is known: keep it.
        if (rtol, atol, stol) == (self.rtol, self.atol, self.stol):
            return self
        judged = replace(self, rtol=rtol, atol=atol, stol=stol)
        over: int | None = None
        # Without the arrays, the number of elements over a new tolerance is
        # known in two cases only.
        if _passes(facts, rtol, atol, judged.floor):
            over = 0
        elif not (rtol or atol or stol):
            over = facts.differing
        return replace(judged, counted=replace(facts, over=over, axes=()))

    def _to_plain(self) -> dict[str, Any]:
        names = ("path", "verdict", "a", "b", "reason", "rtol", "atol", "stol", "facts")
        return {name: to_plain(getattr(self, name)) for name in names}

    @classmethod
    def _from_plain(cls, document: Any) -> Part:
        part: Part = read_fields(cls, {**document, "counted": None})
        Tolerances(part.rtol, part.atol, part.stol).check()
        if document["facts"] is None:
            return part
        facts: ArrayStats = from_plain(ArrayStats, document["facts"])
        # The search for a passing tolerance would not end.
        facts.frontier.check()
        return replace(part, counted=facts)


def _passes(facts: ArrayStats, rtol: float, atol: float, floor: float) -> bool:
    """Tell whether all elements are within a tolerance."""
    if facts.odd:
        return False
    frontier = facts.frontier
    if facts.largest is not None and not frontier.corners and not frontier.at_zero:
        # Integers have no hull: their largest difference is exact.
        return facts.largest <= atol
    return frontier.passes(rtol, floor)


def largest_difference(part: Part) -> float:
    """Return the largest ``|a - b|``; infinite for other types, NaN and text."""
    if part.verdict in VERDICTS[:2]:
        return 0.0
    facts = part.facts
    if facts is None or facts.odd or facts.largest is None:
        return math.inf
    return float(facts.largest)


def named(path: PartPath) -> str:
    """Write a path as it would be typed.

    Examples
    --------
    >>> named(("scores", 2, "cat")), named((0,))
    ("scores[2]['cat']", '[0]')
    """
    head = ""
    if path and isinstance(path[0], str):
        head, path = sanitize(path[0], 80), path[1:]
    keys = []
    for key in path:
        keys.append(f"[{sanitize(repr(key), 80)}]")
    return head + "".join(keys)


def part_of(
    path: PartPath, a: np.ndarray, b: np.ndarray, types: tuple[str, str], tolerances: Tolerances
) -> Part:
    """Compare two arrays of one type."""
    rtol, atol, stol = tolerances.of(dtype(a.dtype).name)
    # With stol, the largest element of b decides how much the others may differ.
    floor = atol
    if stol:
        floor += stol * scale_of(b)
    counted = quick_stats(a, b, rtol, floor)
    return Part(path, *types, rtol=rtol, atol=atol, stol=stol, counted=counted)
