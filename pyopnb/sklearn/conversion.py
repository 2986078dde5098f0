"""Convert fitted estimators to models, by skl2onnx where it is correct, and by ops elsewhere."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto
from skl2onnx import update_registered_converter
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pyopnb.common import messages
from pyopnb.engine import check_arguments
from pyopnb.errors import DefinitionError, ModelError
from pyopnb.sklearn.attempt import Attempt
from pyopnb.sklearn.comparison import Comparison
from pyopnb.sklearn.fitted import RunsInPython, filled
from pyopnb.sklearn.holes import has_converter, with_copies
from pyopnb.sklearn.inputs import feeds, first_rows, has_mixed_numbers
from pyopnb.sklearn.missing_values import limit_thresholds
from pyopnb.sklearn.samples import Sample, nested, outputs_of, plan, recorded

__all__ = ["convert", "update_registered_converter"]

# Rows of X, on which a conversion is compared with scikit-learn.
_ROWS = 256


@functools.partial(check_arguments, but=("options", "verify"))
def convert(
    pipeline: Any,
    X: Any,  # noqa: N803  # sklearn's name
    *,
    options: Mapping[Any, Any] | None = None,
    verify: bool = True,
) -> ModelProto:
    """Convert a fitted estimator to a model.

    skl2onnx converts every estimator that it has a converter for. Any other fitted estimator in the
    pipeline becomes an op that calls it. Each conversion is compared with scikit-learn: on ``X``,
    on one row and on more rows, on unusual numbers, on texts that ``X`` does not have, and on NaN
    and infinities if the estimator accepts them. If skl2onnx fails, or gives other labels or
    numbers, the estimator at fault also becomes an op, in the worst case the whole pipeline.

    Parameters
    ----------
    pipeline : estimator
        Any fitted estimator with ``transform``, ``predict`` or ``predict_proba``.
    X : array, table of pandas, sparse matrix or list of str
        Example rows; the first 256 are used for the comparison. The model gets one input
        ``X`` with their dtype, or one input for each column of a table.
    options : dict, optional
        Options of skl2onnx. ``zipmap`` is False by default, so that probabilities are an array.
    verify : bool
        If False, the model of skl2onnx is not compared, and its metadata says so:
        ``pyopnb.verified`` is ``no``.

    Returns
    -------
    ModelProto
        A model for a `pyopnb.Session`. Only `pyopnb.save` writes the fitted estimators of its ops
        into the file.

    Raises
    ------
    DefinitionError
        ``pipeline`` is not a fitted estimator, or has none of these methods.
    ModelError
        ``X`` cannot be fed to a model, an output mixes texts and numbers, or skl2onnx fails with
        these options.
    Exception
        The exception that the estimator raises for ``X``.

    Warns
    -----
    RunsInPython
        Some estimators became ops; `filled` lists them.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sklearn.decomposition import NMF
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import pyopnb
    >>> X = np.float32([[1, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> trained = make_pipeline(MinMaxScaler(), NMF(2, random_state=0, max_iter=5000)).fit(X)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pyopnb.sklearn.RunsInPython)
    ...     model = convert(trained, X)
    >>> [node.op_type.partition("_")[0] for node in model.graph.node]
    ['Cast', 'Mul', 'Add', 'NMF']
    >>> np.allclose(pyopnb.run(model, X=X)[0], trained.transform(X), atol=1e-5)
    True
    """
    __tracebackhide__ = True
    rows = first_rows(X, _ROWS)
    _check_estimator(pipeline, rows)
    # The recording and the mends change the estimator's attributes, so they get a copy.
    copies: dict[int, Any] = {}
    estimator = copy.deepcopy(pipeline, copies)
    own_options = with_copies(options or {}, copies)
    # A search predicts by the best of its estimators, and skl2onnx has no converter for searches.
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    # Before any part of it is converted.
    limit_thresholds(estimator)
    model = _convert_copy(estimator, pipeline, rows, own_options, verify)
    if not verify:
        model.metadata_props.add(key="pyopnb.verified", value="no")
    parts = filled(model)
    if parts:
        warnings.warn(RunsInPython(parts), stacklevel=messages.level_of_user())
    return model


def _convert_copy(
    estimator: Any, pipeline: Any, rows: Any, options: Mapping[Any, Any], verify: bool
) -> ModelProto:
    arrays = feeds(rows)
    methods = plan(estimator)
    # Errors of scikit-learn on rows that it does not take arrive unchanged.
    with recorded(estimator) as samples:
        comparison = Comparison(estimator, methods, rows)
    _check_outputs(pipeline, methods, comparison.expected)
    samples[id(estimator)] = Sample(rows, list(methods))
    reasons = {}
    for part in nested(estimator):
        if id(part) in samples and not has_converter(part):
            reasons[id(part)] = "skl2onnx has no converter"
    attempt = Attempt(estimator, rows, comparison, samples, options, verify=verify)
    # There is nothing to convert around it.
    if id(estimator) in reasons:
        return attempt.whole(reasons[id(estimator)])
    model, failure = attempt.convert(reasons)
    # skl2onnx makes a model that does not load of ints beside doubles; as doubles it may do.
    if model is None and has_mixed_numbers(arrays):
        attempt = Attempt(
            estimator, rows, comparison, samples, options, as_doubles=True, verify=verify
        )
        model, failure = attempt.convert(reasons)
    # Options are skl2onnx's, and an op would ignore them.
    if model is None and options:
        expectation = "options with which skl2onnx converts it"
        advice = "leave options out: what skl2onnx lacks becomes ops"
        raise ModelError("convert, options", expected=expectation, got=failure, next=advice)
    if model is None:
        model, failure = attempt.without_failing_parts(reasons)
    return attempt.whole(failure) if model is None else model


def _check_estimator(estimator: Any, rows: Any) -> None:
    name = type(estimator).__name__
    if not isinstance(estimator, BaseEstimator) or not _is_fitted(estimator, rows):
        raise DefinitionError(
            "convert",
            expected="a fitted estimator of scikit-learn",
            got=f"{name}, which is not one or was not fitted",
            next="convert(estimator.fit(X), X)",
        )
    if not plan(estimator):
        raise DefinitionError(
            f"convert, {name}",
            expected="an estimator with transform, predict or predict_proba",
            got="none of them, so it cannot handle new rows",
            next="another estimator: convert(PCA(2).fit(X), X)",
        )


def _is_fitted(estimator: Any, rows: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except TypeError:
        # Without a method fit, there is nothing to check.
        return True
    except NotFittedError:
        # A transformer that keeps nothing of fit looks as it did before. It still works.
        try:
            outputs = outputs_of(copy.deepcopy(estimator), plan(estimator), rows)
        except Exception:
            # A method of an unfitted estimator may stumble over anything.
            return False
        return bool(outputs)
    return True


def _check_outputs(
    estimator: Any, methods: Sequence[str], expected: Sequence[Sequence[np.ndarray]]
) -> None:
    for method, arrays in zip(methods, expected, strict=True):
        for array in arrays:
            if array.dtype != object:
                continue
            if not all(isinstance(value, str) for value in array.flat):
                raise ModelError(
                    f"convert, {type(estimator).__name__}.{method}",
                    expected=(
                        "an array of numbers or one of texts, because a tensor has a single dtype"
                    ),
                    got="an array of both",
                    next="encode the texts in the pipeline, or convert a transformer for each",
                )
