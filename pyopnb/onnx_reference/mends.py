"""Where onnx's reference implementation does not do what the operator's definition says, and what does.

`Evaluation` asks here, so a mend holds for `pyopnb.reference`, for stand-ins, skeletons and traces on the reference alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto

from pyopnb.onnx_reference.svm import svm_classifier_class

__all__ = ["as_defined", "mend_of", "mended_classes"]

_Mend = Callable[..., tuple[Any, ...]]


def as_defined(domain: str, op_type: str, opset: int, attrs: Mapping[str, Any], outputs: int) -> tuple[int, Mapping[str, Any]]:
    """The version and attrs with which onnx's classes do what an operator's definition says.

    From version 7 to 13, BatchNormalization trains if the node has more than one output, but onnx's classes for these versions
    always train. Version 14 has an attr for that, and does not train by default.
    """
    spatial = attrs.get("spatial", 1)
    flat = not (spatial.i if isinstance(spatial, AttributeProto) else spatial)
    if (domain, op_type) != ("", "BatchNormalization") or not 7 <= opset < 14 or outputs > 1 or flat:
        return opset, attrs
    return 14, {name: value for name, value in attrs.items() if name == "epsilon"}


def mend_of(domain: str, op_type: str, opset: int, attrs: Mapping[str, AttributeProto], outputs: int) -> _Mend | None:
    """What runs in the place of onnx's class; None where that is right."""
    if domain:
        return None
    if op_type == "GlobalMaxPool":
        return _global_max_pool
    if op_type == "Optional":
        return _optional
    if op_type == "GatherElements":
        axis = attrs["axis"].i if "axis" in attrs else 0
        return lambda data, indices: _gather_elements(data, indices, axis)
    if op_type == "Dropout" and 7 <= opset < 10 and outputs > 1:
        return _dropout_with_typed_mask
    return None


def mended_classes(domain: str, op_type: str) -> list[type]:
    """Classes for ``new_ops`` of onnx's evaluator, which are right in more than onnx's own."""
    return [svm_classifier_class()] if (domain, op_type) == ("ai.onnx.ml", "SVMClassifier") else []


def _global_max_pool(x: np.ndarray) -> tuple[np.ndarray]:
    """The class of onnx takes the maximum over two axes, whatever the rank."""
    return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


def _optional(value: Any = None) -> tuple[Any]:
    """The class of onnx puts the value into a list, which OptionalGetElement gives as it is."""
    return (value,)


def _gather_elements(data: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray]:
    """The class of onnx takes 64 elements at most, and wants equal lengths along the other axes."""
    axis %= data.ndim
    lengths = [slice(None if place == axis else length) for place, length in enumerate(indices.shape)]
    return (np.take_along_axis(data[tuple(lengths)], indices, axis),)


def _dropout_with_typed_mask(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Before version 10 the mask has the dtype of the input; onnx's is bool. Nothing is dropped outside of training."""
    return x, np.ones_like(x)
