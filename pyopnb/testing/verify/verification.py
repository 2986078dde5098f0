"""Run a converted function beside its original on every drawn input."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import type_of
from pyopnb.testing.verify.rounding import (
    NO_KERNEL_ERROR,
    Function,
    Judge,
    KernelError,
    call_original,
)
from pyopnb.testing.verify.trials import (
    LONG_ROW,
    Arrays,
    Dims,
    Trial,
    draw_trials,
    free_sizes_of,
    long_row,
)

__all__ = ["Disagreement", "Verification", "verify"]

_SAME: Any = object()

# Integers of 16 and 32 bits that count elements, or pairs of them, overflow only there.
_LONGEST_ROW = 1_000_000
# Elements and seconds. What makes pairs takes longer in the first, what loops over them in the second: at a
# million, either would take minutes, or all memory.
_LONGER_ROWS = ((LONG_ROW, 0.001), (10 * LONG_ROW, 0.01))


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
    """

    trial: str
    inputs: Arrays
    output: int
    index: tuple[int, ...] | None
    original: str
    converted: str

    def __str__(self) -> str:
        index = ""
        if self.index is not None:
            index = f" at [{','.join(map(str, self.index))}]"
        difference = f"output {self.output}{index} is {self.converted} instead of {self.original}"
        values = self._elements()
        return f"with {self.trial}{values}: {difference}"

    def _elements(self) -> str:
        """Name the inputs' elements at the same index, where there are such."""
        texts = []
        for array in self.inputs:
            if array is None or self.index is None or array.ndim > len(self.index):
                return ""
            # An input that is broadcast has fewer axes, and 1 where the result has more.
            position = self.index[len(self.index) - array.ndim :]
            if any(slot >= size > 1 for slot, size in zip(position, array.shape, strict=True)):
                return ""
            clipped = tuple(min(p, size - 1) for p, size in zip(position, array.shape, strict=True))
            texts.append(_shown(array[clipped]))
        if not texts:
            return ""
        return f" ({', '.join(texts)})"


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
    errors : list of (str, Exception)
        Trials on which only the converted function raised.
    """

    trials: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    disagreement: Disagreement | None = None
    errors: list[tuple[str, Exception]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether both agreed wherever both ran, and the converted one always did."""
        return self.disagreement is None and not self.errors

    @property
    def error(self) -> Exception | None:
        """Return the first exception of the converted function."""
        if not self.errors:
            return None
        _, error = self.errors[0]
        return error


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
    exact: Callable[..., Any] | None = _SAME,
    kernel_error: KernelError = NO_KERNEL_ERROR,
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
        The original in wider floats. If not given, `original` itself on wider inputs; None if there is none.
    kernel_error : KernelError, optional
        What the runtime of the converted function loses on its own. By default nothing.
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
    if exact is _SAME:
        exact = original
    judge = Judge(original, exact, narrowest, kernel_error)
    verification = Verification()
    if trials is None:
        trials = draw_trials(
            examples,
            dims=dims,
            constants=constants,
            finite=finite,
            empty=empty,
            long_rows=kernel_error.long_rows,
        )
        if dims is not None and kernel_error.long_rows:
            trials = chain(trials, _longest_row(original, examples[0], dims))
    for trial in trials:
        expected = call_original(original, trial.inputs)
        # Inputs that the original refuses say nothing, and where a user promises finite numbers, neither
        # do those for which it gives others.
        if expected is None or (finite and not _all_finite(expected)):
            verification.left_out.append(trial.name)
            continue
        try:
            results = _results(converted, trial.inputs)
        except Exception as error:
            # What runtimes raise has no common base class.
            verification.errors.append((trial.name, error))
            continue
        verification.trials.append(trial.name)
        verification.disagreement = _disagreement(judge, trial, expected, results)
        if verification.disagreement is not None:
            return verification
    verification.disagreement = _disagreement_on_reuse(judge, converted, examples[0])
    return verification


