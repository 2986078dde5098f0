"""Compare a converted model with its estimator, on the example and on rows that are not kind."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.diffs import TOLERANCES
from pyopnb.engine import lone_runner
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.inputs import feeds
from pyopnb.sklearn.samples import outputs_of
from pyopnb.testing import Trial, largest, mild_trials, verify

__all__ = ["Comparison", "shorten"]

# Characters of another library's error.
_MAX_REASON = 120
_RTOL = TOLERANCES["float32"].rtol
# Rows of the example, in trials of other values.
_FEW_ROWS = 24
_REACH = 1000.0
"""How many times larger than the example's numbers the trials may be.

Distances are squared, so that far outside of the fitted data they only show rounding.
"""


class Comparison:
    """An estimator, and its results for the example.

    Parameters
    ----------
    estimator : estimator
    methods : list of str
        The methods whose results are the outputs.
    rows : object
        The example.
    """

    def __init__(self, estimator: Any, methods: Sequence[str], rows: Any) -> None:
        self._estimator, self._methods = estimator, list(methods)
        self._columns = Columns.of(rows)
        self._feeds = feeds(rows)
        self.expected = [outputs_of(estimator, [method], rows) for method in methods]

    def refuse(self, model: ModelProto) -> str:
        """Say how a model differs from the estimator; an empty text if it does not."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = lone_runner(model)
                results = run(None, self._feeds)
        except Exception as error:
            # ONNX Runtime lacks something, or an op raises.
            return f"ONNX Runtime: {shorten(error)}"
        # Dicts of probabilities, which the caller's options ask for, are not compared.
        kept = []
        for index, result in enumerate(results):
            if not (isinstance(result, list) and result and isinstance(result[0], dict)):
                kept.append(index)

        def outputs(results: Sequence[Any]) -> list[np.ndarray]:
            arrays = []
            for index in kept:
                arrays += _in_shape_of(self.expected[index], results[index])
            return arrays

        def converted(*arrays: np.ndarray) -> list[np.ndarray]:
            return outputs(run(None, dict(zip(self._feeds, arrays, strict=True))))

        examples = outputs(results)
        wants: list[np.ndarray] = []
        for index in kept:
            wants += self.expected[index]
        if [array.shape for array in examples] != [want.shape for want in wants]:
            return "skl2onnx: gives arrays of other shapes"
        wraps = False
        for want, example in zip(wants, examples, strict=True):
            wraps |= want.dtype.kind == "f" and example.dtype.kind in "iu"
        methods = [self._methods[index] for index in kept]
        reference = _Reference(self._estimator, methods, self._columns, examples)
        few = tuple(array[:_FEW_ROWS] for array in self._feeds.values())
        verification = verify(
            reference.original,
            converted,
            self._trials(few, wraps),
            exact=reference.exact,
            settle=reference.settle,
        )
        if verification.disagreement is not None:
            return f"skl2onnx: {verification.disagreement}"
        for _, failure in verification.errors:
            return f"ONNX Runtime: {shorten(failure)}"
        return ""

    def _trials(self, few: tuple[np.ndarray, ...], wraps: bool) -> Iterator[Trial]:
        """Yield the example, a single row, then rows that are not kind."""
        yield Trial("the example", tuple(self._feeds.values()))
        # A model that has the example's number of rows in it fails here.
        yield Trial("1 row", tuple(array[:1] for array in few))
        yield from mild_trials(few, reach=_REACH)
        # Products of these wrap, where scikit-learn computes in floats.
        if wraps:
            yield Trial("large integers", tuple(map(_enlarged, few)))
        for name, value in (("NaN", np.nan), ("infinities", np.inf)):
            yield Trial(name, tuple(_sprinkled(array, value) for array in few))


