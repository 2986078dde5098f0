"""Decide whether two results differ by more than the original's own rounding.

One tolerance for all would hide a lost ``log1p`` or refuse a sum in another order. So each element
gets an allowance of its own: the original's error against its own run in wider floats, and its
change when its inputs move by a rounding error. Results other than floats are exact,
except where moving the inputs by a rounding error changes the original's own result, as on the
edge of a comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from pyopnb.testing.verification.jitter import (
    Shares,
    draw_shares,
    jittered,
    moved,
    precision_of,
    widened,
)
from pyopnb.testing.verification.kernel_error import KernelError
from pyopnb.testing.verification.trials import Trial
from pyopnb.testing.verification.values import Arrays, each, has_fractions, largest, size_of

__all__ = ["Function", "Judge", "call_original", "run"]

Function = Callable[..., Sequence[np.ndarray]]

_BASE_ULPS = 16.0
"""Units in the last place between two good implementations of one function: the ONNX Runtime exp
and tanh are off by up to 5, and a body calls several."""
_OF_OWN_ERROR = 4.0
_OF_SPREAD = 16.0
# The most runs with moved inputs: equal numbers that cancel may be moved alike in six of them.
# Fewer are needed where both functions agree.
_MOVES = 16


def run(function: Function, inputs: Arrays) -> tuple[np.ndarray, ...]:
    """Call a function without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return tuple(map(np.asarray, function(*inputs)))


def call_original(function: Function, inputs: Arrays) -> tuple[np.ndarray, ...] | None:
    """Call a function on copies of the inputs; return None where it raises."""
    try:
        # A body may write into its inputs, which the converted function gets next.
        return run(function, each(lambda array: array.copy(), inputs))
    except Exception:
        # The body is a user's, and may refuse drawn inputs by any exception.
        return None


