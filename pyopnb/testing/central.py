"""Derive by central differences, with an estimate of their error and the kinks left out.

This is Richardson's extrapolation of three steps, whose error is the change in its last column
(C. J. F. Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Advances in Engineering
Software 4, 1982). At a kink, the one-sided differences still disagree as the step goes to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["Differences", "Move", "central_differences", "move_element", "step_sizes"]

_SHRINK = (1.0, 2.0**-4, 2.0**-8, 2.0**-12)
_KINK = 8.0
_TINY = np.finfo(np.float64).tiny

Move = Callable[[float], tuple[np.ndarray, float]]
"""Takes a step along some direction, where a step of 1 is as large as the moved elements.

Returns float64 terms, of any shape, whose sum is the function's value there, and how far the step
went, which differs from the request if it was rounded. Terms that a step does not change cancel
exactly, so that their rounding adds no noise.
"""


class Differences(NamedTuple):
    """Derivatives of a function along some directions.

    Attributes
    ----------
    values : ndarray
        float64[directions].
    errors : ndarray
        Estimates of their errors, rounding included.
    kinks : ndarray
        bool[directions]: the function has no derivative there, or none that differences can tell.
    """

    values: np.ndarray
    errors: np.ndarray
    kinks: np.ndarray


class _Slope(NamedTuple):
    """A derivative along one direction, with bounds on its error."""

    value: float
    error: float
    jump: float
    noise: float


def step_sizes(x: np.ndarray) -> np.ndarray:
    """Return how far a step of 1 moves each element: by its own size.

    An element that is small beside the others moves by an eighth of their root mean square.
    """
    sizes = np.abs(x.astype(np.float64).ravel())
    sizes[~np.isfinite(sizes)] = 0.0
    # Where all elements are zero, each is moved as if it were 1.
    least = float(np.sqrt(np.mean(sizes * sizes))) / 8 or 1.0
    return np.maximum(sizes, least)


def move_element(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, place: int, size: float
) -> Move:
    """Return the moves of one element, counted as if the array were flat."""

    def move(step: float) -> tuple[np.ndarray, float]:
        # A new array each time: the terms of one step may be a view of the array they come from.
        moved = x.flatten()
        start = float(moved[place])
        moved[place] += step * size
        distance = float(moved[place]) - start
        return function(moved.reshape(x.shape)), distance

    return move


def central_differences(moves: Sequence[Move], precision: float) -> Differences:
    """Return the derivatives of a function along the directions of moves.

    Parameters
    ----------
    moves : sequence of callable
        All from the same place.
    precision : float
        Relative rounding error of the terms: the unit in the last place of their dtype.

    Examples
    --------
    >>> x = np.array([2.0, 0.0])
    >>> differences = central_differences(
    ...     [move_element(np.abs, x, n, 1.0) for n in (0, 1)], 2.0**-52
    ... )
    >>> round(float(differences.values[0]), 9), differences.kinks.tolist()
    (1.0, [False, True])
    """
    middle, _ = moves[0](0.0)
    slopes = [_best_slope(move, middle, precision) for move in moves]
    values, errors, jumps, noise = np.array(slopes).T
    # The rounding of a derivative near zero, beside large ones, must not count as a kink.
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = np.maximum(finite, 1e-3 * finite.max())
    limit = precision**0.4 * scale + _KINK * noise
    # Either the sides disagree, or the extrapolation does not settle.
    kinks = (np.abs(jumps) > limit) | (errors > limit)
    kinks |= ~np.isfinite(values)
    return Differences(values, errors + noise, kinks)


def _best_slope(move: Move, middle: np.ndarray, precision: float) -> _Slope:
    """Return the slope at the step with the smallest error."""
    base = precision**0.2
    best = _slope(move, middle, base, precision)
    for shrink in _SHRINK[1:]:
        # This is good enough: the error is within rounding, or small beside the value.
        if best.error <= max(4 * best.noise, precision**0.6 * abs(best.value)):
            break
        # Rounding hides so small a step, and the same difference of 0 each time looks exact.
        if shrink < precision**0.25:
            break
        slope = _slope(move, middle, base * shrink, precision)
        # It must be clearly better: a small step can have small errors by luck, as its noise is
        # estimated from sums that may cancel.
        is_better = slope.error + slope.noise < 0.1 * (best.error + best.noise)
        if is_better or not np.isfinite(best.value):
            best = slope
    return best


def _slope(move: Move, middle: np.ndarray, step: float, precision: float) -> _Slope:
    central = []
    jumps = []
    # Three steps, each half of the one before, as the extrapolation needs.
    for size in (step, step / 2, step / 4):
        up, ahead = move(size)
        down, behind = move(-size)
        central.append(_rise(up, down, ahead - behind))
        jumps.append(_rise(up, middle, ahead) - _rise(middle, down, -behind))
    # Central differences err in even powers of the step: the first pass removes its square,
    # the second its fourth.
    once = []
    for coarse, fine in pairwise(central):
        once.append((4 * fine - coarse) / 3)
    value = (16 * once[1] - once[0]) / 15
    # The terms that the step changes are each rounded, independently, so that their squares add up.
    changed = (up != middle) | (down != middle)
    sizes = np.maximum(np.abs(up), np.abs(down))
    rounded = float(np.linalg.norm(sizes[changed]))
    # The step can have been lost in rounding.
    half_width = max((ahead - behind) / 2, _TINY)
    noise = precision * rounded / half_width
    # One-sided slopes err in proportion to the step, so this is their
    # disagreement at a step of zero.
    jump = 2 * jumps[2] - jumps[1]
    return _Slope(value, abs(value - once[1]), jump, noise)


def _rise(ahead: np.ndarray, behind: np.ndarray, step: float) -> float:
    """Return the slope between two values; NaN where the step was lost in rounding."""
    if not step:
        return float("nan")
    # Term by term, so that terms that the step leaves alone cancel before they are summed.
    return float(np.sum(ahead - behind)) / step
