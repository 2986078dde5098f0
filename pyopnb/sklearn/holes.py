"""Estimators that skl2onnx is to take for ops, while it converts what is around them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx._parse import sklearn_parsers_map
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common import _registration
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import ModelError
from pyopnb.ops.types import TensorType
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.fitted import DOMAIN, define
from pyopnb.sklearn.samples import METHODS, Sample, nested, outputs_of

__all__ = ["Holes", "has_converter", "is_frame"]

_lock = threading.RLock()
_entered: dict[int, _Hole] = {}
"""Those of the conversion that holds the lock, by the ``id`` of their estimators."""
_HOOKS = ("onnx_parser", "onnx_shape_calculator", "onnx_converter")
_NAMES = {"predict": "label", "predict_proba": "probabilities", "decision_function": "scores", "transform": "variable"}


def has_converter(estimator: Any) -> bool:
    """Whether skl2onnx has a converter for the class of an estimator, or needs none."""
    kind = type(estimator)
    return (
        is_frame(estimator)
        or kind in sklearn_operator_name_map
        or kind in sklearn_parsers_map
        or kind.__module__ == "sklearn.calibration"
    )


def is_frame(estimator: Any) -> bool:
    """Whether an estimator only passes on what those inside it give."""
    return isinstance(estimator, (Pipeline, ColumnTransformer, FeatureUnion))


class Holes:
    """While it is entered, skl2onnx takes these estimators, which must be nobody else's, for ops.

    Parameters
    ----------
    holes : mapping
        Estimator, what it was called with, and the reason, by the estimator's ``id``.
    """

    def __init__(self, holes: Mapping[int, tuple[Any, Sample, str]]) -> None:
        inside = {id(part) for outer, *_ in holes.values() for part in nested(outer) if part is not outer}
        self._holes = [_Hole(*hole) for key, hole in holes.items() if key not in inside]
        self._added: dict[type, str] = {}

    def __enter__(self) -> Holes:
        _lock.acquire()  # what skl2onnx registers is the whole process's
        for hole in self._holes:
            kind = type(hole.estimator)
            _entered[id(hole.estimator)] = hole
            for hook in _HOOKS:
                vars(hole.estimator)[hook] = getattr(hole, hook)
            if kind not in sklearn_operator_name_map:
                alias = self._added[kind] = f"Pyopnb{kind.__name__}"
                update_registered_converter(kind, alias, _shape, _convert, options="passthrough")
        return self

    def __exit__(self, *_: object) -> None:
        for kind, alias in self._added.items():
            del sklearn_operator_name_map[kind]
            _registration._converter_pool.pop(alias, None)
            _registration._shape_calculator_pool.pop(alias, None)
        for hole in self._holes:
            del _entered[id(hole.estimator)]
            for hook in _HOOKS:
                vars(hole.estimator).pop(hook, None)
        _lock.release()


# What skl2onnx asks for by class, where a converter of its own (a search's, say) passes over the estimator's hooks.


def _shape(operator: Any) -> None:
    _entered_for(operator).shape(operator)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    _entered_for(operator).convert(scope, operator, container)


def _entered_for(operator: Any) -> _Hole:
    hole = _entered.get(id(operator.raw_operator))
    if hole is None:
        where = f"convert, {type(operator.raw_operator).__name__}"
        raise ModelError(where, expected="an estimator that predicting calls", got="another")
    return hole


class _Hole:
    """One of them."""

    def __init__(self, estimator: Any, sample: Sample, reason: str) -> None:
        self.estimator, self._sample, self._reason = estimator, sample, reason
        self._methods = [name for name in METHODS if name in sample.methods]

    def onnx_parser(self) -> Callable[..., Any]:
        def parser(scope: Any = None, inputs: Any = None) -> list[Any]:
            arrays = outputs_of(self.estimator, self._methods, self._sample.x)
            names = [_NAMES[name] for name in self._methods]
            if len(names) != len(arrays):  # a list of arrays from one method
                names = [f"{names[-1]}_{place}" for place in range(len(arrays))]
            pairs = zip(names, arrays, strict=True)
            return [scope.declare_local_variable(name, _skl_type(array, inputs)) for name, array in pairs]

        return parser

    def onnx_shape_calculator(self) -> Callable[[Any], None]:
        return self.shape

    def onnx_converter(self) -> Callable[[Any, Any, Any], None]:
        return self.convert

    def shape(self, operator: Any) -> None:
        for output, array in zip(operator.outputs, self._arrays(operator), strict=True):
            output.type = _skl_type(array, operator.inputs)

    def convert(self, scope: Any, operator: Any, container: Any) -> None:
        arrays = self._arrays(operator)
        types = [_type(array, operator.inputs) for array in arrays]
        methods = self._asked(operator)
        op_type = define(_plain(self.estimator), methods, types, Columns.of(self._sample.x), self._reason)
        container.add_node(
            op_type,
            [one.full_name for one in operator.inputs],
            [one.full_name for one in operator.outputs],
            op_domain=DOMAIN,
            op_version=1,
            name=scope.get_unique_operator_name(op_type),
        )

    def _asked(self, operator: Any) -> list[str]:
        """The methods of the outputs that whatever is around declared."""
        if len(operator.outputs) == len(self._methods) or not hasattr(self.estimator, "predict"):
            return self._methods
        others = [name for name in METHODS[1:] if name in self._methods] or [
            name for name in METHODS[1:3] if hasattr(self.estimator, name)
        ]
        return ["predict", *others][: len(operator.outputs)]

    def _arrays(self, operator: Any) -> list[np.ndarray]:
        return outputs_of(self.estimator, self._asked(operator), self._sample.x)


def _plain(estimator: Any) -> Any:
    """The estimator without the hooks: a shallow copy, as they are on the object itself."""
    plain = object.__new__(type(estimator))
    vars(plain).update({key: value for key, value in vars(estimator).items() if key not in _HOOKS})
    return plain


def _floats(inputs: Sequence[Any]) -> str:
    """The dtype of floats around: double where an input is, as skl2onnx has it."""
    return "float64" if any(isinstance(one.type, DoubleTensorType) for one in inputs) else "float32"


def _type(array: np.ndarray, inputs: Sequence[Any]) -> TensorType:
    shape = (None, *array.shape[1:])
    if array.dtype.kind == "f":
        return TensorType(dtype(_floats(inputs)), shape)
    if array.dtype.kind in "iu":
        return TensorType(dtype("int64"), shape)
    return TensorType(dtype("bool" if array.dtype.kind == "b" else "string"), shape)


def _skl_type(array: np.ndarray, inputs: Sequence[Any]) -> Any:
    kinds = {"float64": DoubleTensorType, "float32": FloatTensorType, "int64": Int64TensorType, "bool": BooleanTensorType}
    kind = _type(array, inputs)
    return kinds.get(str(kind.dtype), StringTensorType)([None, *array.shape[1:]])