@dataclass(frozen=True)
class Judge:
    """The original function, and how exactly another one has to agree with it.

    Attributes
    ----------
    exact : callable
        The same in wider floats; a call that raises there is not compared with it.
    narrowest : numpy.dtype or None
        The narrowest float that is computed in, if narrower than the inputs and outputs.
    sizes : sequence of float
        The largest number of each output of the example.
    """

    original: Function
    exact: Function
    kernel_error: KernelError
    narrowest: np.dtype | None = None
    sizes: Sequence[float] = ()

    def wrong(
        self, trial: Trial, expected: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> tuple[int, np.ndarray | None] | None:
        """Return the first output that differs, and a mask of its wrong elements.

        The mask is None where the dtype, the shape or the number of outputs differs.
        """
        if len(results) != len(expected):
            return min(len(results), len(expected)), None
        if self.kernel_error.of_row:
            results = self._settled(expected, results)
        for number, (want, got) in enumerate(zip(expected, results, strict=True)):
            if got.dtype != want.dtype or got.shape != want.shape:
                return number, None
            mask = self._mask(number, trial, want, got)
            if mask.any():
                return number, mask
        return None

    def _mask(self, number: int, trial: Trial, want: np.ndarray, got: np.ndarray) -> np.ndarray:
        # Most results are equal, and allowances of many elements take long to compute.
        if np.array_equal(want, got, equal_nan=has_fractions(want.dtype)):
            return np.zeros(want.shape, bool)
        # Most others agree closely, and the full allowance costs seven more calls of the original.
        wrong = _wrong_elements(want, got, self._least_allowance(trial.inputs, want))
        if not wrong.any():
            return wrong
        moved_results = self._moved_results(number, trial, want)
        if not has_fractions(want.dtype):
            # The result of a comparison, a rounding or a sort may sit on an edge.
            while wrong.any() and (moved := next(moved_results, None)) is not None:
                wrong &= moved == want
            return wrong
        wide, got_wide = widened(want), widened(got)
        truth, own_error = self._truth(number, trial, want)
        with np.errstate(all="ignore"):
            least = self._least_allowance(trial.inputs, want, np.abs(truth))
            allowance = np.asarray(least + _OF_OWN_ERROR * own_error)
        # Where the original overflowed on the way, another order may overflow elsewhere, or not.
        allowance[np.isfinite(truth) & ~np.isfinite(wide)] = np.inf
        for moved in chain([wide], map(widened, moved_results)):
            with np.errstate(all="ignore"):
                spread = _finite(np.abs(moved - wide))
            allowance = np.asarray(np.maximum(allowance, _OF_SPREAD * spread))
            # Where the original jumps between finite and infinite, nothing can be said.
            jumps = np.isfinite(moved) != np.isfinite(wide)
            allowance[jumps] = np.inf
            # ONNX Runtime rounds float16 less often than NumPy does, so it may be nearer to the
            # truth, and finite where NumPy overflowed on the way.
            wrong = _wrong_elements(wide, got_wide, allowance)
            wrong &= _wrong_elements(truth, got_wide, allowance)
            if not wrong.any():
                break
        # With any allowance, inf is not -inf. But a sum of large numbers overflows upward or
        # downward by the order of its terms.
        both = np.isinf(wide) & np.isinf(got_wide)
        wrong |= both & (wide != got_wide) & ~np.isfinite(truth)
        return wrong

    def _truth(
        self, number: int, trial: Trial, want: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Return the result in wider floats, and how far the original is from it."""
        wide = widened(want)
        if precision_of(want.dtype)[0] == np.finfo(wide.dtype).eps:
            return self._truth_without_wider_floats(number, trial, wide)
        exact = _result(self.exact, each(_in_wider_floats, trial.inputs), number, want)
        truth = wide
        if exact is not None and has_fractions(exact.dtype):
            truth = widened(exact)
        with np.errstate(all="ignore"):
            return truth, _finite(np.abs(wide - truth))

    def _truth_without_wider_floats(
        self, number: int, trial: Trial, want: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Do the same where long double is no wider than float64: on Windows and Apple silicon."""
        truth = want
        if not np.isfinite(want).all() and _overflows(self.original, trial.inputs):
            truth = _finite(want)
        narrow = _result(self.original, each(_in_float32, trial.inputs), number, want)
        if narrow is None or not has_fractions(narrow.dtype):
            return truth, 0.0
        # The errors are as many units in the last place there, which are larger.
        units = np.finfo(np.float64).eps / np.finfo(np.float32).eps
        with np.errstate(all="ignore"):
            return truth, units * _finite(np.abs(want - widened(narrow)))

    def _least_allowance(
        self, inputs: Arrays, want: np.ndarray, sizes: np.ndarray | float = 0.0
    ) -> np.ndarray | float:
        """Return each element's allowance from its own size, or from ``sizes`` if larger."""
        if not has_fractions(want.dtype):
            return 0.0
        eps, smallest = precision_of(want.dtype)
        if self.narrowest is not None:
            # Numbers that the body makes itself, such as np.arange's, are not moved.
            eps = max(eps, precision_of(self.narrowest)[0])
        # Rounding errors of a sum grow with the root of its terms, in one order as in another.
        terms_each = size_of(inputs) / max(want.size, 1)
        ulps = _BASE_ULPS + np.sqrt(terms_each)
        floor = 4 * smallest
        # The smallest normal float16 is 6e-5, which is no small error.
        if want.dtype.name in ("float32", "float64"):
            floor += self.kernel_error.tiny * float(np.finfo(want.dtype).smallest_normal)
        of_largest = 0.0
        for array in (*inputs, want):
            if array is not None:
                # Floats cannot hold large integers, and kernels lose some units
                # of the largest float.
                units = 4.0
                if has_fractions(array.dtype):
                    units = self.kernel_error.of_largest
                of_largest = max(of_largest, units * largest(array))
        floor += eps * of_largest
        with np.errstate(all="ignore"):
            magnitude = _finite(np.abs(widened(want)))
            # Below the smallest normal number, units in the last place no longer
            # shrink with the number.
            relative = ulps * np.maximum(magnitude, _finite(sizes))
            return np.asarray(eps * np.maximum(relative, self.kernel_error.of_one) + floor)

    def _settled(
        self, expected: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Replace results by those of the original where the rows make either right.

        Where the best two scores are the same but for rounding, either label is right.
        """
        # A label is decided by the scores beside it.
        scores = next((want for want in expected if has_fractions(want.dtype)), None)
        settled = []
        for size, result, want in zip(self.sizes, results, expected, strict=True):
            is_settled = np.zeros(want.shape, bool)
            if result.shape == want.shape and result.dtype == want.dtype:
                if has_fractions(want.dtype):
                    is_settled = self._is_close_in_row(result, want, size)
                elif scores is not None and len(scores) == len(want):
                    undecided = self._is_undecided(scores)
                    is_settled = undecided.reshape(-1, *[1] * (want.ndim - 1))
                result = np.where(is_settled, want, result)
            settled.append(result)
        return settled

    def _is_close_in_row(self, result: np.ndarray, want: np.ndarray, size: float) -> np.ndarray:
        """Tell for each element whether its error is small beside it and the largest of its row."""
        # An infinite score has no scale.
        rows = np.where(np.isfinite(want), np.abs(want), 0.0).reshape(len(want), -1)
        scales = rows.max(axis=1, initial=size).reshape(-1, *[1] * (want.ndim - 1))
        with np.errstate(all="ignore"):
            allowed = self.kernel_error.of_row * (np.abs(want) + scales)
            return np.asarray(np.abs(result - want) <= allowed)

    def _is_undecided(self, scores: np.ndarray) -> np.ndarray:
        """Tell for each row whether its best two scores are the same but for rounding."""
        rows = scores.reshape(len(scores), -1).astype(np.float64)
        # Within the rounding of the kernels, either score may come out larger.
        largest_scores = np.abs(np.nan_to_num(rows)).max(axis=1, initial=1e-30)
        limits = self.kernel_error.of_row * largest_scores
        if rows.shape[1] == 1:
            return np.asarray(np.abs(rows[:, 0]) <= limits)
        best = np.sort(rows, axis=1)
        return np.asarray(best[:, -1] - best[:, -2] <= limits)

    def _moved_results(self, number: int, trial: Trial, want: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the original's results with inputs and called functions rounded differently."""
        ties_stay = not has_fractions(want.dtype)
        for run in range(_MOVES):
            shares = draw_shares(run)
            inputs = trial.inputs
            # Inputs that sit on edges on purpose stay there, and so do sums of them.
            if not trial.on_edges:
                # Ties decide on indices and flags. Sums need each element moved by itself, as moves
                # of equal ones can cancel exactly.
                seed = None
                if ties_stay and run >= 2:
                    seed = run
                inputs = each(partial(_moved, shares=shares, seed=seed), inputs)
            jitter = partial(jittered, shares=shares, sums=not trial.on_edges)
            result = _result(self.original, each(jitter, inputs), number, want)
            if result is None:
                # Libraries other than NumPy may refuse a subclass of its arrays.
                result = _result(self.original, inputs, number, want)
            if result is not None:
                yield result


def _moved(array: np.ndarray, shares: Shares, seed: int | None) -> np.ndarray:
    """Move floats by a part of a rounding error; with a seed, equal ones alike."""
    if not has_fractions(array.dtype):
        return array
    if seed is None:
        return moved(array, shares(array.shape))
    return moved(array, _shares_by_value(widened(array), seed))


def _result(function: Function, inputs: Arrays, number: int, want: np.ndarray) -> np.ndarray | None:
    """Return an output of a function, or None if its shape differs, as a selection's may."""
    results = call_original(function, inputs)
    if results is None or len(results) <= number or results[number].shape != want.shape:
        return None
    return results[number]


def _wrong_elements(want: np.ndarray, got: np.ndarray, allowance: np.ndarray | float) -> np.ndarray:
    """Mark the elements that differ by more than an allowance.

    NaN agrees with NaN, an infinity with itself, and 0.0 with -0.0.
    """
    if not has_fractions(want.dtype):
        return np.asarray(got != want)
    a, b = widened(got), widened(want)
    with np.errstate(all="ignore"):
        agree = (a == b) | (np.isnan(a) & np.isnan(b))
        near = np.abs(a - b) <= allowance
    agree |= near & np.isfinite(a) & np.isfinite(b)
    # An infinite allowance means that the element cannot be judged.
    return np.asarray(~agree & ~np.isposinf(allowance))


def _in_wider_floats(array: np.ndarray) -> np.ndarray:
    if has_fractions(array.dtype):
        return widened(array)
    return array


def _in_float32(array: np.ndarray) -> np.ndarray:
    if has_fractions(array.dtype):
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    return array


def _overflows(function: Function, inputs: Arrays) -> bool:
    """Tell whether NumPy meets a number that is too large for its dtype in a function."""
    with warnings.catch_warnings(), np.errstate(all="ignore", over="raise"):
        warnings.simplefilter("ignore")
        try:
            function(*each(lambda array: array.copy(), inputs))
        except FloatingPointError:
            return True
    return False


def _finite(values: np.ndarray | float) -> np.ndarray:
    """Return values with 0 in place of NaN and infinities."""
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0))


def _shares_by_value(wide: np.ndarray, seed: int) -> np.ndarray:
    """Return numbers from 0 to 1 that look random, but are equal for equal elements."""
    mantissas, _ = np.frexp(wide.astype(np.float64))
    with np.errstate(invalid="ignore"):
        shares = np.abs(mantissas) * (7919.1234567 * seed) % 1
    # Infinities and NaN stay the same.
    return np.nan_to_num(shares, nan=0.5)
