"""Operators for which onnx-ad gives a wrong gradient, or zero where there is one: another rule, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto
from onnx_ad import rules
from onnx_ad._build import FLOAT_TYPES, attribute
from onnx_ad.rules import REVERSE

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
    if node.op_type == "Scatter" and ctx.opset < 11:
        raise Refused("onnx-ad derives it by GatherElements, which came with opset 11")
    if node.op_type == "SpaceToDepth" and attribute(node, "mode", "DCR") not in ("DCR", b"DCR"):
        raise Refused("onnx-ad derives it as if its mode were DCR")
    if node.op_type == "MaxUnpool" and len(node.input) > 2 and node.input[2]:
        raise Refused("with an output_shape, its indices are read in another way by onnx-ad than by ONNX's reference")
    if node.op_type in ("Max", "Min") and len(node.input) > 1 and ctx.opset < 12:
        raise Refused("onnx-ad derives it by comparisons that came with opset 12")
    if node.op_type == "BitCast" and ctx.shapes.dtype(node.output[0]) in FLOAT_TYPES:
        raise Refused("bits of a floating-point number, read as another one")


def _conv(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Conv whose number of samples is not known: onnx-ad asks for the whole shape of its input, and uses the spatial sizes."""
    x, w, y = node.input[0], node.input[1], node.output[0]
    shape = ctx.shapes.shape(x)
    if not ctx.asked_for(x) or shape is None or None not in shape or None in shape[2:]:
        return REVERSE["Conv"](ctx, node, grads)
    attrs, spatial = rules._conv_attributes(ctx, node)
    seeded = ctx.full(grads[0], y)
    transposed = {**{key: value for key, value in attrs.items() if key != "kernel_shape"}, "output_shape": list(shape[2:])}
    product = ctx.b.op("ConvTranspose", [rules._fold_seed_into_batch(ctx, seeded, y), w], stem="a_conv", **transposed)
    contributions = [
        rules._unfold_batch_into_seed(ctx, product, x, ctx.rank(x)),
        rules._conv_weight_adjoint(ctx, node, attrs, spatial, seeded),
    ]
    if len(node.input) > 2:
        bias = node.input[2]
        summed = ctx.reduce_sum(seeded, [axis for axis in range(ctx.rank(y)) if axis != 1], keepdims=0)
        contributions.append(ctx.reshape_like(summed, bias) if bias and ctx.asked_for(bias) else None)
    return contributions


def _softmax(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """NaN that nobody reads stays out of it: rows that are masked as a whole, whose softmax attention replaces by zeros."""
    if ctx.opset < 13:
        return list(REVERSE["Softmax"](ctx, node, grads))
    axis = attribute(node, "axis", -1) % ctx.rank(node.input[0])
    grad, y = ctx.full(grads[0], node.output[0]), ctx.lift(node.output[0])
    zero = ctx.constant(0.0, ctx.dtype(node.output[0]))
    unread = ctx.b.op("And", [ctx.b.op("IsNaN", [y]), ctx.b.op("Equal", [grad, zero])])
    y = ctx.b.op("Where", [unread, zero, y])
    total = ctx.reduce_sum(ctx.b.op("Mul", [y, grad]), [axis], keepdims=1)
    return [ctx.b.op("Mul", [y, ctx.b.op("Sub", [grad, total])])]


def _clip(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """Where the least is greater than the most, the output is the most: onnx-ad gives the least a gradient there."""
    contributions = list(REVERSE["Clip"](ctx, node, grads))
    low, high = (node.input[n] if len(node.input) > n else "" for n in (1, 2))
    if not (low and high):
        return contributions
    rank, zero = ctx.rank(node.output[0]), ctx.constant(0.0, ctx.dtype(node.output[0]))
    crossed = ctx.b.op("Greater", [low, high])
    if ctx.asked_for(low) and contributions[1] is not None:
        contributions[1] = ctx.b.op("Where", [crossed, zero, contributions[1]])
    if ctx.asked_for(high) and contributions[2] is not None:
        everything = ctx.unbroadcast(ctx.full(grads[0], node.output[0]), rank, high)
        contributions[2] = ctx.b.op("Where", [crossed, everything, contributions[2]])
    return contributions


RULES: Mapping[str, Callable[[Any, NodeProto, Any], Any]] = {"Clip": _clip, "Conv": _conv, "Softmax": _softmax}
"""By op type, in the place of onnx-ad's."""
