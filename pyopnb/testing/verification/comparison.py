"""Run a converted function beside its original on every drawn input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import type_of
from pyopnb.testing.verification.kernel_error import KernelError
from pyopnb.testing.verification.rounding import Function, Judge, call_original, run
from pyopnb.testing.verification.trials import Trial, reverse
from pyopnb.testing.verification.values import Arrays, each, largest

__all__ = ["Disagreement", "Verification", "verify"]


@dataclass(frozen=True)
class Disagreement:
    """The first input for which a converted function and its original differ.

    Attributes
    ----------
    difference : str
        The output or element, and the two results.
    elements : str
        The elements of the inputs at the same index, if each has one.
    """

    trial: Trial
    difference: str
    elements: str = ""

    def __str__(self) -> str:
        return f"with {self.trial.name}{self.elements}: {self.difference}"


@dataclass
class Verification:
    """The result of a verification.

    Attributes
    ----------
    left_out : list of str
        The inputs that the original refused.
    errors : list of (Trial, Exception)
        Inputs on which only the converted function raised.
    """

    left_out: list[str] = field(default_factory=list)
    disagreement: Disagreement | None = None
    errors: list[tuple[Trial, Exception]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether both agreed wherever both ran, and the converted one always did."""
        return self.disagreement is None and not self.errors


def verify(
    original: Function,
    converted: Function,
    trials: Iterable[Trial],
    *,
    exact: Function | None = None,
    kernel_error: KernelError | None = None,
    narrowest: np.dtype | None = None,
    finite: bool = False,
) -> Verification:
    """Compare a converted function with its original until they disagree.

    Parameters
    ----------
    original : callable
        Takes arrays, None for an input that is left out, and returns a sequence of arrays. An input
        for which it raises is left out.
    converted : callable
        Takes and returns the same.
    trials : iterable of Trial
        As `draw_trials` or `mild_trials` draws them. The first is the user's example.
    exact : callable, optional
        The original in wider floats. If not given, `original` itself on wider inputs.
    kernel_error : KernelError, optional
        The error of the converted function's runtime itself; none by default.
    narrowest : numpy.dtype, optional
        The narrowest float that is computed in, if narrower than the inputs and outputs.
    finite : bool
        Leave out inputs for which the original gives NaN or infinities.

    Examples
    --------
    >>> from pyopnb.testing.verification import draw_trials
    >>> def original(x):
    ...     return [np.log1p(x)]
    >>> def converted(x):
    ...     return [np.log(1 + x)]
    >>> verification = verify(original, converted, draw_trials([(np.float32([1.0, 2.0]),)]))
    >>> verification.disagreement.trial.name
    'tiny numbers'
    """
    judge = Judge(original, exact or original, kernel_error or KernelError(), narrowest)
    verification = Verification()
    example = None
    for trial in trials:
        example = example or trial.inputs
        expected = call_original(original, trial.inputs)
        # If a user promises finite numbers, inputs for which the original gives NaN or infinities
        # say nothing.
        if expected is None or (finite and not _all_finite(expected)):
            verification.left_out.append(trial.name)
            continue
        if not judge.sizes:
            judge = replace(judge, sizes=tuple(map(largest, expected)))
        try:
            results = run(converted, trial.inputs)
        except Exception as error:
            # Exceptions of runtimes have no common base class.
            verification.errors.append((trial, error))
            continue
        verification.disagreement = _disagreement(judge, trial, expected, results)
        if verification.disagreement is not None:
            return verification
    if example is not None:
        verification.disagreement = _disagreement_on_reuse(judge, converted, example)
    return verification


def _all_finite(arrays: Sequence[np.ndarray]) -> bool:
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")


def _disagreement(
    judge: Judge, trial: Trial, expected: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> Disagreement | None:
    wrong = judge.wrong(trial, expected, results)
    if wrong is None:
        return None
    number, mask = wrong
    # A whole output differs in its dtype or its shape, or is not there.
    if mask is None:
        want, got = _type_text(expected, number), _type_text(results, number)
        return Disagreement(trial, f"output {number} is {got} instead of {want}")
    index = tuple(map(int, np.argwhere(mask)[0]))
    where = f" at [{','.join(map(str, index))}]"
    want, got = _shown(expected[number][index]), _shown(results[number][index])
    texts = []
    # An input that is not broadcast to the result has no element there.
    with suppress(ValueError):
        for array in trial.inputs:
            broadcast = np.broadcast_to(np.asarray(array), mask.shape)
            texts.append(_shown(broadcast[index]))
    elements = f" ({', '.join(texts)})" if texts else ""
    return Disagreement(trial, f"output {number}{where} is {got} instead of {want}", elements)


def _type_text(arrays: Sequence[np.ndarray], number: int) -> str:
    if number < len(arrays):
        return str(type_of(arrays[number]))
    return "nothing"


def _shown(element: Any) -> str:
    """Return an element as it is typed."""
    # Quotes keep an empty text visible.
    if isinstance(element, str):
        element = repr(element)
    return sanitize(element, 40)


def _disagreement_on_reuse(
    judge: Judge, converted: Function, example: Arrays
) -> Disagreement | None:
    """Call twice with one refilled buffer, and once with inputs that are not contiguous."""
    flipped = each(reverse, example)
    before = call_original(judge.original, example)
    after = call_original(judge.original, flipped)
    if before is None or after is None:
        return None
    buffers = each(np.array, example)
    # Stacked twice, the same values are in memory with gaps.
    gaps = each(lambda array: np.stack([array, array], axis=-1)[..., 0], flipped)
    try:
        first = run(converted, buffers)
        for buffer, array in zip(buffers, flipped, strict=True):
            if buffer is not None:
                buffer[...] = array
        second = run(converted, buffers)
        strided = run(converted, gaps)
    except Exception:
        # The same inputs in other memory were accepted a moment ago, so the op keeps a state.
        return None
    # Results of the first call that lie in the buffer have changed with it.
    for name, inputs, want, got in (
        ("a buffer that was filled again", flipped, after, second),
        ("a buffer that was filled again, before that", example, before, first),
        ("inputs that are not contiguous", flipped, after, strided),
    ):
        disagreement = _disagreement(judge, Trial(name, inputs), want, got)
        if disagreement is not None:
            return disagreement
    return None
