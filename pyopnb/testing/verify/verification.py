"""Run a converted function beside its original on every drawn input."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import type_of
from pyopnb.testing.verify.rounding import Function, Judge, KernelError, Settle, call_original, run
from pyopnb.testing.verify.trials import Dims, Trial, draw_trials, reverse
from pyopnb.testing.verify.values import Arrays, each

__all__ = ["Disagreement", "Verification", "verify"]


@dataclass(frozen=True)
class Disagreement:
    """The first input for which a converted function gives something else than its original.

    Attributes
    ----------
    trial : str
        What was special about the input.
    inputs : tuple of (ndarray or None)
    output : int
    index : tuple of int or None
        Of the element; None where the dtype, the shape or the number of outputs differs.
    original, converted : str
        The element, or the type.
    elements : str
        Those of the inputs at the same index, if each has one.
    """

    trial: str
    inputs: Arrays
    output: int
    index: tuple[int, ...] | None
    original: str
    converted: str
    elements: str = ""

    def __str__(self) -> str:
        index = "" if self.index is None else f" at [{','.join(map(str, self.index))}]"
        difference = f"output {self.output}{index} is {self.converted} instead of {self.original}"
        return f"with {self.trial}{self.elements}: {difference}"


@dataclass
class Verification:
    """What a verification compared, and what it found.

    Attributes
    ----------
    trials : list of str
        The inputs on which both ran, in order.
    left_out : list of str
        The inputs that the original refused.
    disagreement : Disagreement or None
    errors : list of (Trial, Exception)
        Those on which only the converted function raised.
    """

    trials: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    disagreement: Disagreement | None = None
    errors: list[tuple[Trial, Exception]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether both agreed wherever both ran, and the converted one always did."""
        return self.disagreement is None and not self.errors

    @property
    def error(self) -> Exception | None:
        """Return the first exception of the converted function."""
        return self.errors[0][1] if self.errors else None


def verify(
    original: Function,
    converted: Function,
    examples: Sequence[Arrays],
    *,
    dims: Dims | None = None,
    constants: Collection[float] = (),
    finite: bool = False,
    empty: bool = True,
    narrowest: np.dtype | None = None,
    exact: Function | None = None,
    kernel_error: KernelError | None = None,
    settle: Settle | None = None,
    trials: Iterator[Trial] | None = None,
) -> Verification:
    """Compare a converted function with its original until they disagree.

    Parameters
    ----------
    original : callable
        Takes arrays, None for an input that is left out, and returns a sequence of arrays. An input for
        which it raises is left out.
    converted : callable
        Takes and returns the same.
    examples : sequence of tuples
        The user's inputs, which are tried first.
    dims : sequence, optional
        Per input the size of each axis, or the name of a free dimension.
    constants : collection of numbers
        Numbers in the body; they and their neighbours are tried.
    finite : bool
        Try neither NaN nor infinities, and skip inputs for which the original gives them.
    empty : bool
        Try free dimensions of size 0.
    narrowest : numpy.dtype, optional
        The narrowest float that is computed in, if narrower than the inputs and outputs.
    exact : callable, optional
        The original in wider floats. If not given, `original` itself on wider inputs.
    kernel_error : KernelError, optional
        What the runtime of the converted function loses on its own. By default nothing.
    settle : callable, optional
        Takes what both gave, and returns the converted function's with each element replaced by the
        original's that is near enough by a rule of its own.
    trials : iterator of Trial, optional
        Other inputs than those of `draw_trials`.

    Returns
    -------
    Verification

    Examples
    --------
    >>> def original(x):
    ...     return [np.log1p(x)]
    >>> def converted(x):
    ...     return [np.log(1 + x)]
    >>> verification = verify(original, converted, [(np.float32([1.0, 2.0]),)])
    >>> verification.disagreement.trial
    'tiny numbers'
    """
    kernel_error = kernel_error or KernelError()
    judge = Judge(original, exact or original, kernel_error, narrowest, settle)
    verification = Verification()
    if trials is None:
        trials = draw_trials(examples, dims=dims, constants=constants, finite=finite, empty=empty)
    for trial in trials:
        expected = call_original(original, trial.inputs)
        # Inputs that the original refuses say nothing, and where a user promises finite numbers, neither
        # do those for which it gives others.
        if expected is None or (finite and not _all_finite(expected)):
            verification.left_out.append(trial.name)
            continue
        try:
            results = run(converted, trial.inputs)
        except Exception as error:
            # What runtimes raise has no common base class.
            verification.errors.append((trial, error))
            continue
        verification.trials.append(trial.name)
        verification.disagreement = _disagreement(judge, trial, expected, results)
        if verification.disagreement is not None:
            return verification
    verification.disagreement = _disagreement_on_reuse(judge, converted, examples[0])
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
        return Disagreement(trial.name, trial.inputs, number, None, want, got)
    index = tuple(map(int, np.argwhere(mask)[0]))
    want, got = _shown(expected[number][index]), _shown(results[number][index])
    texts = []
    # An input that is not broadcast to the result has no element there.
    with suppress(ValueError):
        for array in trial.inputs:
            broadcast = np.broadcast_to(np.asarray(array), mask.shape)
            texts.append(_shown(broadcast[index]))
    elements = ""
    if texts:
        elements = f" ({', '.join(texts)})"
    return Disagreement(trial.name, trial.inputs, number, index, want, got, elements)


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
    """Call twice with one buffer that is filled again, and once with inputs that are not contiguous."""
    flipped = each(reverse, example)
    expected = [call_original(judge.original, inputs) for inputs in (example, flipped)]
    if None in expected:
        return None
    buffers = each(np.array, example)
    # Stacked twice, the same values are in memory with gaps.
    gaps = each(lambda array: np.stack([array, array], axis=-1)[..., 0], flipped)
    try:
        first = run(converted, buffers)
        for buffer, array in zip(buffers, flipped, strict=True):
            if buffer is not None:
                buffer[...] = array
        second, strided = run(converted, buffers), run(converted, gaps)
    except Exception:
        # The same inputs in other memory were taken a moment ago, by an op that keeps a state.
        return None
    # Results of the first call that lie in the buffer have changed with it.
    for name, inputs, want, got in (
        ("a buffer that was filled again", flipped, expected[1], second),
        ("a buffer that was filled again, before that", example, expected[0], first),
        ("inputs that are not contiguous", flipped, expected[1], strided),
    ):
        disagreement = _disagreement(judge, Trial(name, inputs), want or (), got)
        if disagreement is not None:
            return disagreement
    return None
