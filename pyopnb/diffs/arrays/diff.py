"""The difference of two values: to be read, saved, judged and asserted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.common import progress
from pyopnb.diffs.arrays import report
from pyopnb.diffs.arrays.pairing import parts
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.base import ToleranceDiff
from pyopnb.diffs.tolerances import DEFAULT, Tolerances

__all__ = ["Diff", "compared"]

# Shorter arrays are compared before a progress bar could be drawn.
_LENGTHY = 2**20


@dataclass(frozen=True, repr=False)
class Diff(ToleranceDiff):
    """The result of `pyopnb.diff`.

    It has no truth value: ``if diff(a, b)`` would be read as "if they differ" by one and as "if
    they agree" by another.

    Attributes
    ----------
    parts : tuple of Part
        One per pair of arrays, in order: ``path``, ``verdict``, types, tolerance and facts of each.
    rows : str
        What ``rows="set"`` did: ``"in another order, 5 of 6 moved; 4 of padding left out"``.
    """

    _FORMAT = "pyopnb.diff"

    parts: tuple[Part, ...]
    rows: str = ""

    @property
    def worst(self) -> Part:
        """Return the first part with the worst verdict."""
        return max(self.parts, key=lambda part: VERDICTS.index(part.verdict))

    @property
    def verdict(self) -> str:
        """Return the verdict of the worst part: ``"bit-identical"`` … ``"incomparable"``."""
        return self.worst.verdict

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is one of the first three."""
        return self.worst.ok

    def headline(self) -> list[str]:
        lines = report.headline(self.parts, self.worst)
        return [*lines, f"rows: {self.rows}"] if self.rows else lines

    def __str__(self) -> str:
        return report.text(self.headline(), self.parts, self.worst)

    def _judged(self, tolerances: Tolerances) -> Diff:
        return replace(self, parts=tuple(part.judged(tolerances) for part in self.parts))


def compared(a: Any, b: Any, tolerances: Tolerances = DEFAULT) -> Diff:
    """Compare two arrays, or values made of them; see `pyopnb.diff`.

    Raises
    ------
    InputError
        Something is not made of arrays, or a tolerance is negative or not finite.
    """
    tolerances.check()
    if not isinstance(a, np.ndarray) or a.size < _LENGTHY:
        return Diff(tuple(parts(a, b, tolerances)))
    with progress.tracking("elements", a.size):
        return Diff(tuple(parts(a, b, tolerances)))
