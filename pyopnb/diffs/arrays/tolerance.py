"""Tell from a few points which tolerances two arrays pass, however many elements they have.

An element passes where ``|a - b| <= atol + rtol * |b|``. As a point at ``(|b|, |a - b|)`` it lies
on or below a line; all elements pass if the corners of the upper hull of their points do. The
native module finds these corners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

import numpy as np

__all__ = ["SLACK", "Frontier"]

SLACK = 2.0**-40
"""Relative slack of a bound, so that no answer depends on rounding.

The same number is in native/loops.h.
"""


@dataclass(frozen=True)
class Frontier:
    """The hardest elements: the corners of the upper hull.

    Attributes
    ----------
    corners : tuple of (float, float)
        ``|b|`` and ``|a - b|``, both rising.
    at_zero : float
        The largest ``|a - b|`` where b is 0, which no relative tolerance covers.
    """

    corners: tuple[tuple[float, float], ...] = ()
    at_zero: float = 0.0

    def check(self) -> None:
        """Raise ValueError if these are not corners of a hull, as in an edited document."""
        before = (0.0, self.at_zero)
        for corner in self.corners:
            rises = before[0] < corner[0] < np.inf and 0 <= corner[1] < np.inf
            if not rises:
                raise ValueError("corners that do not rise from above 0")
            before = corner

    @property
    def largest(self) -> float:
        """Return the largest ``|a - b|``."""
        return max([self.at_zero, *(d for _, d in self.corners)])

    @property
    def relative(self) -> float:
        """Return the largest ``|a - b| / |b|`` where b is not 0."""
        return max((d / t for t, d in self.corners), default=0.0)

    def passes(self, rtol: float, atol: float) -> bool:
        """Tell whether every element is within this tolerance."""
        # Where b is 0, only the absolute tolerance counts.
        hardest = ((0.0, self.at_zero), *self.corners)
        return all(d <= (atol + rtol * t) * (1 + SLACK) for t, d in hardest)

    def atol(self) -> float:
        """Return the smallest absolute tolerance of four digits that passes by itself."""
        return self._first(self.largest, lambda atol: self.passes(0.0, atol))

    def rtol(self) -> float | None:
        """Return the smallest four-digit relative tolerance that passes by itself, or None."""
        if self.at_zero or not np.isfinite(self.relative):
            return None
        return self._first(self.relative, lambda rtol: self.passes(rtol, 0.0))

    @staticmethod
    def _first(least: float, passes: Callable[[float], bool]) -> float:
        """Round up to the first four-digit number that passes, as people type tolerances."""
        if passes(0.0) or not least:
            return 0.0
        # Decimal holds a float exactly, so that no digit is rounded twice.
        exact = Decimal(least)
        step = Decimal(1).scaleb(exact.adjusted() - 3)
        number = exact.quantize(step, ROUND_FLOOR)
        # Rounding goes below the least one that passes: a few steps up find it.
        while not passes(float(number)):
            number += step
        return float(number)
