"""Derive by central differences, with an estimate of their error and the kinks left out.

Richardson's extrapolation of three steps; what its last column changes is the error (C. J. F. Ridders, "Accurate computation of
F'(x) and F'(x)F''(x)", Advances in Engineering Software 4, 1982). The one-sided differences tell a kink: what is left of their
disagreement where the step goes to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["Differences", "central_differences"]

_SHRINK = (1.0, 2.0**-4, 2.0**-8, 2.0**-12)
_KINK = 8.0
_TINY = np.finfo(np.float64).tiny

_Function = Callable[[np.ndarray], np.ndarray]


class Differences(NamedTuple):
    """Derivatives of a function in some elements of an array.

    Attributes
    ----------
    values : ndarray
        float64[places].
    errors : ndarray
        Estimates of their errors, rounding included.
    kinks : ndarray
        bool[places]: the function has no derivative there, or none that differences can tell.
    """

    values: np.ndarray
    errors: np.ndarray
    kinks: np.ndarray


class _Slope(NamedTuple):
    """A derivative in one element, with what is known of its error."""

    value: float
    error: float
    jump: float
    noise: float


def central_differences(
    function: _Function, x: np.ndarray, places: Sequence[tuple[int, ...]], precision: float
) -> Differences:
    """Return the derivatives of a function in elements of its argument.

    Parameters
    ----------
    function : callable
        Of an array like ``x``; returns float64 terms, of any shape, whose sum is its value. Terms that a step leaves alone
        cancel exactly, so that their rounding is no noise.
    x : ndarray
        Floating-point.
    places : sequence of tuple of int
        Indices of the elements.
    precision : float
        Relative rounding error of the terms: the unit in the last place of their dtype.

    Returns
    -------
    Differences

    Examples
    --------
    >>> differences = central_differences(np.abs, np.array([2.0, 0.0]), [(0,), (1,)], 2.0**-52)
    >>> round(float(differences.values[0]), 9), differences.kinks.tolist()
    (1.0, [False, True])
    """
    middle = function(x)
    slopes = []
    for place in places:
        slopes.append(_slope_at(function, x, place, middle, precision))
    values, errors, jumps, noise = np.array(slopes).reshape(-1, 4).T
    # A derivative of nearly zero beside large ones is no kink for being rounded.
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = np.maximum(finite, 1e-3 * finite.max(initial=0.0))
    limit = precision**0.4 * scale + _KINK * noise
    # Either the sides disagree, or the extrapolation does not settle.
    kinks = (np.abs(jumps) > limit) | (errors > limit)
    kinks |= ~np.isfinite(values)
    return Differences(values, errors + noise, kinks)


def _slope_at(
    function: _Function, x: np.ndarray, place: tuple[int, ...], middle: np.ndarray, precision: float
) -> _Slope:
    """Return the slope at the step that tells most."""
    # A step in proportion to the element, but not of next to nothing for one that is nearly zero.
    finite = np.where(np.isfinite(x), x, 0.0)
    squares = np.square(finite, dtype=np.float64)
    typical = float(np.sqrt(np.mean(squares)))
    # Where all elements are zero, nothing says how large a step is small.
    least = 1.0
    if typical:
        least = 2.0**-10
    base = precision**0.2 * max(abs(float(x[place])), typical / 8, least)
    best = _slope(function, x, place, middle, base, precision)
    for shrink in _SHRINK[1:]:
        # What is good enough: the error is no larger than rounding, or small beside the value.
        if best.error <= max(4 * best.noise, precision**0.6 * abs(best.value)):
            break
        # What so small a step changes is lost in rounding, and the same 0 each time looks exact.
        if shrink < precision**0.25:
            break
        slope = _slope(function, x, place, middle, base * shrink, precision)
        # Clearly: a small step has small errors by luck, as its noise is estimated from sums that may cancel.
        is_better = slope.error + slope.noise < 0.1 * (best.error + best.noise)
        if is_better or not np.isfinite(best.value):
            best = slope
    return best


def _slope(
    function: _Function,
    x: np.ndarray,
    place: tuple[int, ...],
    middle: np.ndarray,
    step: float,
    precision: float,
) -> _Slope:
    central, jumps = [], []
    start = float(x[place])
    # Three steps, each half of the one before, as the extrapolation needs.
    for distance in (step, step / 2, step / 4):
        up, right = _moved(function, x, place, distance)
        down, left_end = _moved(function, x, place, -distance)
        central.append(_rise(up, down, right - left_end))
        ahead = _rise(up, middle, right - start)
        behind = _rise(middle, down, start - left_end)
        jumps.append(ahead - behind)
    # Central differences err in even powers of the step: the first pass removes its square, the second its fourth.
    once = []
    for coarse, fine in pairwise(central):
        once.append((4 * fine - coarse) / 3)
    value = (16 * once[1] - once[0]) / 15
    # The terms that the step changes are each rounded, independently, so that their squares add up.
    changed = (up != middle) | (down != middle)
    sizes = np.maximum(np.abs(up), np.abs(down))
    rounded = float(np.linalg.norm(sizes[changed]))
    # The step can have been lost in rounding.
    half_width = max((right - left_end) / 2, _TINY)
    noise = precision * rounded / half_width
    # One-sided slopes err in proportion to the step, so this is their disagreement at a step of zero.
    jump = 2 * jumps[2] - jumps[1]
    return _Slope(value, abs(value - once[1]), jump, noise)


def _moved(
    function: _Function, x: np.ndarray, place: tuple[int, ...], distance: float
) -> tuple[np.ndarray, float]:
    """Call the function with an element moved; return where that is after its own rounding, too."""
    # A new array each time: the terms of one step may be a view of the array they come from.
    moved = x.copy()
    moved[place] += distance
    return function(moved), float(moved[place])


def _rise(ahead: np.ndarray, behind: np.ndarray, step: float) -> float:
    """Return the slope between two values; NaN where the step was lost in rounding."""
    if not step:
        return float("nan")
    # Term by term, so that terms that the step leaves alone cancel before they are summed.
    return float(np.sum(ahead - behind)) / step
