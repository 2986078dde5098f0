"""Choose elements of a large array to move: some at random, and one that sums of the others point to.

A wrong element among thousands is hardly ever drawn. So the others are moved together, in groups along random signs: the
derivative along a group is the sum of the gradient's elements in it. Where the two disagree, halving the group leads to one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from pyopnb.testing.central import Differences, central_differences

__all__ = ["MAX_ELEMENTS", "drawn_places", "suspected_place"]

MAX_ELEMENTS = 100
"""Elements of an array that are drawn, if it has more."""

_GROUPS = 16
# Groups that are tried, with those that a group with a kink in it is divided into.
_MAX_GROUPS = 256
# A share of the root mean square: smaller elements are moved as if they were this large.
_LARGE = 2**-3


def drawn_places(size: int) -> np.ndarray:
    """Return the places of the elements to be moved one by one: all, or some at random."""
    if size <= MAX_ELEMENTS:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).choice(size, MAX_ELEMENTS, replace=False))


def suspected_place(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    gradient: np.ndarray,
    drawn: np.ndarray,
    precision: float,
    tolerance: float,
) -> np.ndarray:
    """Return the place of an element that was not drawn where a gradient may be wrong, or none at all.

    Parameters
    ----------
    function, x, precision
        As for `central_differences`.
    gradient : ndarray
        Of the shape of ``x``.
    drawn : ndarray
        int64[places] that are left out.
    tolerance : float
        Relative to the largest element of the gradient.
    """
    flat = gradient.astype(np.float64).ravel()
    is_finite = np.isfinite(flat)
    # What is not finite is suspected as it is, and would hide everything else in a sum.
    if not is_finite.all():
        return np.flatnonzero(~is_finite)[:1]
    random = np.random.default_rng(1)
    sizes = _sizes(x)
    # Random signs, as errors that add up to zero would hide in a plain sum.
    direction = random.choice([-1.0, 1.0], flat.size) * sizes
    allowed = tolerance * float(np.abs(flat).max(initial=1e-3)) * sizes.min()
    remaining = np.setdiff1d(np.arange(x.size), drawn)
    groups = deque(np.array_split(random.permutation(remaining), _GROUPS))
    for _ in range(_MAX_GROUPS):
        if not groups:
            break
        group = groups.popleft()
        differences = _along(function, x, group, direction[group], precision)
        expected = float((flat * direction)[group].sum())
        off = abs(differences.values[0] - expected)
        has_kink = bool(differences.kinks[0])
        is_wrong = not has_kink and off > 4 * differences.errors[0] + allowed
        if is_wrong and group.size == 1:
            return group
        # One of the halves has the wrong element, and is looked at next; or has no kink.
        if is_wrong:
            groups.extendleft(np.array_split(group, 2))
        elif has_kink and group.size > 1:
            groups.extend(np.array_split(group, 2))
    return np.empty(0, np.int64)


def _sizes(x: np.ndarray) -> np.ndarray:
    """Return how far each element is moved for a step of 1: by its own size, but not by next to nothing."""
    finite = np.where(np.isfinite(x), x, 0)
    sizes = np.abs(finite.astype(np.float64).ravel())
    # Where all elements are zero, each is moved as if it were 1.
    least = _LARGE * float(np.sqrt(np.mean(sizes * sizes))) or 1.0
    return np.maximum(sizes, least)


def _along(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    group: np.ndarray,
    steps: np.ndarray,
    precision: float,
) -> Differences:
    """Derive a function along a direction in which a group of elements is moved at once."""

    def moved(step: np.ndarray) -> np.ndarray:
        changed = x.flatten()
        changed[group] += (step[0] * steps).astype(x.dtype)
        return function(changed.reshape(x.shape))

    return central_differences(moved, np.zeros(1), [(0,)], precision)
