"""Compare a converted model with its estimator, on the example and on rows that are not kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.diffs.tolerances import TOLERANCES
from pyopnb.ops.messages import one_line
from pyopnb.runtime.one_run import lone_session
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.inputs import feeds
from pyopnb.sklearn.samples import outputs_of
from pyopnb.testing.verify import Trial, mild_trials, verify
from pyopnb.testing.verify.rounding import call_original

__all__ = ["Comparison", "shorten"]

# Characters of another library's error.
_MAX_REASON = 120
_RTOL = TOLERANCES["float32"].rtol
# Rows of the example, in trials of other sizes and values.
_FEW_ROWS = 24
# Of those, the ones that tell whether an estimator looks at each row alone.
_REPEATED_ROWS = 8
_REACH = 1000.0
"""How much larger than the example's numbers those are that are tried. Distances are squared, and far
outside of what an estimator was fitted on they say nothing but how they were rounded."""


_Known = dict[tuple[Any, ...], list[np.ndarray]]
"""What an estimator gave, by its methods and its rows."""


class Comparison:
    """An estimator, and what it gives for the example.

    Parameters
    ----------
    estimator : estimator
    methods : list of str
        Those whose results are the outputs.
    rows : object
        The example.
    """

    def __init__(self, estimator: Any, methods: Sequence[str], rows: Any) -> None:
        self._estimator, self._methods = estimator, list(methods)
        self._columns = Columns.of(rows)
        self._feeds = feeds(rows)
        self._known: _Known = {}
        self.expected = [outputs_of(estimator, [method], rows) for method in methods]

    def refuse(self, model: ModelProto) -> str:
        """Say why a model is not the estimator's; an empty text if it is."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                session = lone_session(model)
                results = session.run(None, self._feeds)
        except Exception as error:
            # ONNX Runtime lacks something, or an op raises.
            return f"ONNX Runtime: {shorten(error)}"
        kept = [index for index, result in enumerate(results) if not _is_zipmap(result)]
        for index in kept:
            difference = _structure(results[index], self.expected[index])
            if difference:
                return f"skl2onnx: {difference}"
        # From here on the structure is known to be right, and numbers are compared.
        examples = []
        for index in kept:
            examples += _arrays(results[index], self.expected[index])
        methods = [self._methods[index] for index in kept]
        wants = [self.expected[index] for index in kept]
        reference = _Original(self._estimator, methods, self._columns, examples, self._known)
        flat_wants = [array for arrays in wants for array in arrays]
        reference.remember(tuple(self._feeds.values()), flat_wants)

        def converted(*arrays: np.ndarray) -> list[np.ndarray]:
            results = session.run(None, dict(zip(self._feeds, arrays, strict=True)))
            flat = []
            for index, want in zip(kept, wants, strict=True):
                flat += _arrays(results[index], want)
            return reference.settled(flat, arrays)

        verification = verify(
            reference.original,
            converted,
            [self._first_rows(_REPEATED_ROWS)],
            exact=reference.exact,
            trials=self._trials(reference),
        )
        if verification.disagreement is not None:
            return f"skl2onnx: {verification.disagreement}"
        if verification.error is not None:
            return f"ONNX Runtime: {shorten(verification.error)}"
        return ""

    def _first_rows(self, count: int) -> tuple[np.ndarray, ...]:
        return tuple(array[:count] for array in self._feeds.values())

    def _trials(self, reference: _Original) -> Iterator[Trial]:
        """Yield the example, other numbers of rows, then rows that are not kind."""
        example = tuple(self._feeds.values())
        yield Trial("the example", example)
        few = self._first_rows(_FEW_ROWS)
        trials = list(mild_trials(few, reach=_REACH))
        # Texts that an encoder was not fitted with are refused by most, and must not hide the numbers.
        texts = [trial for trial in trials if trial.name == "other texts"]
        numbers = [trial for trial in trials if trial.name != "other texts"]
        yield from self._number_trials(few, numbers, reference)
        if reference.computes_in_integers():
            # Products of these wrap, where scikit-learn computes in floats.
            yield Trial("large integers", tuple(map(_enlarged, few)))
        # A model that has the example's number of rows in it fails here.
        yield _repeated(few, 1)
        yield from texts
        yield from _missing_trials(few, reference)

    def _number_trials(
        self, few: Sequence[np.ndarray], trials: Sequence[Trial], reference: _Original
    ) -> Iterator[Trial]:
        """Yield all trials in one, or those that change the same columns, or one by one."""
        # Each call of an estimator may cost as much as the conversion. Most look at each row alone, so
        # that one call says what they give for all of these, in any number of rows.
        repeated = self._first_rows(_REPEATED_ROWS)
        backwards = tuple(array.ravel()[::-1].reshape(array.shape) for array in repeated)
        # An encoder of integers refuses those that it was not fitted with, and takes other floats.
        groups = [list(trials)]
        by_columns = _by_columns(few, trials)
        while groups:
            group = groups.pop(0)
            batch = _stacked([repeated, backwards, *[trial.inputs for trial in group]])
            if reference.takes(batch):
                reference.infer(tuple(self._feeds.values()), repeated, batch)
                yield Trial("unusual numbers", batch)
            elif len(by_columns) > 1:
                groups, by_columns = by_columns, []
            else:
                yield from group