def _enlarged(array: np.ndarray) -> np.ndarray:
    """Fill integers with a large one, whose square is beyond its dtype."""
    if array.dtype.kind not in "iu":
        return array
    return np.full_like(array, np.iinfo(array.dtype).max // 4)


def _sprinkled(array: np.ndarray, value: float) -> np.ndarray:
    """Put a value, and its negative, into every third element of floats."""
    changed = array.copy()
    if array.dtype.kind == "f":
        places = changed.reshape(-1)[::3]
        places[:] = np.resize([value, -value], places.shape)
    return changed


@dataclass(frozen=True)
class _Reference:
    """An estimator as a function of the arrays that its model takes, with the model's dtypes.

    Attributes
    ----------
    estimator : estimator
    examples : sequence of ndarray
        The results of the model for the example.
    """

    estimator: Any
    methods: list[str]
    columns: Columns
    examples: Sequence[np.ndarray]

    def original(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Call the estimator, and give its results the dtypes of the model."""
        results = outputs_of(self.estimator, self.methods, self.columns.join(arrays))
        for number, (result, example) in enumerate(zip(results, self.examples, strict=True)):
            # The model's floats may be narrower, and its texts are objects.
            if example.dtype.kind == "O":
                results[number] = _as_objects(result)
                continue
            with np.errstate(invalid="ignore"):
                as_in_model = result.astype(example.dtype)
            # Fractions, and numbers beyond the model's integers, have no place in these.
            if example.dtype.kind not in "iu" or (as_in_model == result).all():
                results[number] = as_in_model
        return results

    def exact(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Call the estimator in float64, the widest that it takes."""
        # Most of scikit-learn computes in the dtype of the rows, and this is the yardstick.
        dtypes = list(self.columns.dtypes)
        for number, dtype in enumerate(dtypes):
            if dtype.startswith("float"):
                dtypes[number] = "float64"
        wide = replace(self.columns, dtypes=tuple(dtypes))
        inputs = list(arrays)
        for number, array in enumerate(inputs):
            if array.dtype.kind == "f":
                inputs[number] = array.astype(np.float64)
        return outputs_of(self.estimator, self.methods, wide.join(inputs))

    def settle(
        self, expected: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Replace results within the dtype's tolerance by the estimator's own.

        An estimator computes in float64 and the skl2onnx kernels in float32, so that the error of
        an element is relative to the largest: a probability of 1e-30 may be off by 1e-7 or so.
        Where the best two scores are that close, either label is right.
        """
        # A label is decided by the scores beside it.
        scores = next((want for want in expected if want.dtype.kind == "f"), None)
        settled = []
        for result, want, example in zip(results, expected, self.examples, strict=True):
            if result.shape != want.shape or result.dtype != want.dtype:
                settled.append(result)
            elif want.dtype.kind == "f":
                close = _is_close(result, want, largest(example))
                settled.append(np.where(close, want, result))
            elif scores is None or len(scores) != len(want):
                settled.append(result)
            else:
                undecided = _is_undecided(scores).reshape(-1, *[1] * (want.ndim - 1))
                settled.append(np.where(undecided, want, result))
        return settled


def _is_close(result: np.ndarray, want: np.ndarray, scale: float) -> np.ndarray:
    """Tell for each element whether its error is small beside it and the largest of its row."""
    # An infinite score has no scale.
    rows = np.where(np.isfinite(want), np.abs(want), 0.0).reshape(len(want), -1)
    scales = rows.max(axis=1, initial=scale).reshape(-1, *[1] * (want.ndim - 1))
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(result - want) <= _RTOL * (np.abs(want) + scales))


def _is_undecided(scores: np.ndarray) -> np.ndarray:
    """Tell for each row whether its best two scores are the same but for rounding."""
    rows = scores.reshape(len(scores), -1).astype(np.float64)
    # Within the float32 rounding of the skl2onnx kernels, either score may come out larger.
    limits = _RTOL * np.abs(np.nan_to_num(rows)).max(axis=1, initial=1e-30)
    if rows.shape[1] == 1:
        return np.asarray(np.abs(rows[:, 0]) <= limits)
    best = np.sort(rows, axis=1)
    return np.asarray(best[:, -1] - best[:, -2] <= limits)


def _as_objects(texts: np.ndarray) -> np.ndarray:
    return texts.astype(str).astype(object)


def _in_shape_of(expected: Sequence[np.ndarray], result: Any) -> list[np.ndarray]:
    """Return the arrays of a method in the estimator's shapes; skl2onnx may have stacked them."""
    # A method that returns a list of arrays has as many outputs, or one that holds them all.
    several = result
    if not isinstance(result, list) and len(expected) <= 1:
        several = [result]
    arrays = []
    for item, want in zip(several, expected, strict=False):
        array = np.asarray(item)
        if want.ndim == 1 and want.dtype.kind == "f" and array.shape[1:] == (2,):
            # skl2onnx gives the scores of both classes, scikit-learn of the second only.
            array = array[:, 1]
        rows = len(array) if array.ndim else 1
        if array.size == rows * math.prod(want.shape[1:]):
            array = array.reshape(rows, *want.shape[1:])
        if want.dtype.kind not in "biuf":
            array = _as_objects(array)
        arrays.append(array)
    return arrays


def shorten(error: BaseException) -> str:
    """Put another library's error on one short line."""
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return sanitize(text, _MAX_REASON)
