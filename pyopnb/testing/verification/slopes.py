"""Compare gradients with differences of their function, along random directions.

A step along a direction takes one evaluation: the function and its gradients at both ends tell
whether its change is what the mean of the gradients says, which is exact up to cubes of the step.
Where that disagrees, the extrapolated differences of `pyopnb.testing.central` decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from pyopnb.diffs import TOLERANCES
from pyopnb.testing.central import central_differences
from pyopnb.testing.verification.jitter import precision_of
from pyopnb.testing.verification.trials import (
    Dims,
    Trial,
    size_trials,
    smooth_sets,
    with_floats,
)
from pyopnb.testing.verification.values import Arrays

__all__ = ["GradientJudge", "Point", "WrongGradient"]

# Elements of an array that one direction moves.
_MAX_MOVED = 4096
# Other sizes of the inputs.
_MAX_SIZES = 3
# Arrays that are moved at once.
_GROUP = 32

Evaluate = Callable[[Mapping[str, np.ndarray]], tuple[float, Sequence[np.ndarray]]]
"""Takes arrays by name, and returns the value there and its gradients; NaN where there is none."""


class WrongGradient(NamedTuple):
    """Gradients that disagree with the differences, and both derivatives along a direction."""

    names: Sequence[str]
    expected: float
    got: float


@dataclass(frozen=True)
class Point:
    """Arrays, the value there, and the elements that it was derived in.

    The elements of all arrays are in one vector, as a call for each of many weights takes long.

    Attributes
    ----------
    values : dict of str to ndarray
        All that the function takes.
    value : float
        What it gives.
    elements : dict of str to index
        By name the elements of an array that are in the vectors: all, or some of many.
    parts : dict of str to slice
        By name its elements in the vectors.
    x, gradient : ndarray
        The elements, and their gradients.
    sizes : ndarray
        How far a step of 1 moves each element.
    """

    values: dict[str, np.ndarray]
    value: float
    elements: dict[str, Any]
    parts: dict[str, slice]
    x: np.ndarray
    gradient: np.ndarray
    sizes: np.ndarray

    def moved(self, names: Sequence[str], steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays with some of them moved."""
        # In float64, so that the sum is rounded only once, when it is stored.
        x = self.x + steps
        values = dict(self.values)
        for name in names:
            moved = values[name].flatten()
            moved[self.elements[name]] = x[self.parts[name]]
            values[name] = moved.reshape(values[name].shape)
        return values


