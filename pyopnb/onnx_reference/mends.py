"""Operators whose wrong results in the onnx reference implementation are avoided.

`corrections` has the operators that are computed here instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto

__all__ = ["as_defined"]


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
    if op_type == "RoiAlign" and opset < 16:
        return 16, {**attrs, "coordinate_transformation_mode": "output_half_pixel"}
    if op_type == "TfIdfVectorizer" and attrs.get("weights") is None:
        # The onnx class wants them for two of the three modes.
        indexes = attrs.get("ngram_indexes", [])
        if isinstance(indexes, AttributeProto):
            indexes = indexes.ints
        attrs = {**attrs, "weights": [1.0] * len(indexes)}
    return opset, attrs
