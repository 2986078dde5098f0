"""Operators for which onnx-ad gives a wrong gradient, or zero where there is one: another rule, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx import NodeProto
from onnx_ad._build import FLOAT_TYPES

__all__ = ["RULES", "Refused", "refuse"]


class Refused(Exception):
    """A node has no right gradient here, and why."""


def refuse(ctx: Any, node: NodeProto) -> None:
    """Refuse what onnx-ad takes for a constant and is none.

    Raises
    ------
    Refused
    """
    if node.op_type == "Det":
        raise Refused("onnx-ad takes the gradient of a determinant for zero")
    if node.op_type == "OneHot" and len(node.input) > 2 and node.input[2] in ctx.wanted:
        raise Refused("onnx-ad takes the gradient in its values for zero")
    if node.op_type == "BitCast" and ctx.shapes.dtype(node.output[0]) in FLOAT_TYPES:
        raise Refused("bits of a floating-point number, read as another one")


RULES: Mapping[str, Callable[[Any, NodeProto, Any], Any]] = {}
"""By op type, in the place of onnx-ad's."""
