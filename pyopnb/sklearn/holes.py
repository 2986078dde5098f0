"""Have skl2onnx treat some estimators as ops, while it converts the estimators around them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from skl2onnx import get_model_alias, update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from pyopnb.engine import TensorType, dtype
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.fitted import DOMAIN, define
from pyopnb.sklearn.inputs import SKL2ONNX_TYPES
from pyopnb.sklearn.samples import METHODS, Sample, outputs_of

__all__ = ["has_converter", "is_frame", "with_copies", "with_holes"]

_ALIAS = "PyopnbEstimator"
_NAMES = {
    "predict": "label",
    "predict_proba": "probabilities",
    "decision_function": "scores",
    "transform": "variable",
}


def has_converter(estimator: Any) -> bool:
    """Tell whether skl2onnx has a converter for the class of an estimator, or needs none."""
    # The calibrated classifiers inside a CalibratedClassifierCV are converted with it.
    if is_frame(estimator) or type(estimator).__module__ == "sklearn.calibration":
        return True
    try:
        get_model_alias(type(estimator))
    except RuntimeError:
        return False
    return True


def is_frame(estimator: Any) -> bool:
    """Tell whether an estimator only passes on the results of the estimators inside it."""
    return isinstance(estimator, (Pipeline, ColumnTransformer, FeatureUnion))


def with_holes(
    estimator: Any,
    holes: Mapping[int, tuple[Any, Sample, str]],
    options: Mapping[Any, Any],
) -> tuple[Any, dict[Any, Any]]:
    """Copy an estimator for skl2onnx, with some of the estimators inside it as ops.

    Parameters
    ----------
    estimator : estimator
    holes : mapping
        Estimator, the rows of its call, and the reason, by the estimator's ``id``.
    options : mapping
        The skl2onnx options; options by ``id`` are addressed to the copies.
    """
    if not holes:
        return estimator, dict(options)
    # deepcopy keeps the objects in its memo: these are in the copy where the estimators were.
    copies: dict[int, Any] = {key: _Hole(*parts) for key, parts in holes.items()}
    copied = copy.deepcopy(estimator, copies)
    return copied, with_copies(options, copies)


def with_copies(options: Mapping[Any, Any], copies: Mapping[int, Any]) -> dict[Any, Any]:
    """Address options by ``id`` to the copies of their estimators."""
    addressed = {}
    for key, value in options.items():
        is_copied = isinstance(key, int) and key in copies
        addressed[id(copies[key]) if is_copied else key] = value
    return addressed


class _Hole:
    """An estimator that becomes an op, which looks to skl2onnx like the estimator."""

    def __init__(self, estimator: Any, sample: Sample, reason: str) -> None:
        self._estimator, self._sample, self._reason = estimator, sample, reason
        self._methods = [name for name in METHODS if name in sample.methods]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)

    @property  # type: ignore[misc]  # isinstance asks for it where the type itself is another
    def __class__(self) -> type:
        # skl2onnx decides by the class of the estimator whether it merges columns.
        return type(self._estimator)

    def declare(self, scope: Any, inputs: Any) -> list[Any]:
        operator = scope.declare_local_operator(_ALIAS, self)
        operator.inputs = inputs
        arrays = outputs_of(self._estimator, self._methods, self._sample.x)
        names = [_NAMES[name] for name in self._methods]
        # One method can return a list of arrays.
        if len(names) != len(arrays):
            names = [f"{names[-1]}_{index}" for index in range(len(arrays))]
        for name, array in zip(names, arrays, strict=True):
            variable = scope.declare_local_variable(name, _skl_type(array, inputs))
            operator.outputs.append(variable)
        return list(operator.outputs)

    def shape(self, operator: Any) -> None:
        for output, array in zip(operator.outputs, self._arrays(operator), strict=True):
            output.type = _skl_type(array, operator.inputs)

    def convert(self, scope: Any, operator: Any, container: Any) -> None:
        types = [_type(array, operator.inputs) for array in self._arrays(operator)]
        # The converter around it may use fewer outputs than were seen.
        methods = self._asked(operator)
        columns = Columns.of(self._sample.x)
        op_type = define(self._estimator, methods, types, columns, self._reason)
        container.add_node(
            op_type,
            [variable.full_name for variable in operator.inputs],
            [variable.full_name for variable in operator.outputs],
            op_domain=DOMAIN,
            op_version=1,
            name=scope.get_unique_operator_name(op_type),
        )

    def _asked(self, operator: Any) -> list[str]:
        """List the methods of the outputs that the converter around this estimator declared."""
        outputs = len(operator.outputs)
        if outputs == len(self._methods) or not hasattr(self._estimator, "predict"):
            return self._methods
        # It declared labels and scores, although predicting called one of the methods only.
        scores = [name for name in METHODS[1:] if name in self._methods]
        if not scores:
            scores = [name for name in METHODS[1:3] if hasattr(self._estimator, name)]
        return ["predict", *scores][:outputs]

    def _arrays(self, operator: Any) -> list[np.ndarray]:
        return outputs_of(self._estimator, self._asked(operator), self._sample.x)


def _parse(
    scope: Any, hole: _Hole, inputs: Sequence[Any], custom_parsers: object = None
) -> list[Any]:
    return hole.declare(scope, inputs)


def _shape(operator: Any) -> None:
    operator.raw_operator.shape(operator)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    operator.raw_operator.convert(scope, operator, container)


update_registered_converter(_Hole, _ALIAS, _shape, _convert, parser=_parse, options="passthrough")


def _type(array: np.ndarray, inputs: Sequence[Any]) -> TensorType:
    """Return an output's type in skl2onnx: double if an input is, and int64 for all integers."""
    name = "string"
    if array.dtype.kind == "f":
        name = "float32"
        if any(isinstance(variable.type, DoubleTensorType) for variable in inputs):
            name = "float64"
    elif array.dtype.kind in "iu":
        name = "int64"
    elif array.dtype.kind == "b":
        name = "bool"
    return TensorType(dtype(name), (None, *array.shape[1:]))


def _skl_type(array: np.ndarray, inputs: Sequence[Any]) -> Any:
    name = str(_type(array, inputs).dtype)
    return SKL2ONNX_TYPES[name]([None, *array.shape[1:]])
