"""Operators of which onnx's reference implementation gives wrong results, corrected or refused.

Each was tried with onnx 1.23.2, the newest, so no version ends them yet; `docs/upstream.md` has the
reports. `Evaluation` asks here, so a correction holds for `pyopnb.reference`, for stand-ins,
skeletons and traces on the reference alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, helper

from pyopnb.errors import ModelError

__all__ = ["as_defined", "correction_of", "refuse_wrong"]

_Correction = Callable[..., tuple[Any, ...]]


def as_defined(
    domain: str, op_type: str, opset: int, attrs: Mapping[str, Any], outputs: int
) -> tuple[int, Mapping[str, Any]]:
    """Return the version and attrs with which onnx's classes do what an operator's definition says.

    From version 7 to 13, BatchNormalization trains only if the node has more than one output,
    but onnx's classes for these versions always train. Version 14 has an attr for that, and does
    not train by default.
    """
    if (domain, op_type) != ("", "BatchNormalization") or not 7 <= opset < 14 or outputs > 1:
        return opset, attrs
    spatial = attrs.get("spatial", 1)
    if isinstance(spatial, AttributeProto):
        spatial = spatial.i
    if not spatial:
        return opset, attrs
    return 14, {name: value for name, value in attrs.items() if name == "epsilon"}


def refuse_wrong(
    domain: str,
    op_type: str,
    opset: int,
    attrs: Mapping[str, AttributeProto],
    outputs: int,
    where: str,
) -> None:
    """Refuse an operator whose wrong results are not worth a correction.

    Raises
    ------
    ModelError
    """
    if (
        (domain, op_type) == ("ai.onnx.ml", "SVMClassifier")
        and "prob_a" in attrs
        and len(attrs["prob_a"].floats) > 1
    ):
        # onnx multiplies rows where the method of Wu, Lin and Weng (2004) multiplies elements.
        expected = "an SVMClassifier of two classes, or without probabilities"
        raise ModelError(
            where,
            expected=expected,
            got="probabilities of three classes or more",
            next="run it in ONNX Runtime",
        )
    if (domain, op_type) == ("", "Dropout") and opset < 10 and outputs > 1:
        # Before version 10 the mask has the dtype of the input; onnx's is bool.
        raise ModelError(
            where,
            expected="a Dropout without its mask before opset 10",
            got="a second output",
            next="opset=13",
        )


def correction_of(
    domain: str, op_type: str, attrs: Mapping[str, AttributeProto]
) -> _Correction | None:
    """Return the replacement of onnx's class; None if that class is correct."""
    if domain:
        return None
    if op_type == "GlobalMaxPool":
        return _global_max_pool
    if op_type == "Optional":
        return _optional
    if op_type == "LRN":
        values = {name: helper.get_attribute_value(attr) for name, attr in attrs.items()}
        return lambda x: _local_response_normalization(x, **values)
    if op_type == "GatherElements":
        axis = 0
        if "axis" in attrs:
            axis = attrs["axis"].i
        return lambda data, indices: _gather_elements(data, indices, axis)
    return None


def _global_max_pool(x: np.ndarray) -> tuple[np.ndarray]:
    """Take the maximum over all axes but two; onnx takes it over two axes, whatever the rank."""
    axes = tuple(range(2, x.ndim))
    return (x.max(axis=axes, keepdims=True),)


def _local_response_normalization(
    x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> tuple[np.ndarray]:
    """Divide by sums over neighbouring channels.

    onnx takes the size of the batch for the number of channels.
    """
    squares = np.square(x)
    sums = np.zeros_like(x)
    before = (size - 1) // 2
    for channel in range(x.shape[1]):
        neighbours = slice(max(0, channel - before), channel - before + size)
        sums[:, channel] = squares[:, neighbours].sum(axis=1)
    return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


def _optional(value: Any = None) -> tuple[Any]:
    """Return the value itself.

    onnx puts it into a list, which OptionalGetElement does not take apart.
    """
    return (value,)


def _gather_elements(data: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray]:
    """Gather along an axis.

    onnx uses `numpy.choose`, which takes 64 choices at most, and wants all other lengths equal.
    """
    axis %= data.ndim
    # The indices may be shorter than the data along the other axes;
    # take_along_axis wants them equal.
    region = [slice(length) for length in indices.shape]
    region[axis] = slice(None)
    return (np.take_along_axis(data[tuple(region)], indices, axis),)
