"""Operators whose wrong results in the onnx reference implementation are avoided.

`corrections` has the operators that are computed here instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto

from pyopnb.catalog import precision

__all__ = ["MENDED_INPUTS", "as_defined", "inputs_as_defined"]

# Of integers, these cut their coefficients to integers.
_OF_FLOATS = ("ai.onnx.ml::LinearRegressor", "ai.onnx.ml::SVMRegressor", "ai.onnx.ml::Scaler")
# These round or overflow after each step in halves, or do not take them.
_OF_WIDE_FLOATS = (
    *("::Det", "::LayerNormalization", "::NegativeLogLikelihoodLoss"),
    *("::ReduceL1", "::ReduceL2", "::ReduceSumSquare"),
)
_SUMS = ("::CumProd", "::CumSum")
_BOXES = "::NonMaxSuppression"

MENDED_INPUTS = (*_OF_FLOATS, *_OF_WIDE_FLOATS, *_SUMS, _BOXES)
"""Operators whose inputs `inputs_as_defined` changes."""


def as_defined(
    domain: str, op_type: str, opset: int, attrs: Mapping[str, Any], outputs: int
) -> tuple[int, Mapping[str, Any]]:
    """Return the version and attrs with which the onnx classes follow an operator's definition.

    Parameters
    ----------
    attrs : mapping
        Name to value, or to AttributeProto.
    """
    if domain:
        return opset, attrs
    if op_type == "DequantizeLinear" and opset < 19:
        return 19, attrs
    if op_type == "RoiAlign" and opset < 16:
        return 16, {**attrs, "coordinate_transformation_mode": "output_half_pixel"}
    if op_type == "TfIdfVectorizer" and attrs.get("weights") is None:
        # The onnx class wants them for two of the three modes.
        indexes = attrs.get("ngram_indexes", [])
        if isinstance(indexes, AttributeProto):
            indexes = indexes.ints
        attrs = {**attrs, "weights": [1.0] * len(indexes)}
    return opset, attrs


def inputs_as_defined(domain: str, op_type: str, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the inputs with which the onnx class follows an operator's definition."""
    name = f"{domain}::{op_type}"
    if name in _OF_FLOATS:
        return [x.astype(np.float32) if x.dtype.kind in "iu" else x for x in inputs]
    if name in _OF_WIDE_FLOATS:
        return [x if x is None or x.dtype.kind in "iu" else precision.widen(x) for x in inputs]
    if name in _SUMS:
        # The axis may be a tensor of one element.
        return [inputs[0], inputs[1].reshape(())]
    if name == _BOXES:
        boxes, scores, *limits = inputs
        for place, default in enumerate(_LIMITS):
            if place == len(limits):
                limits.append(None)
            limits[place] = (default if limits[place] is None else limits[place]).reshape(1)
        return [boxes, scores, *limits]
    return inputs


# Of NonMaxSuppression: the most boxes, the common part, and the lowest score.
_LIMITS = (np.array([0]), np.array([0], np.float32), np.array([-np.inf], np.float32))
