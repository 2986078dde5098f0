"""Which tolerances two arrays pass, kept in a few points, however many elements they have.

An element passes where ``|a - b| <= atol + rtol * |b|``. As a point at ``(|b|, |a - b|)`` it lies on or below a line; all
elements pass if the corners of the hull above their points do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np

__all__ = ["SLACK", "Frontier", "Growing", "grid"]

SLACK = 2.0**-40
"""Part of itself by which a bound may be missed, so that no answer depends on how the bound was rounded."""

_MOST = 512  # corners that are kept; errors that follow a smooth curve have more
_DIGITS = 4  # a tolerance is typed by people


def grid(value: float) -> Iterator[float]:
    """Numbers of four digits, from just below a value upwards.

    Examples
    --------
    >>> numbers = grid(0.0123456)
    >>> next(numbers), next(numbers), next(numbers)
    (0.01233, 0.01234, 0.01235)
    """
    exact = Decimal(value)
    step = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    number = exact.quantize(step, ROUND_FLOOR) - step
    while True:
        yield float(number)
        number += Decimal(1).scaleb(max(number.adjusted(), exact.adjusted()) - _DIGITS + 1)


@dataclass(frozen=True)
class Frontier:
    """The hardest elements.

    Attributes
    ----------
    corners : tuple of (float, float)
        ``|b|`` and ``|a - b|``, both rising.
    at_zero : float
        The largest ``|a - b|`` where b is 0, which no relative tolerance covers.
    """

    corners: tuple[tuple[float, float], ...] = ()
    at_zero: float = 0.0

    @property
    def largest(self) -> float:
        """The largest ``|a - b|``."""
        return max(self.at_zero, self.corners[-1][1] if self.corners else 0.0)

    @property
    def relative(self) -> float:
        """The largest ``|a - b| / |b|`` where b is not 0."""
        return max((d / t for t, d in self.corners), default=0.0)

    def passes(self, rtol: float, atol: float) -> bool:
        """Whether every element is within this tolerance."""
        return all(d <= (atol + rtol * t) * (1 + SLACK) for t, d in ((0.0, self.at_zero), *self.corners))

    def atol(self, rtol: float) -> float:
        """The smallest absolute tolerance of four digits that passes beside a relative one."""
        least = max(self.at_zero, *(d - rtol * t for t, d in self.corners), 0.0)
        return self._first(least, lambda atol: self.passes(rtol, atol))

    def rtol(self, atol: float) -> float | None:
        """The smallest relative tolerance of four digits that passes beside an absolute one; None where none does."""
        if self.at_zero > atol * (1 + SLACK):
            return None
        least = max((max(0.0, d - atol) / t for t, d in self.corners), default=0.0)
        return self._first(least, lambda rtol: self.passes(rtol, atol)) if np.isfinite(least) else None

    @staticmethod
    def _first(least: float, passes: Callable[[float], bool]) -> float:
        if passes(0.0) or not least:
            return 0.0
        return next(number for number in grid(least) if number >= 0 and passes(number))


class Growing:
    """A frontier that takes more and more points."""

    def __init__(self) -> None:
        self.t, self.d, self.at_zero = np.zeros(0), np.zeros(0), 0.0

    def add(self, t: np.ndarray, d: np.ndarray) -> bool:
        """Take points with ``t > 0``; whether any of them is a corner."""
        before = self.t, self.d
        self.t, self.d = _corners(np.concatenate([self.t, t]), np.concatenate([self.d, d]))
        return not (np.array_equal(before[0], self.t) and np.array_equal(before[1], self.d))

    def done(self) -> Frontier:
        """What was found."""
        return Frontier(tuple(zip(self.t.tolist(), self.d.tolist(), strict=True)), self.at_zero)


def _corners(t: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((-d, t)) if t.size < 64 else np.argsort(t, kind="stable")
    t, d = t[order], d[order]
    # Only who is above all that are further left can be a corner; the first must be above 0.
    rising = np.empty(d.size, bool)
    if d.size:
        rising[0] = d[0] > 0
        np.greater(d[1:], np.maximum.accumulate(d)[:-1], out=rising[1:])
    t, d = t[rising], d[rising]
    while t.size > _MOST:
        above = _above(t, d, 0.0)
        if above.all():
            break
        t, d = t[above], d[above]
    margin = 2.0**-44
    while t.size > _MOST:  # a smooth curve: leave out corners, and raise the rest by as much as they could have lacked
        above = _above(t, d, margin)
        above[1::2] = True
        t, d, margin = t[above], d[above] * (1 + margin), margin * 2
    return _chain(t.tolist(), d.tolist())


def _above(t: np.ndarray, d: np.ndarray, margin: float) -> np.ndarray:
    """Which points are above the line between their neighbours; the origin is the first one's."""
    left_t, left_d = np.concatenate([[0.0], t[:-2]]), np.concatenate([[0.0], d[:-2]])
    slope = (d[1:] - left_d) / (t[1:] - left_t)
    above = np.ones(t.size, bool)
    above[:-1] = (d[:-1] - left_d > (t[:-1] - left_t) * slope + margin * d[:-1]) | np.isinf(slope)
    return above


def _chain(t: Sequence[float], d: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    hull = [(0.0, 0.0)]
    for x, y in zip(t, d, strict=True):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if y <= y1 or (x > x1 and _steeper((x0, y0), (x1, y1), (x, y))):
                break
            hull.pop()
        if y > hull[-1][1]:
            hull.append((x, y))
    return np.array([x for x, _ in hull[1:]]), np.array([y for _, y in hull[1:]])


def _steeper(one: tuple[float, float], two: tuple[float, float], three: tuple[float, float]) -> bool:
    """Whether the way from the first to the second point is steeper than on to the third."""
    (x0, y0), (x1, y1), (x2, y2) = one, two, three
    before, after = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    if 1e-300 < before < 1e300 and 1e-300 < after < 1e300:
        return before > after
    exact = [Fraction(value) for value in (x0, y0, x1, y1, x2, y2)]  # near the ends of float64's range
    x0, y0, x1, y1, x2, y2 = exact  # type: ignore[assignment]
    return bool((y1 - y0) * (x2 - x1) > (y2 - y1) * (x1 - x0))
