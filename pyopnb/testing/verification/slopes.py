"""Compare gradients with differences of their function, along random directions.

A step along a direction takes one evaluation: the function and its gradients at both ends tell
whether its change is what the mean of the gradients says, which is exact up to cubes of the step.
Where that disagrees, the extrapolated differences of `pyopnb.testing.central` decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from pyopnb.diffs import array_diffs
from pyopnb.testing.central import central_differences
from pyopnb.testing.verification.jitter import precision_of
from pyopnb.testing.verification.trials import (
    Dims,
    Trial,
    size_trials,
    smooth_sets,
    with_floats,
)

__all__ = ["GradientComparison", "WrongGradient"]

# Elements of an array that one direction moves.
_MAX_MOVED = 4096
# Other sizes of the inputs.
_MAX_SIZES = 3
# Arrays that are moved at once.
_GROUP = 32

Arrays = Mapping[str, np.ndarray]
Evaluate = Callable[[Arrays], tuple[float, Sequence[np.ndarray]]]
"""Takes arrays by name, and returns the value there and its gradients; NaN where there is none."""


class WrongGradient(NamedTuple):
    """Gradients that disagree with the differences along a direction, and both derivatives."""

    names: Sequence[str]
    expected: str
    got: str


class _Point(NamedTuple):
    """A place, with the elements that a direction can move in one vector.

    A call for each of many weights takes long.

    Attributes
    ----------
    values : dict of str to ndarray
        The arguments of the function.
    value : float
        The result of the function.
    parts : dict of str to (slice, index)
        By name the part of an array in the vectors, and its elements in there: all, or some of
        many.
    x, gradient, sizes : ndarray
        The elements, their gradients, and how far a step of 1 moves each.
    """

    values: Arrays
    value: float
    parts: dict[str, tuple[slice, Any]]
    x: np.ndarray
    gradient: np.ndarray
    sizes: np.ndarray


class GradientComparison:
    """A comparison of gradients with differences of their function.

    Parameters
    ----------
    evaluate : callable
        As `Evaluate`.
    names : sequence of str
        The arrays that it is derived in, in the order of the gradients.
    dtypes : sequence of numpy.dtype
        In which it is computed; the coarsest decides how much differences can tell.

    Attributes
    ----------
    first : dict of str to ndarray or None
        The first arrays at which the function had a value.
    wrong : WrongGradient or None
        The first that was found.
    """

    def __init__(
        self, evaluate: Evaluate, names: Sequence[str], dtypes: Sequence[np.dtype]
    ) -> None:
        self.first: Arrays | None = None
        self.wrong: WrongGradient | None = None
        self._evaluate, self._names = evaluate, names
        dtype = max(dtypes, key=precision_of)
        self._precision, _ = precision_of(dtype)
        self._tolerance = array_diffs.TOLERANCES[dtype.name].gradient
        # A longer step loses more to the third derivative, a shorter one more to rounding.
        self._step = 2 * self._precision ** (1 / 3)
        # The error of differences of subnormal numbers.
        self._smallest = float(np.finfo(dtype).tiny) / self._precision
        self._random = np.random.default_rng(0)

    def run(self, inputs: Mapping[str, Any], dims: Dims, weights: Arrays) -> str:
        """Compare at an example, at other sizes, and at values that are not kind.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            The example, whose free dimensions ``dims`` names.
        weights : mapping of str to ndarray
            The other arrays that the function takes.

        Returns
        -------
        str
            What was compared; it begins with "not verified" if nothing was.

        """
        directions = places = 0
        for trial, point in self._points(inputs, dims, weights):
            if self.first is None:
                self.first = point.values
                if self._evaluate(point.values)[0] != point.value:
                    return "not verified: the loss is another one each time"
            compared = 0
            for group in self._groups(point):
                is_smooth, wrong = self._compare(group, point)
                compared += is_smooth
                if wrong is not None:
                    self.wrong = wrong._replace(got=f"{wrong.got}, with {trial.name}")
                    return "wrong"
            directions += compared
            places += compared > 0
        if not directions:
            return "not verified: the model takes none of the inputs that were drawn"
        return f"verified along {directions} directions at {places} inputs"

    # ---- places --------------------------------------------------------------------------------

    def _points(
        self, inputs: Mapping[str, Any], dims: Dims, weights: Arrays
    ) -> Iterator[tuple[Trial, _Point]]:
        # Weights often begin at zeros, where products vanish, but a variance of nearly zero is
        # negative when it is moved.
        moved = {}
        for name, value in weights.items():
            scale = 0.1 * np.abs(value) + 0.05
            change = self._random.normal(size=value.shape) * scale
            moved[name] = (value + change).astype(value.dtype)

        def first_point(trials: Sequence[Trial], *places: Arrays) -> Iterator[Any]:
            for trial, arrays in product(trials, places):
                values: dict[str, Any] = dict(zip(inputs, trial.inputs, strict=True))
                point = self._point({**arrays, **values})
                if point is not None:
                    yield trial, point
                    return

        base = Trial("the example", tuple(inputs.values()))
        accepted = []
        for point in first_point([base], weights):
            accepted.append(base)
            yield point
        sets = smooth_sets(base.inputs)
        for size in islice(size_trials(base.inputs, dims, empty=False), _MAX_SIZES):
            # Each size has values of its own, if the function takes them there.
            trials = [with_floats(size, name, sets[name]) for name in list(sets)[:1]]
            for trial, point in first_point([*trials, size], moved, weights):
                if trial is not size:
                    del sets[next(iter(sets))]
                accepted.append(size)
                yield trial, point
        base = (accepted or [base])[0]
        for name, values in sets.items():
            yield from first_point([with_floats(base, name, values)], moved, weights)

    def _point(self, values: Arrays) -> _Point | None:
        """Evaluate at a place; return None where the value is not finite."""
        value, gradients = self._evaluate(values)
        if not np.isfinite(value):
            return None
        parts: dict[str, tuple[slice, Any]] = {}
        end = 0
        for name in self._names:
            size = values[name].size
            index: Any = slice(None)
            if size > _MAX_MOVED:
                index = self._random.choice(size, _MAX_MOVED, replace=False)
            if size:
                start, end = end, end + min(size, _MAX_MOVED)
                parts[name] = slice(start, end), index
        x = self._vector(parts, [values[name] for name in self._names])
        magnitudes = np.abs(x)
        magnitudes[~np.isfinite(magnitudes)] = 0.0
        lengths = [part.stop - part.start for part, _ in parts.values()]
        typical = np.sqrt(_sums(magnitudes**2, parts) / lengths)
        # An element that is small beside the others of its array moves by an eighth of their
        # typical size. Where all are zero, each is moved as if it were 1.
        least = np.where(typical > 0, typical / 8, 1.0)
        sizes = np.maximum(magnitudes, np.repeat(least, lengths))
        return _Point(values, value, parts, x, self._vector(parts, gradients), sizes)

    def _vector(self, parts: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> np.ndarray:
        elements = [np.empty(0)]
        for name, array in zip(self._names, arrays, strict=True):
            if name in parts:
                elements.append(array.ravel()[parts[name][1]])
        return np.concatenate(elements, dtype=np.float64)

    def _value_near(
        self, group: Sequence[str], point: _Point, steps: np.ndarray
    ) -> tuple[float, Sequence[np.ndarray]]:
        """Evaluate with some arrays moved."""
        # In float64, so that the sum is rounded only once, when it is stored.
        x = point.x + steps
        values = dict(point.values)
        for name in group:
            part, index = point.parts[name]
            moved = values[name].flatten()
            moved[index] = x[part]
            values[name] = moved.reshape(values[name].shape)
        return self._evaluate(values)

    # ---- one place -----------------------------------------------------------------------------

    def _groups(self, point: _Point) -> Iterator[list[str]]:
        """Group gradients of similar size, as a small one would not show beside a large one."""
        # Along steps by the size of each element; infinite where there is NaN.
        squares = _sums((point.gradient * point.sizes) ** 2, point.parts)
        norms = np.sqrt(np.where(np.isnan(squares), np.inf, squares))
        sizes = dict(zip(point.parts, norms.tolist(), strict=True))
        names = sorted(sizes, key=sizes.__getitem__)
        # Gradients that no difference can tell from zero make one group, across layers.
        invisible = self._tolerance * 1e-3 * abs(point.value)
        start = sum(size < invisible for size in sizes.values())
        if start:
            yield names[:start]
        for first in range(start, len(names), _GROUP):
            yield names[first : first + _GROUP]

    def _compare(self, group: Sequence[str], point: _Point) -> tuple[bool, WrongGradient | None]:
        """Compare a group of gradients along a random direction, by one difference if it agrees."""
        if self._agrees_quickly(group, point):
            return True, None
        is_smooth, wrong = self._compare_carefully(group, point)
        # Rounding can mislead once: a wrong gradient is also wrong along another direction.
        if wrong is None or self._compare_carefully(group, point)[1] is None:
            return is_smooth, None
        alone = (self._compare_carefully([name], point)[1] for name in group)
        return True, next(filter(None, alone), wrong)

    def _direction(self, group: Sequence[str], point: _Point) -> np.ndarray:
        """Draw how far a step of 1 moves each element; elements outside of the group stay."""
        # Two elements on the lower bound of a Clip and one on the upper, which is twice as large,
        # would make up for each other if all moved by their size: there would be no kink to see,
        # with any signs.
        shares = self._random.uniform(-0.5, 0.5, point.x.size)
        shares += np.copysign(0.5, shares)
        direction = np.zeros(point.x.size)
        for name in group:
            part, _ = point.parts[name]
            direction[part] = shares[part] * point.sizes[part]
        # A gradient that is wrong by a factor does not show where its terms cancel.
        terms = point.gradient * direction
        if terms[::2].sum() * terms[1::2].sum() < 0:
            direction[::2] *= -1
        return direction

    def _agrees_quickly(self, group: Sequence[str], point: _Point) -> bool:
        """Compare with one difference: most agree, and extrapolation costs ten times as much."""
        direction = self._direction(group, point)
        value, gradients = self._value_near(group, point, self._step * direction)
        if not np.isfinite(value):
            return False
        numeric = (value - point.value) / self._step
        mean = (point.gradient + self._vector(point.parts, gradients)) / 2
        analytic, allowed = self._along(direction, mean, point.value, numeric)
        return bool(abs(analytic - numeric) <= allowed)

    def _compare_carefully(
        self, group: Sequence[str], point: _Point
    ) -> tuple[bool, WrongGradient | None]:
        """Compare along a random direction: tell if it has no kink, and what is wrong there."""
        direction = self._direction(group, point)
        # A sum of many terms is rounded by more than its own last bit: as much as the smallest
        # moves of its inputs change. This offset makes the estimate of the noise as large.
        offset = 0.0
        for _ in range(2):
            signs = self._random.choice([-1.0, 1.0], direction.size)
            smallest = 2 * self._precision * signs * np.abs(direction)
            change = self._value_near(group, point, smallest)[0] - point.value
            offset = max(offset, float(np.nan_to_num(abs(change))) / self._precision)

        def move(step: float) -> tuple[np.ndarray, float]:
            # NaN counts as a kink, as differences can tell nothing there.
            value, _ = self._value_near(group, point, step * direction)
            return np.array([value + offset]), step

        differences = central_differences([move], self._precision)
        if differences.kinks[0]:
            return False, None
        numeric = float(differences.values[0])
        analytic, allowed = self._along(direction, point.gradient, point.value, numeric)
        if abs(analytic - numeric) <= allowed + 4 * float(differences.errors[0]):
            return True, None
        expected = f"{numeric:.6g} along a random direction, by differences of the loss"
        return True, WrongGradient(group, expected, f"{analytic:.6g}")

    def _along(
        self, direction: np.ndarray, gradient: np.ndarray, value: float, numeric: float
    ) -> tuple[float, float]:
        """Return the derivative by the gradients, and how far differences may be from it."""
        moved = direction != 0
        terms = gradient[moved] * direction[moved]
        # Without BLAS, whose threads wake up for this many terms.
        norm = np.sqrt(np.sum(terms**2))
        # A gradient that is zero except for rounding has no meaningful size.
        scale = max(abs(numeric), norm, 1e-3 * abs(value), self._smallest)
        return float(terms.sum()), float(self._tolerance * scale)


def _sums(terms: np.ndarray, parts: Mapping[str, tuple[slice, Any]]) -> np.ndarray:
    """Add up the elements of each part; a loop over many weights takes long."""
    return np.asarray(np.add.reduceat(terms, [part.start for part, _ in parts.values()]))
