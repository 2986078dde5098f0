"""Have skl2onnx treat some estimators as ops, while it converts those around them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx._parse import sklearn_parsers_map
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common import _registration
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.types import TensorType
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.fitted import DOMAIN, define
from pyopnb.sklearn.inputs import SKL2ONNX_TYPES
from pyopnb.sklearn.samples import METHODS, Sample, nested, outputs_of

__all__ = ["estimator_holes", "has_converter", "is_frame"]

# The skl2onnx registrations hold for the whole process.
_lock = threading.RLock()
_NAMES = {
    "predict": "label",
    "predict_proba": "probabilities",
    "decision_function": "scores",
    "transform": "variable",
}


def has_converter(estimator: Any) -> bool:
    """Tell whether skl2onnx has a converter for the class of an estimator, or needs none."""
    cls = type(estimator)
    is_registered = cls in sklearn_operator_name_map or cls in sklearn_parsers_map
    # The calibrated classifiers inside a CalibratedClassifierCV are converted with it.
    return is_frame(estimator) or is_registered or cls.__module__ == "sklearn.calibration"


def is_frame(estimator: Any) -> bool:
    """Tell whether an estimator only passes on what those inside it give."""
    return isinstance(estimator, (Pipeline, ColumnTransformer, FeatureUnion))


@contextmanager
def estimator_holes(holes: Mapping[int, tuple[Any, Sample, str]]) -> Iterator[None]:
    """Have skl2onnx treat these estimators, which nobody else may use meanwhile, as ops.

    Parameters
    ----------
    holes : mapping
        Estimator, what it was called with, and the reason, by the estimator's ``id``.
    """
    # An op calls the whole estimator: those inside it are no ops of their own.
    inner_ids: set[int] = set()
    for outer, *_ in holes.values():
        inner_ids |= {id(part) for part in nested(outer)} - {id(outer)}
    with _lock, ExitStack() as stack:
        for key, parts in holes.items():
            if key not in inner_ids:
                hole = _Hole(*parts)
                hole.open()
                stack.callback(hole.close)
        yield


class _Hole:
    """An estimator that becomes an op.

    For a while it has a class of its own, for which a converter is registered with skl2onnx.
    """

    def __init__(self, estimator: Any, sample: Sample, reason: str) -> None:
        self._estimator, self._sample, self._reason = estimator, sample, reason
        self._methods = [name for name in METHODS if name in sample.methods]
        self._class = type(estimator)
        self._own_class = type(self._class.__name__, (self._class,), {})
        self._alias = f"Pyopnb{self._class.__name__}{id(estimator)}"

    def open(self) -> None:
        self._estimator.__class__ = self._own_class
        update_registered_converter(
            self._own_class,
            self._alias,
            self._shape,
            self._convert,
            parser=self._parse,
            options="passthrough",
        )

    def close(self) -> None:
        self._estimator.__class__ = self._class
        del sklearn_operator_name_map[self._own_class], sklearn_parsers_map[self._own_class]
        del _registration._converter_pool[self._alias]
        del _registration._shape_calculator_pool[self._alias]

    def _parse(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
        operator = scope.declare_local_operator(self._alias, model)
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

    def _shape(self, operator: Any) -> None:
        for output, array in zip(operator.outputs, self._arrays(operator), strict=True):
            output.type = _skl_type(array, operator.inputs)

    def _convert(self, scope: Any, operator: Any, container: Any) -> None:
        types = [_type(array, operator.inputs) for array in self._arrays(operator)]
        # The converter around it may use fewer outputs than were seen.
        methods = self._asked(operator)
        columns = Columns.of(self._sample.x)
        # The op outlives the conversion, and its class.
        self._estimator.__class__ = self._class
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
