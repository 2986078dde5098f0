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

    Parameters
    ----------
    attrs : mapping
        Name to value, or to AttributeProto.
    """
    if domain:
        return opset, attrs
    if op_type == "RoiAlign" and opset < 16:
        return 16, {**attrs, "coordinate_transformation_mode": "output_half_pixel"}
    return opset, attrs


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