def _stacked(inputs: Sequence[Sequence[np.ndarray | None]]) -> tuple[np.ndarray, ...]:
    """Put the rows of several inputs below one another."""
    stacked = []
    for parts in zip(*inputs, strict=True):
        stacked.append(np.concatenate([part for part in parts if part is not None]))
    return tuple(stacked)


def _by_columns(few: Sequence[np.ndarray], trials: Sequence[Trial]) -> list[list[Trial]]:
    """Put the trials together that change the same columns."""
    groups: dict[tuple[bool, ...], list[Trial]] = {}
    for trial in trials:
        changed = [values is not array for array, values in zip(few, trial.inputs, strict=True)]
        groups.setdefault(tuple(changed), []).append(trial)
    return list(groups.values())


def _enlarged(array: np.ndarray) -> np.ndarray:
    """Fill integers with a large one, whose square is beyond its dtype."""
    if array.dtype.kind not in "iu":
        return array
    return np.full_like(array, np.iinfo(array.dtype).max // 4)


def _repeated(example: Sequence[np.ndarray], count: int) -> Trial:
    rows = tuple(np.resize(array, (count, *array.shape[1:])) for array in example)
    return Trial(f"{count} rows", rows)


def _largest(array: np.ndarray | None) -> float:
    """Return the largest finite magnitude; 0 where there are no numbers."""
    if array is None or array.dtype.kind not in "if":
        return 0.0
    numbers = array[np.isfinite(array)].astype(np.float64)
    return float(np.abs(numbers).max(initial=0.0))


def _missing_trials(example: Sequence[np.ndarray], reference: _Original) -> Iterator[Trial]:
    """Yield the example with NaN, and with infinities, which are taken only where NaN is."""
    if not any(array.dtype.kind == "f" for array in example):
        return
    for name, values in (("NaN", [np.nan]), ("infinities", [np.inf, -np.inf])):
        inputs = []
        for number, array in enumerate(example):
            if array.dtype.kind == "f":
                array = array.copy()
                part = array.reshape(-1)[number % 3 :: 3]
                part[:] = np.resize(values, part.shape)
            inputs.append(array)
        if not reference.takes(inputs):
            return
        yield Trial(name, tuple(inputs))


def _settled(
    results: Sequence[np.ndarray], wants: Sequence[np.ndarray], scales: Sequence[float]
) -> list[np.ndarray]:
    """Replace what agrees to the dtype's tolerance by what the estimator gives.

    An estimator computes in float64 and skl2onnx's kernels in float32, so that an element may be off
    by a part of the largest: a probability of 1e-30 by a part of 1. A label between whose scores
    there is no more than that may be either.
    """
    settled = []
    # A label is decided by the scores beside it.
    scores = next((want for want in wants if want.dtype.kind == "f"), None)
    for result, want, scale in zip(results, wants, scales, strict=True):
        if result.shape != want.shape or result.dtype != want.dtype:
            settled.append(result)
        elif want.dtype.kind == "f":
            settled.append(np.where(_is_close(result, want, scale), want, result))
        elif scores is None or len(scores) != len(want):
            settled.append(result)
        else:
            undecided = _is_undecided(scores).reshape(-1, *[1] * (want.ndim - 1))
            settled.append(np.where(undecided, want, result))
    return settled


def _is_close(result: np.ndarray, want: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        close = np.abs(result - want) <= _RTOL * (np.abs(want) + _row_scales(want, scale))
    return np.asarray(close)


def _row_scales(want: np.ndarray, scale: float) -> np.ndarray:
    """Return the largest number of each row, or of the example if that is larger."""
    # An infinite score has no scale.
    rows = np.where(np.isfinite(want), np.abs(want), 0.0).reshape(len(want), -1)
    scales = rows.max(axis=1, initial=scale)
    return np.asarray(scales.reshape(-1, *[1] * (want.ndim - 1)))


def _is_undecided(scores: np.ndarray) -> np.ndarray:
    """Tell for each row whether its best two scores are the same but for rounding."""
    rows = scores.reshape(len(scores), -1).astype(np.float64)
    # What the float32 of skl2onnx's kernels may be off by decides between equal scores.
    limits = _RTOL * np.abs(np.nan_to_num(rows)).max(axis=1, initial=1e-30)
    if rows.shape[1] == 1:
        return np.asarray(np.abs(rows[:, 0]) <= limits)
    best = np.sort(rows, axis=1)
    return np.asarray(best[:, -1] - best[:, -2] <= limits)


class _Original:
    """An estimator as a function of the arrays that its model takes, with the model's dtypes."""

    def __init__(
        self,
        estimator: Any,
        methods: list[str],
        columns: Columns,
        examples: Sequence[np.ndarray],
        known: _Known,
    ) -> None:
        self._estimator, self._methods, self._columns = estimator, methods, columns
        self._dtypes = [array.dtype for array in examples]
        self._scales = [_largest(array) for array in examples]
        self._known = known
        self._estimated: list[np.dtype] = []

    def original(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Call the estimator, once for the same rows: it may take as long as the whole conversion."""
        key = self._key(arrays)
        if key not in self._known:
            rows = self._columns.join(arrays)
            self._known[key] = outputs_of(self._estimator, self._methods, rows)
        return self._cast(self._known[key])

    def computes_in_integers(self) -> bool:
        """Tell whether the model has integers where the estimator has floats."""
        for dtype, estimated in zip(self._dtypes, self._estimated, strict=True):
            if dtype.kind in "iu" and estimated.kind == "f":
                return True
        return False

    def takes(self, arrays: Sequence[np.ndarray]) -> bool:
        """Tell whether the estimator raises nothing for some rows."""
        return call_original(self.original, tuple(arrays)) is not None

    def remember(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """Keep what the estimator gave for some rows before."""
        self._estimated = [result.dtype for result in results]
        self._known[self._key(arrays)] = list(results)

    def infer(
        self, example: Sequence[np.ndarray], few: Sequence[np.ndarray], batch: Sequence[np.ndarray]
    ) -> None:
        """Keep what the estimator would give for fewer rows, if it looks at each row alone.

        Parameters
        ----------
        example : sequence of ndarray
        few : sequence of ndarray
            Its first rows.
        batch : sequence of ndarray
            These again, then these backwards, then others.
        """
        count = len(few[0])
        of_example = self._known[self._key(example)]
        of_batch = self._known[self._key(batch)]
        for result, again, scale in zip(of_example, of_batch, self._scales, strict=True):
            # The same rows give something else among others: nothing can be said of fewer.
            if not _is_same(result[:count], again[:count], scale):
                return
        first_row = [array[:1] for array in few]
        self.remember(first_row, [result[:1] for result in of_example])
        self.remember(few, [result[:count] for result in of_example])
        backwards = [array[count : 2 * count] for array in batch]
        self.remember(backwards, [result[count : 2 * count] for result in of_batch])

    def _key(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return (*self._methods, *map(_bytes_of, arrays))

    def _cast(self, results: Sequence[np.ndarray]) -> list[np.ndarray]:
        cast = []
        for result, dtype in zip(results, self._dtypes, strict=True):
            # The model's floats may be narrower, and its texts are objects.
            if dtype.kind == "O":
                cast.append(_as_objects(result))
                continue
            with np.errstate(invalid="ignore"):
                as_in_model = result.astype(dtype)
            # Fractions, and what is beyond the model's integers, have no place in these.
            if dtype.kind in "iu" and (as_in_model != result).any():
                as_in_model = result
            cast.append(as_in_model)
        return cast

    def exact(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Call the estimator in float64, the widest that it takes."""
        # Most of scikit-learn computes in the dtype of the rows, and this is the yardstick.
        dtypes = []
        for dtype in self._columns.dtypes:
            if dtype.startswith("float"):
                dtype = "float64"
            dtypes.append(dtype)
        wide = replace(self._columns, dtypes=tuple(dtypes))
        inputs = []
        for array in arrays:
            if array.dtype.kind == "f":
                array = array.astype(np.float64)
            inputs.append(array)
        return outputs_of(self._estimator, self._methods, wide.join(inputs))

    def settled(
        self, results: Sequence[np.ndarray], arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Replace results for these rows that are close enough by the estimator's."""
        return _settled(results, self.original(*arrays), self._scales)


def _is_same(result: np.ndarray, again: np.ndarray, scale: float) -> bool:
    if result.shape != again.shape or result.dtype != again.dtype:
        return False
    if result.dtype.kind != "f":
        return bool((result == again).all())
    close = _is_close(again, result, scale) | (np.isnan(result) & np.isnan(again))
    return bool(close.all())


def _bytes_of(array: np.ndarray) -> bytes:
    """Return a key for an array: its type and its elements."""
    if array.dtype.kind == "O":
        # The bytes of such an array are addresses of Python objects.
        elements = repr(array.tolist()).encode()
    else:
        elements = array.tobytes()
    return f"{array.dtype}{array.shape}".encode() + elements


def _as_objects(texts: np.ndarray) -> np.ndarray:
    return texts.astype(str).astype(object)


def _is_zipmap(result: Any) -> bool:
    """Tell dicts of probabilities, which the caller's options ask for."""
    return isinstance(result, list) and bool(result) and isinstance(result[0], dict)


def _arrays(result: Any, expected: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays of a method in the estimator's shapes; skl2onnx may have stacked them."""
    # A method that returns a list of arrays has as many outputs, or one that holds them all.
    several = result
    if not isinstance(result, list) and len(expected) <= 1:
        several = [result]
    arrays = []
    for item, want in zip(several, expected, strict=False):
        array = np.asarray(item)
        if want.ndim == 1 and want.dtype.kind == "f" and array.shape[1:] == (2,):
            # skl2onnx gives the scores of both classes, scikit-learn those of the second.
            array = array[:, 1]
        if array.shape[1:] != want.shape[1:] and array.size == _size_like(array, want):
            array = array.reshape(len(array), *want.shape[1:])
        if want.dtype.kind not in "biuf":
            array = _as_objects(array)
        arrays.append(array)
    return arrays


def _size_like(array: np.ndarray, want: np.ndarray) -> int:
    size = 1
    if array.ndim:
        size = len(array)
    for length in want.shape[1:]:
        size *= length
    return size


def _structure(result: Any, expected: Sequence[np.ndarray]) -> str:
    """Say where the arrays of a method have other shapes or kinds than the estimator's."""
    arrays = _arrays(result, expected)
    if len(arrays) != len(expected):
        return "gives too few arrays"
    for array, want in zip(arrays, expected, strict=True):
        if array.shape != want.shape:
            return f"has the shape {list(array.shape)} for {list(want.shape)}"
    return ""


def shorten(error: BaseException) -> str:
    """Put another library's error on one short line."""
    text = one_line(f"{type(error).__name__}: {error}")
    if len(text) > _MAX_REASON:
        text = f"{text[:_MAX_REASON]}…"
    return text