class GradientJudge:
    """A function with its gradients, and the comparisons that they allow.

    Parameters
    ----------
    evaluate : callable
        As `Evaluate`.
    names : sequence of str
        The arrays that it is derived in, in the order of the gradients.
    dtype : numpy.dtype
        The coarsest in which it is computed, which decides how much differences can tell.
    """

    def __init__(self, evaluate: Evaluate, names: Sequence[str], dtype: np.dtype) -> None:
        self._evaluate, self._names = evaluate, names
        self._precision, _ = precision_of(dtype)
        self._tolerance = TOLERANCES[dtype.name].gradient
        # A longer step loses more to the third derivative, a shorter one more to rounding.
        self._step = 2 * self._precision ** (1 / 3)
        # The error of differences of subnormal numbers.
        self._smallest = float(np.finfo(dtype).tiny) / self._precision
        self._random = np.random.default_rng(0)

    def points(
        self,
        inputs: Sequence[str],
        example: Arrays,
        dims: Dims,
        weights: Mapping[str, np.ndarray],
    ) -> Iterator[tuple[Trial, Point]]:
        """Evaluate at an example, at other sizes, and at values that are not kind.

        Parameters
        ----------
        inputs : sequence of str
            The names of the arrays of ``example``, whose free dimensions ``dims`` names.
        weights : mapping of str to ndarray
            The other arrays that the function takes.
        """
        # Weights often begin at zeros, where products vanish, but a variance of nearly zero is
        # negative when it is moved.
        both = (self._nearby(weights), weights)
        first = Trial("the example", example)
        taken = list(self._first_point(inputs, [first], [weights]))
        yield from taken
        sets = smooth_sets(example)
        for size in islice(size_trials(example, dims, empty=False), _MAX_SIZES):
            trials = [size]
            # Each size has values of its own, if the function takes them there.
            for name in list(sets)[:1]:
                trials = [with_floats(size, name, sets[name]), size]
            for trial, point in self._first_point(inputs, trials, both):
                if trial is not size:
                    del sets[name]
                first = first if taken else size
                taken.append((trial, point))
                yield trial, point
        for name, values in sets.items():
            yield from self._first_point(inputs, [with_floats(first, name, values)], both)

    def _first_point(
        self,
        inputs: Sequence[str],
        trials: Sequence[Trial],
        weights: Sequence[Mapping[str, np.ndarray]],
    ) -> Iterator[tuple[Trial, Point]]:
        """Yield the first trial, and the first weights, at which the value is finite."""
        for trial, arrays in product(trials, weights):
            arrays = dict(arrays)
            for name, array in zip(inputs, trial.inputs, strict=True):
                if array is not None:
                    arrays[name] = array
            point = self._point(arrays)
            if point is not None:
                yield trial, point
                return

    def _nearby(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        moved = {}
        for name, value in arrays.items():
            scale = 0.1 * np.abs(value) + 0.05
            change = self._random.normal(size=value.shape) * scale
            moved[name] = (value + change).astype(value.dtype)
        return moved

    def _point(self, values: dict[str, np.ndarray]) -> Point | None:
        """Evaluate at a place; return None where the value is not finite."""
        value, gradients = self._evaluate(values)
        if not np.isfinite(value):
            return None
        elements: dict[str, Any] = {}
        for name in self._names:
            size = values[name].size
            if size > _MAX_MOVED:
                elements[name] = self._random.choice(size, _MAX_MOVED, replace=False)
            elif size:
                elements[name] = slice(None)
        x = self._vector(elements, [values[name] for name in self._names])
        parts, start = {}, 0
        for name in elements:
            end = start + min(values[name].size, _MAX_MOVED)
            parts[name], start = slice(start, end), end
        gradient = self._vector(elements, gradients)
        return Point(values, value, elements, parts, x, gradient, _sizes(x, parts.values()))

    def _vector(self, elements: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> np.ndarray:
        parts = [np.empty(0)]
        for name, array in zip(self._names, arrays, strict=True):
            if name in elements:
                parts.append(array.ravel()[elements[name]])
        return np.concatenate(parts, dtype=np.float64)

    def compare(self, point: Point) -> tuple[int, WrongGradient | None]:
        """Count the directions along which there is a derivative, and find what is wrong there."""
        compared = 0
        for group in self._groups(point):
            if self._agrees_quickly(group, point):
                compared += 1
                continue
            is_smooth, wrong = self._compare_carefully(group, point)
            compared += is_smooth
            # Rounding can mislead once: a wrong gradient is also wrong along another direction.
            if wrong and self._compare_carefully(group, point)[1]:
                alone = (self._compare_carefully([name], point)[1] for name in group)
                return compared, next(filter(None, alone), wrong)
        return compared, None

    def _groups(self, point: Point) -> Iterator[list[str]]:
        """Group gradients of similar size, as a small one would not show beside a large one."""
        # Along steps by the size of each element; infinite where there is NaN.
        starts = [part.start for part in point.parts.values()]
        squares = np.add.reduceat((point.gradient * point.sizes) ** 2, starts)
        norms = np.sqrt(np.where(np.isnan(squares), np.inf, squares))
        sizes = dict(zip(point.elements, norms.tolist(), strict=True))
        names = sorted(sizes, key=sizes.__getitem__)
        # Gradients that no difference can tell from zero make one group, across layers.
        invisible = self._tolerance * 1e-3 * abs(point.value)
        start = sum(size < invisible for size in sizes.values())
        if start:
            yield names[:start]
        for first in range(start, len(names), _GROUP):
            yield names[first : first + _GROUP]

    def _direction(self, group: Sequence[str], point: Point) -> np.ndarray:
        """Draw how far a step of 1 moves each element; elements outside of the group stay."""
        # Two elements on the lower bound of a Clip and one on the upper, which is twice as large,
        # would make up for each other if all moved by their size: there would be no kink to see,
        # with any signs.
        shares = self._random.uniform(-0.5, 0.5, point.x.size)
        shares += np.copysign(0.5, shares)
        direction = np.zeros(point.x.size)
        for name in group:
            part = point.parts[name]
            direction[part] = shares[part] * point.sizes[part]
        # A gradient that is wrong by a factor does not show where its terms cancel.
        terms = point.gradient * direction
        if terms[::2].sum() * terms[1::2].sum() < 0:
            direction[::2] *= -1
        return direction

    def _agrees_quickly(self, group: Sequence[str], point: Point) -> bool:
        """Compare with one difference: most agree, and extrapolation costs ten times as much."""
        direction = self._direction(group, point)
        value, gradients = self._evaluate(point.moved(group, self._step * direction))
        if not np.isfinite(value):
            return False
        numeric = (value - point.value) / self._step
        mean = (point.gradient + self._vector(point.elements, gradients)) / 2
        analytic, scale = self._along(direction, mean, point.value, numeric)
        return bool(abs(analytic - numeric) <= self._tolerance * scale)

    def _compare_carefully(
        self, group: Sequence[str], point: Point
    ) -> tuple[bool, WrongGradient | None]:
        """Compare along a random direction: tell if it has no kink, and what is wrong there."""
        direction = self._direction(group, point)
        # A sum of many terms is rounded by more than its own last bit: as much as the smallest
        # moves of its inputs change. This offset makes the estimate of the noise as large.
        rounding = max(self._jitter(group, direction, point) for _ in range(2))
        offset = rounding / self._precision

        def move(step: float) -> tuple[np.ndarray, float]:
            value, _ = self._evaluate(point.moved(group, step * direction))
            # NaN counts as a kink, as differences can tell nothing there.
            return np.array([value + offset]), step

        differences = central_differences([move], self._precision)
        if differences.kinks[0]:
            return False, None
        numeric = float(differences.values[0])
        analytic, scale = self._along(direction, point.gradient, point.value, numeric)
        allowed = self._tolerance * scale + 4 * float(differences.errors[0])
        if abs(analytic - numeric) <= allowed:
            return True, None
        return True, WrongGradient(group, numeric, analytic)

    def _along(
        self, direction: np.ndarray, gradient: np.ndarray, value: float, numeric: float
    ) -> tuple[float, float]:
        """Return the derivative by the gradients, and the size that tolerances are relative to."""
        moved = direction != 0
        terms = gradient[moved] * direction[moved]
        # Without BLAS, whose threads wake up for so many terms.
        norm = np.sqrt(np.sum(terms**2))
        # A gradient that is zero except for rounding has no meaningful size.
        scale = max(abs(numeric), norm, 1e-3 * abs(value), self._smallest)
        return float(terms.sum()), float(scale)

    def _jitter(self, group: Sequence[str], direction: np.ndarray, point: Point) -> float:
        """Return by how much moves of the last bit change the value."""
        signs = self._random.choice([-1.0, 1.0], direction.size)
        smallest = 2 * self._precision * signs * np.abs(direction)
        value, _ = self._evaluate(point.moved(group, smallest))
        return float(np.nan_to_num(abs(value - point.value)))


def _sizes(x: np.ndarray, parts: Collection[slice]) -> np.ndarray:
    """Return how far a step of 1 moves each element: by its own size.

    An element that is small beside the others of its array moves by an eighth of their typical
    size.
    """
    magnitudes = np.abs(x)
    magnitudes[~np.isfinite(magnitudes)] = 0.0
    starts = [part.start for part in parts]
    lengths = [part.stop - part.start for part in parts]
    typical = np.sqrt(np.add.reduceat(magnitudes**2, starts) / lengths)
    # Where all elements of an array are zero, each is moved as if it were 1.
    least = np.where(typical > 0, typical / 8, 1.0)
    return np.asarray(np.maximum(magnitudes, np.repeat(least, lengths)))
