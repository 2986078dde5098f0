"""Operators whose wrong results in onnx's reference implementation are avoided or refused.

`corrections` has the operators that are computed here instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto

from pyopnb.errors import ModelError

__all__ = ["as_defined", "refuse_wrong"]


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
