"""Fitted estimators as models, by skl2onnx as far as that agrees with scikit-learn, and by ops for the rest."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import skl2onnx
from onnx import ModelProto
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import check_is_fitted

from pyopnb.models.build import model as build_model
from pyopnb.models.build import node as build_node
from pyopnb.models.ort_capabilities import newest_opset
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import DefinitionError, ModelError, hide_internal_frames, one_line, sanitize
from pyopnb.ops.registry import registry
from pyopnb.ops.types import TensorType
from pyopnb.runtime.session import Session
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.fitted import DOMAIN, define
from pyopnb.sklearn.holes import Holes, has_converter, is_frame
from pyopnb.sklearn.rows import first_rows, is_from_libraries, refused
from pyopnb.sklearn.samples import Sample, nested, outputs_of, plan, recorded

__all__ = ["convert", "feeds"]

_ROWS = 256  # of X, on which a conversion is compared with scikit-learn
_TOLERANCE = 1e-5
_SAID = 120  # characters of what others say of a failure


@hide_internal_frames
def convert(pipeline: Any, X: Any, *, options: Mapping[Any, Any] | None = None) -> ModelProto:  # noqa: N803  # sklearn's name
    """Make a model of a fitted estimator.

    skl2onnx converts what it has converters for; a fitted estimator for which it has none becomes an op that calls it, wherever
    it is inside the pipeline. Each conversion is run on ``X`` and compared with scikit-learn. Where skl2onnx fails, or its
    labels are others or its numbers not the same to 1e-5, the estimator that this comes from is made an op too, in the
    worst case the whole pipeline. `filled` tells which.

    Parameters
    ----------
    pipeline : estimator
        Anything fitted with ``transform``, ``predict`` or ``predict_proba``.
    X : array, table of pandas, sparse matrix or list of str
        What it takes: dtypes and columns become the model's inputs, and the first 256 rows are tried. An input ``X``, or one a
        column of a table.
    options : dict, optional
        skl2onnx's. ``zipmap`` is False if not given: probabilities are an array.

    Returns
    -------
    ModelProto
        For a `pyopnb.Session`. A fitted estimator inside it is in the file only if `pyopnb.save` writes it.

    Raises
    ------
    DefinitionError
        It is no estimator, is not fitted, or has none of the methods.
    ModelError
        ``X`` cannot be fed to a model, or is not what the estimator takes: other columns than it was fitted with, NaN. Or
        skl2onnx fails with these options.
    Exception
        What your own code inside the pipeline raises for ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import NMF
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import pyopnb
    >>> X = np.float32([[1, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> trained = make_pipeline(MinMaxScaler(), NMF(2, random_state=0, max_iter=5000)).fit(X)
    >>> model = convert(trained, X)
    >>> [node.op_type.partition("_")[0] for node in model.graph.node]
    ['Cast', 'Mul', 'Add', 'NMF']
    >>> np.allclose(pyopnb.run(model, X=X)[0], trained.transform(X), atol=1e-5)
    True
    """
    __tracebackhide__ = True
    _check(pipeline)
    copies: dict[int, Any] = {}
    own = copy.deepcopy(pipeline, copies)
    given = {
        id(copies[key]) if isinstance(key, int) and key in copies else key: value for key, value in (options or {}).items()
    }
    while isinstance(own, BaseSearchCV):
        own = own.best_estimator_
    rows = first_rows(X, _ROWS)
    inputs = _initial_types(rows)
    methods = plan(own)
    try:
        with recorded(own) as samples:
            expected = [outputs_of(own, [method], rows) for method in methods]
    except ValueError as error:
        if is_from_libraries(error):
            raise refused(pipeline, rows, error) from error
        raise
    samples[id(own)] = Sample(rows, list(methods))
    reasons = {id(one): "skl2onnx has no converter" for one in nested(own) if id(one) in samples and not has_converter(one)}
    attempt = _Attempt(own, rows, inputs, expected, samples, given)
    failure = ""
    if id(own) not in reasons:
        made, failure = attempt.convert(reasons)
        if made is None and given:
            raise ModelError("convert, options", expected="options with which skl2onnx converts it", got=failure)
        if made is None:
            made, failure = attempt.without_failing_parts(reasons, failure)
        if made is not None:
            return made
    return attempt.whole(reasons.get(id(own)) or failure)


@hide_internal_frames
def feeds(X: Any) -> dict[str, np.ndarray]:  # noqa: N803  # sklearn's name
    """What a model that `convert` made takes in the place of ``X``.

    Parameters
    ----------
    X : array, table of pandas, sparse matrix or list of str

    Returns
    -------
    dict of str to ndarray
        ``X``, dense; for a table, an array of one column for each of its columns.

    Examples
    --------
    >>> {name: array.tolist() for name, array in feeds([[1, 2]]).items()}
    {'X': [[1, 2]]}
    """
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return {str(name): _fed(X[name].to_numpy(), f"X[{str(name)!r}]")[:, None] for name in X.columns}
    return {"X": _fed(X.toarray() if hasattr(X, "toarray") else np.asarray(X), "X")}


def _fed(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array if array.dtype == np.float32 else array.astype(np.float64)
    if array.dtype.kind == "b":
        return array
    texts = array.astype(object)
    if all(isinstance(value, str) for value in texts.flat):
        return texts
    other = next(value for value in texts.flat if not isinstance(value, str))
    got = f"{type(other).__name__} {sanitize(repr(other), 40)} among them"
    where = sanitize(where, 80)
    next_ = "a table with a column of each, or X.astype(str)"
    if other is None or other != other or type(other).__name__ == "NAType":
        next_ = f'{where}.fillna("") before fit and convert: a text of ONNX cannot be missing' if where != "X" else next_
    raise ModelError(f"convert, {where}", expected="numbers or texts", got=got, next=next_)


def _initial_types(x: Any) -> list[tuple[str, Any]]:
    kinds = {"f4": FloatTensorType, "f8": DoubleTensorType, "i8": Int64TensorType, "b1": BooleanTensorType}
    types = []
    for name, array in feeds(x).items():
        kind = kinds.get(array.dtype.str[1:], StringTensorType)
        types.append((name, kind([None, *array.shape[1:]])))
    return types


def _check(estimator: Any) -> None:
    where = f"convert, {type(estimator).__name__}"
    if isinstance(estimator, type):
        next_ = f"{estimator.__name__}().fit(X)"
        raise DefinitionError("convert", expected="a fitted estimator", got=f"the class {estimator.__name__}", next=next_)
    if not isinstance(estimator, BaseEstimator):
        next_ = "convert(make_pipeline(…).fit(X), X)"
        raise DefinitionError("convert", expected="an estimator of scikit-learn", got=type(estimator).__name__, next=next_)
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        got, next_ = "one that was not fitted", f"{type(estimator).__name__.lower()}.fit(X) first"
        raise DefinitionError(where, expected="a fitted estimator", got=got, next=next_) from None
    except TypeError:  # no fit: nothing to check
        pass
    if not plan(estimator):
        has = "only fit_predict, which new rows cannot have" if hasattr(estimator, "fit_predict") else "none of them"
        has = "only fit_transform, which new rows cannot have" if hasattr(estimator, "fit_transform") else has
        raise DefinitionError(where, expected="an estimator with transform, predict or predict_proba", got=has)


class _Attempt:
    """What stays the same from one attempt to the next."""

    def __init__(
        self,
        estimator: Any,
        rows: Any,
        inputs: Sequence[tuple[str, Any]],
        expected: Sequence[Sequence[np.ndarray]],
        samples: Mapping[int, Sample],
        options: Mapping[Any, Any] | None,
    ) -> None:
        self._estimator, self._rows, self._inputs, self._expected = estimator, rows, inputs, expected
        self._samples, self._options = samples, options

    def convert(self, reasons: Mapping[int, str]) -> tuple[ModelProto | None, str]:
        """A model that agrees with scikit-learn, or None and why there is none."""
        parts = {id(one): one for one in nested(self._estimator)}
        holes = Holes({key: (parts[key], self._samples[key], reason) for key, reason in reasons.items()})
        try:
            with holes, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = _skl2onnx(self._estimator, self._inputs, self._options)
        except Exception as error:  # its converters fail in whatever way
            return None, f"skl2onnx: {_said(error)}"
        return self._checked(made)

    def _checked(self, made: ModelProto) -> tuple[ModelProto | None, str]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = Session(made).run(None, feeds(self._rows))
        except Exception as error:  # what ONNX Runtime lacks, or the op raises
            return None, f"ONNX Runtime: {_said(error)}"
        for result, arrays in zip(given, self._expected, strict=False):
            if why := _differences(result, arrays):
                return None, f"skl2onnx: {why}"
        return made, ""

    def without_failing_parts(self, known: Mapping[int, str], refused: str) -> tuple[ModelProto | None, str]:
        """A model in which what fails inside is an op: at first only what fails for no other's sake, then whatever fails."""
        failing = self._failing_parts(known)
        around = {id(outer): {id(part) for part in nested(outer)} for outer in nested(self._estimator) if id(outer) in failing}
        inner = {key: why for key, why in failing.items() if not (around[key] & failing.keys()) - {key}}
        made = None
        for more in [inner, failing] if len(inner) < len(failing) else [failing]:
            if made is None and more:
                made, refused = self.convert({**known, **more})
        return made, refused

    def _failing_parts(self, known: Mapping[int, str]) -> dict[int, str]:
        """The estimators inside that skl2onnx alone does not convert rightly."""
        failing = {}
        for one in nested(self._estimator):
            sample = self._samples.get(id(one))
            is_part = isinstance(one, BaseEstimator) and not is_frame(one) and one is not self._estimator
            if sample is None or id(one) in known or not is_part:
                continue
            inside = {id(part) for part in nested(one)}
            try:
                rows = sample.x
                expected = [outputs_of(one, [method], rows) for method in plan(one)]
                part = _Attempt(one, rows, _initial_types(rows), expected, self._samples, None)
            except Exception:  # noqa: S112  # what cannot be fed alone is judged with the rest
                continue
            _, why = part.convert({key: reason for key, reason in known.items() if key in inside})
            if why:
                failing[id(one)] = why
        return failing

    def whole(self, reason: str) -> ModelProto:
        """A model of one node."""
        methods = plan(self._estimator)
        arrays = [array for several in self._expected for array in several]
        types = [TensorType(_dtype(array), (None, *array.shape[1:])) for array in arrays]
        op_type = define(self._estimator, methods, types, Columns.of(self._rows), reason)
        names = _output_names(self._estimator, methods, self._expected)
        inputs = {
            name: str(TensorType(dtype(array.dtype), ("N", *array.shape[1:]))) for name, array in feeds(self._rows).items()
        }
        outputs = {
            name: str(TensorType(kind.dtype, ("N", *(kind.shape or ())[1:]))) for name, kind in zip(names, types, strict=True)
        }
        return build_model([build_node(f"{DOMAIN}::{op_type}", list(inputs), names)], inputs, outputs)


def _said(error: Exception) -> str:
    text = one_line(f"{type(error).__name__}: {error}")
    return text if len(text) <= _SAID else f"{text[:_SAID]}…"


def _dtype(array: np.ndarray) -> Any:
    return dtype("string") if array.dtype.kind in "UTSO" else dtype(array.dtype)


def _output_names(estimator: Any, methods: Sequence[str], expected: Sequence[Sequence[np.ndarray]]) -> list[str]:
    known = {"predict": "label", "predict_proba": "probabilities", "decision_function": "scores", "transform": "scores"}
    names = []
    for method, arrays in zip(methods, expected, strict=True):
        name = "variable" if len(methods) == 1 and not is_classifier(estimator) else known[method]
        names += [name] if len(arrays) == 1 else [f"{name}_{place}" for place in range(len(arrays))]
    return names


def _skl2onnx(estimator: Any, inputs: Sequence[tuple[str, Any]], options: Mapping[Any, Any] | None) -> ModelProto:
    own = {op.domain: op.current.opset for op in registry if op.domain}  # of converters that somebody has registered
    opsets = {**own, "": min(newest_opset(), skl2onnx.__max_supported_opset__), "ai.onnx.ml": 3, DOMAIN: 1}

    def made(given: Mapping[Any, Any]) -> ModelProto:
        model: ModelProto = skl2onnx.convert_sklearn(
            estimator, "pyopnb", list(inputs), target_opset=opsets, options=dict(given) or None
        )
        return model

    given = dict(options or {})
    if not is_classifier(estimator) or any("zipmap" in str(value) for value in (*given, *given.values())):
        return made(given)
    try:
        return made({**given, "zipmap": False})
    except NameError:  # a classifier without probabilities has no such option
        return made(given)


def _differences(given: Any, arrays: Sequence[np.ndarray]) -> str:
    """What is wrong with an output; an empty text for nothing."""
    if isinstance(given, list) and given and isinstance(given[0], dict):
        return ""  # of zipmap, which the caller asked for
    if isinstance(given, list):
        pairs = list(zip(given, arrays, strict=False))
        return next(
            filter(None, (_difference(one, want) for one, want in pairs)), "" if len(given) == len(arrays) else "gives too few"
        )
    if len({array.shape for array in arrays}) > 1:
        return "gives one array for several"
    return _difference(given, arrays[0] if len(arrays) == 1 else np.asarray(arrays))


def _difference(given: Any, want: np.ndarray) -> str:
    """What is wrong with a result; an empty text for nothing."""
    given = np.asarray(given)
    if want.ndim == 1 and given.ndim == 2 and given.shape == (len(want), 2) and want.dtype.kind == "f":
        given = given[:, 1]  # scores of two classes
    if given.size != want.size or given.shape[:1] != want.shape[:1]:
        return f"has the shape {list(given.shape)} for {list(want.shape)}"
    given = given.reshape(want.shape)
    if want.dtype.kind not in "f":
        wrong = int((given != want).sum()) if want.dtype.kind in "biu" else int((given.astype(str) != want.astype(str)).sum())
        return f"gives {wrong} other labels of {want.size}" if wrong else ""
    if np.allclose(given.astype(np.float64), want, _TOLERANCE, _TOLERANCE, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(given.astype(np.float64) - want)):.1e}"
