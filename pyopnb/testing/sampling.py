"""Choose the elements of a large array to move: some at random, and one that is suspected.

A wrong element among thousands is hardly ever drawn. So the others are moved together, in groups
with random signs: the derivative along a group is the sum of the gradient's elements in it. Where
the two disagree, halving the group leads to a wrong element.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from pyopnb.testing.central import Move, central_differences, step_sizes

__all__ = ["moved_places"]

# The number of elements that are drawn, if an array has more.
_MAX_ELEMENTS = 100
_GROUPS = 16
# The most groups to try, with the halves of groups that have a kink.
_MAX_GROUPS = 256


def moved_places(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    gradient: np.ndarray,
    precision: float,
    tolerance: float,
) -> np.ndarray:
    """Return the places of the elements to move one by one: all, or some and a suspected one.

    Parameters
    ----------
    function : callable
        Takes an array like ``x``, and returns float64 terms, whose sum is its value.
    x : ndarray
        Floating-point.
    gradient : ndarray
        Of the shape of ``x``.
    precision : float
        As for `central_differences`.
    tolerance : float
        Relative to the largest element of the gradient.
    """
    if x.size <= _MAX_ELEMENTS:
        return np.arange(x.size)
    drawn = np.random.default_rng(0).choice(x.size, _MAX_ELEMENTS, replace=False)
    remaining = np.setdiff1d(np.arange(x.size), drawn)
    suspect = _suspected_place(function, x, gradient, remaining, precision, tolerance)
    return np.union1d(drawn, suspect)


def _suspected_place(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    gradient: np.ndarray,
    places: np.ndarray,
    precision: float,
    tolerance: float,
) -> np.ndarray:
    """Return the place among some where a gradient may be wrong, or none at all."""
    flat = gradient.astype(np.float64).ravel()
    is_finite = np.isfinite(flat)
    # An element that is not finite is suspected at once, as it would hide all others in a sum.
    if not is_finite.all():
        return np.flatnonzero(~is_finite)[:1]
    random = np.random.default_rng(1)
    sizes = step_sizes(x)
    # Random signs, as errors that add up to zero would hide in a plain sum.
    direction = random.choice([-1.0, 1.0], flat.size) * sizes
    largest = float(np.abs(flat).max(initial=1e-3))
    allowed = tolerance * largest * sizes.min()
    shuffled = random.permutation(places)
    groups = deque(np.array_split(shuffled, _GROUPS))
    for _ in range(_MAX_GROUPS):
        if not groups:
            break
        group = groups.popleft()
        move = _move_group(function, x, group, direction[group])
        differences = central_differences([move], precision)
        expected = float((flat * direction)[group].sum())
        off = abs(differences.values[0] - expected)
        has_kink = bool(differences.kinks[0])
        is_wrong = not has_kink and off > 4 * differences.errors[0] + allowed
        if is_wrong and group.size == 1:
            return group
        # One half has the wrong element, and is tried next. After a kink, one half may have none.
        if is_wrong:
            groups.extendleft(np.array_split(group, 2))
        elif has_kink and group.size > 1:
            groups.extend(np.array_split(group, 2))
    return np.empty(0, np.int64)


def _move_group(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    group: np.ndarray,
    steps: np.ndarray,
) -> Move:
    """Return the moves along a direction in which a group of elements is moved at once."""

    def move(step: float) -> tuple[np.ndarray, float]:
        moved = x.flatten()
        moved[group] += (step * steps).astype(x.dtype)
        return function(moved.reshape(x.shape)), step

    return move