def _longest_row(original: Function, example: Arrays, dims: Dims) -> Iterator[Trial]:
    """Yield one row of a million elements, if the original reduces such rows and is quick."""
    for name in free_sizes_of(example, dims):
        if all(_reduces_quickly(original, example, dims, name, *step) for step in _LONGER_ROWS):
            trial = long_row(example, dims, name, _LONGEST_ROW)
            if trial is not None:
                yield trial
            return


def _reduces_quickly(
    original: Function, example: Arrays, dims: Dims, name: str, elements: int, seconds: float
) -> bool:
    """Tell whether the original makes less of a row, in so much time of the processor."""
    trial = long_row(example, dims, name, elements)
    if trial is None:
        return False
    begin = time.thread_time()
    results = call_original(original, trial.inputs)
    if results is None or time.thread_time() - begin > seconds:
        return False
    # Whatever stays by itself, as the channels of a pixel that are added up, would be no long row.
    largest = max(array.size for array in trial.inputs if array is not None)
    return 100 * sum(result.size for result in results) < largest


def _results(converted: Function, inputs: Arrays) -> list[np.ndarray]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(result) for result in converted(*inputs)]


def _all_finite(arrays: Sequence[np.ndarray]) -> bool:
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind in "fc")


def _disagreement(
    judge: Judge, trial: Trial, expected: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> Disagreement | None:
    wrong = judge.wrong(trial, expected, results)
    if wrong is None:
        return None
    number, mask = wrong
    # A whole output differs in its dtype or its shape, or is not there.
    if mask is None:
        want, got = "nothing", "missing"
        if number < len(expected):
            want = str(type_of(expected[number]))
        if number < len(results):
            got = str(type_of(results[number]))
        return Disagreement(trial.name, trial.inputs, number, None, want, got)
    first_wrong = np.argwhere(mask)[0]
    index = tuple(int(position) for position in first_wrong)
    want, got = _shown(expected[number][index]), _shown(results[number][index])
    return Disagreement(trial.name, trial.inputs, number, index, want, got)


def _shown(element: Any) -> str:
    """Return an element as it is typed."""
    text = str(element)
    # Quotes keep an empty text visible.
    if isinstance(element, str):
        text = repr(element)
    return sanitize(text, 40)


def _disagreement_on_reuse(
    judge: Judge, converted: Function, example: Arrays
) -> Disagreement | None:
    """Call twice with one buffer that is filled again, and once with inputs that are not contiguous."""
    buffers = tuple(None if array is None else np.array(array) for array in example)
    reversed_inputs = tuple(_reversed(array) for array in example)
    # The values of a buffer change between two calls, and the results of the first must not.
    expected = call_original(judge.original, reversed_inputs)
    first_expected = call_original(judge.original, example)
    if expected is None or first_expected is None:
        return None
    try:
        first_results = _results(converted, buffers)
        for buffer, array in zip(buffers, reversed_inputs, strict=True):
            if buffer is not None and array is not None:
                buffer[...] = array
        results = _results(converted, buffers)
        strided_inputs = tuple(_strided(array) for array in reversed_inputs)
        strided = _results(converted, strided_inputs)
    except Exception:
        # The same inputs in other memory were taken a moment ago, by an op that keeps a state.
        return None
    # Results of the first call that lie in the buffer would have changed with it.
    for name, inputs, want, got in (
        ("a buffer that was filled again", reversed_inputs, expected, results),
        ("a buffer that was filled again, before that", example, first_expected, first_results),
        ("inputs that are not contiguous", reversed_inputs, expected, strided),
    ):
        disagreement = _disagreement(judge, Trial(name, inputs), want, got)
        if disagreement is not None:
            return disagreement
    return None


def _reversed(array: np.ndarray | None) -> np.ndarray | None:
    """Return the same values in the opposite order."""
    if array is None:
        return None
    return array.ravel()[::-1].reshape(array.shape)


def _strided(array: np.ndarray | None) -> np.ndarray | None:
    """Return the same values in memory with gaps."""
    if array is None or array.ndim == 0:
        return array
    spaced = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    spaced[..., ::2] = array
    return spaced[..., ::2]
