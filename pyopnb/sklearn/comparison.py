"""Compare a converted model with its estimator, on the example and on rows that are not kind."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import one_run
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.inputs import feeds
from pyopnb.sklearn.samples import outputs_of
from pyopnb.testing import KernelError, row_trials, verify

__all__ = ["Comparison", "shorten"]

# Characters of another library's error.
_MAX_REASON = 120


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
                run = one_run.lone_runner(model)
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
        verification = verify(
            reference.original,
            converted,
            row_trials(tuple(self._feeds.values()), wraps=wraps),
            exact=reference.exact,
            kernel_error=KernelError.SCORES,
        )
        if verification.disagreement is not None:
            return f"skl2onnx: {verification.disagreement}"
        for _, failure in verification.errors:
            return f"ONNX Runtime: {shorten(failure)}"
        return ""


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
