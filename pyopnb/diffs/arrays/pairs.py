"""Numbers of two arrays side by side: all of a few, or the points for the curves of many."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pyopnb.common import sanitize

__all__ = ["FEW", "Pairs", "pairs_of"]

FEW = 20
"""All pairs are kept for arrays of any shape with at most this many elements."""

# A curve of up to _MOST elements has all of them; a longer one has the extremes of _CELLS cells.
_MOST = 300
_CELLS = 100
# Longer arrays have no curves, as the search for extremes would take longer than the diff.
_LONGEST = 2**20


@dataclass(frozen=True)
class Pairs:
    """Some elements of two arrays.

    Attributes
    ----------
    positions : tuple of int
        Flat indices, ascending.
    a, b : tuple of str
        The values there, as they are printed.
    difference : tuple of (float or None)
        ``a - b``; 0 where both print alike, such as NaN, and None where one is NaN.
    """

    positions: tuple[int, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    difference: tuple[float | None, ...]


def pairs_of(a: np.ndarray, b: np.ndarray) -> Pairs | None:
    """Choose the number pairs to show; None if a picture says more."""
    if a.size <= FEW:
        positions = list(range(a.size))
    elif a.size == max(a.shape) and a.size <= _LONGEST:
        positions = _drawn(a.reshape(-1), b.reshape(-1))
    else:
        return None
    texts_a = tuple(sanitize(str(a.flat[position]), 80) for position in positions)
    texts_b = tuple(sanitize(str(b.flat[position]), 80) for position in positions)
    differences: list[float | None] = []
    for position, x, y in zip(positions, texts_a, texts_b, strict=True):
        difference = 0.0
        if x != y:
            difference = _difference(a.flat[position], b.flat[position])
        differences.append(None if np.isnan(difference) else difference)
    return Pairs(tuple(positions), texts_a, texts_b, tuple(differences))


def _difference(x: Any, y: Any) -> float:
    if isinstance(x, (np.integer, np.bool_)):
        # Integers of 64 bits do not all fit into float64, but their difference may.
        return float(int(x) - int(y))
    return float(x) - float(y)


def _drawn(a: np.ndarray, b: np.ndarray) -> list[int]:
    """Choose the elements of two curves: in each cell, b's extremes and the largest distance."""
    if a.size <= _MOST:
        return list(range(a.size))
    picked = {0, a.size - 1}
    borders = np.linspace(0, a.size, _CELLS + 1).astype(int).tolist()
    for first, last in pairwise(borders):
        # Cell by cell, to avoid large temporaries.
        left = a[first:last].astype(np.float64)
        right = b[first:last].astype(np.float64)
        cell = np.nan_to_num(right)
        for at in (cell.argmin(), cell.argmax(), _distances(left, right).argmax()):
            picked.add(first + int(at))
    return sorted(picked)


def _distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        distances: np.ndarray = np.abs(left - right)
    # A NaN or an infinity on one side only is farther than any number.
    distances[np.isnan(distances)] = np.inf
    distances[np.isnan(left) & np.isnan(right)] = 0
    return distances
