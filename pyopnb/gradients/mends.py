"""Correct or refuse the operators whose gradient onnx-ad 0.3.0 gets wrong or takes for zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto, helper
from onnx_ad import rules
from onnx_ad._build import attribute
from onnx_ad.rules import REVERSE

from pyopnb.gradients.limits import bound

__all__ = ["RULES", "Refused", "refuse"]


class Refused(Exception):
    """Say why a node has no right gradient here."""


def refuse(ctx: Any, node: NodeProto) -> None:
    """Refuse the nodes whose gradient onnx-ad 0.3.0 gets wrong.

    Raises
    ------
    Refused
    """
    message = _WRONG.get(node.op_type, "")
    check = _CHECKS.get(node.op_type)
    if check is not None and not message:
        message = check(ctx, node)
    if message:
        raise Refused(message)


# ---- refusals: each returns the reason, or an empty string -----------------------------------

_DIVIDED = "onnx-ad divides by the elements, which gives NaN where one is 0"
_POWERS = "onnx-ad gives NaN for a window of zeros"
_WRONG = {
    "CumProd": _DIVIDED,
    "Det": "onnx-ad takes the gradient of a determinant for zero",
    "GlobalLpPool": _POWERS,
    "LpPool": _POWERS,
    "MaxUnpool": "onnx-ad reads its indices differently from the ONNX reference",
    "ReduceProd": _DIVIDED,
}


def _one_hot(ctx: Any, node: NodeProto) -> str:
    if len(node.input) > 2 and node.input[2] in ctx.wanted:
        return "onnx-ad takes the gradient in its values for zero"
    return ""


def _space_to_depth(ctx: Any, node: NodeProto) -> str:
    if attribute(node, "mode", "DCR") != "DCR":
        return "onnx-ad derives it as if its mode were DCR"
    return ""


def _clip_bounds(ctx: Any, node: NodeProto) -> str:
    # Where min exceeds max, Clip returns max, but onnx-ad gives min a gradient.
    bounds = [name for name in node.input[1:3] if name]
    if len(bounds) == 2 and any(ctx.asked_for(name) for name in bounds):
        return "min and max of one Clip have no gradient here: derive Min(Max(x, min), max)"
    return ""


def _reduction_of_nothing(ctx: Any, node: NodeProto) -> str:
    if len(node.input) > 1 and node.input[1]:
        # Empty axes mean all of them, but onnx-ad reads them as none.
        return "its axes are empty: leave them out" if ctx.integers(node.input[1]) == [] else ""
    # ONNX says that nothing is reduced; ONNX Runtime takes the reduction of each single element.
    if not attribute(node, "axes") and attribute(node, "noop_with_empty_axes", 0):
        return "runtimes disagree on its result with noop_with_empty_axes=1 and no axes"
    return ""


def _einsum(ctx: Any, node: NodeProto) -> str:
    specs, output, _ = rules._einsum_parts(node)
    for number, (name, spec) in enumerate(zip(node.input, specs, strict=True)):
        elsewhere = "".join([output, *specs[:number], *specs[number + 1 :]])
        summed = [letter for letter in spec if letter.isalpha() and letter not in elsewhere]
        # onnx-ad broadcasts the gradient back over such an index by its declared size.
        if summed and ctx.asked_for(name) and ctx.shapes.static(name) is None:
            return f"index {summed[0]} is summed away, and the shape of its input is not declared"
    return ""


def _pad(ctx: Any, node: NodeProto) -> str:
    # onnx-ad slices the gradient by the pads, so it is too small if they are negative.
    before, after = rules._pad_widths(ctx, node)
    return "negative pads: Slice cuts off as well" if min(*before, *after, 0) < 0 else ""


_CHECKS: Mapping[str, Callable[[Any, NodeProto], str]] = {
    "Clip": _clip_bounds,
    "Einsum": _einsum,
    "OneHot": _one_hot,
    "Pad": _pad,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("ReduceSum", "ReduceMean", *rules.WEIGHTED_REDUCTIONS), _reduction_of_nothing),
}


# ---- rules of our own; onnx-ad 0.3.0 is the newest, so no version ends them yet --------------


def _convolution(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive Conv or AveragePool with the pads at both ends as the node has them."""
    # onnx-ad's rule appends the ConvTranspose that spreads the gradient back over the windows.
    first = len(ctx.b.nodes)
    rule = _conv if node.op_type == "Conv" else REVERSE[node.op_type]
    contributions = rule(ctx, node, grads)
    for emitted in ctx.b.nodes[first:]:
        if emitted.op_type == "ConvTranspose":
            _replace_output_shape(ctx, node, emitted)
    return contributions


def _replace_output_shape(ctx: Any, node: NodeProto, transposed: NodeProto) -> None:
    """Replace a ConvTranspose's output_shape, which makes ONNX Runtime ignore its pads."""
    shape = attribute(transposed, "output_shape")
    if shape is None:
        return
    spatial = len(shape)
    kernel = attribute(node, "kernel_shape") or ctx.shapes.shape(node.input[1])[2:]
    strides = attribute(transposed, "strides", [1] * spatial)
    dilations = attribute(transposed, "dilations", [1] * spatial)
    pads = attribute(transposed, "pads", [0] * (2 * spatial))
    padding = []
    for axis in range(spatial):
        if kernel[axis] is None:
            raise Refused("the size of its kernel is not declared")
        covered = (kernel[axis] - 1) * dilations[axis] + 1
        # The elements of the padded input that the last window does not reach.
        padding.append((shape[axis] + pads[axis] + pads[spatial + axis] - covered) % strides[axis])
    remaining = [field for field in transposed.attribute if field.name != "output_shape"]
    remaining.append(helper.make_attribute("output_padding", padding))
    del transposed.attribute[:]
    transposed.attribute.extend(remaining)


def _conv(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive a Conv with a free number of samples, where onnx-ad needs the whole shape."""
    x, w, y = node.input[0], node.input[1], node.output[0]
    shape = ctx.shapes.shape(x)
    if not ctx.asked_for(x) or shape is None or None not in shape or None in shape[2:]:
        return REVERSE["Conv"](ctx, node, grads)
    # This follows onnx-ad's rule, but does not tell the ConvTranspose the number of samples.
    attrs, spatial = rules._conv_attributes(ctx, node)
    seeded = ctx.full(grads[0], y)
    transposed = {**attrs, "output_shape": list(shape[2:])}
    transposed.pop("kernel_shape", None)
    folded = rules._fold_seed_into_batch(ctx, seeded, y)
    product = ctx.b.op("ConvTranspose", [folded, w], stem="a_conv", **transposed)
    contributions = [
        rules._unfold_batch_into_seed(ctx, product, x, ctx.rank(x)),
        rules._conv_weight_adjoint(ctx, node, attrs, spatial, seeded),
    ]
    bias = node.input[2] if len(node.input) > 2 else ""
    if bias and ctx.asked_for(bias):
        # The bias is added to every sample and position of its channel.
        outside = [axis for axis in range(ctx.rank(y)) if axis != 1]
        summed = ctx.reduce_sum(seeded, outside, keepdims=0)
        contributions.append(ctx.reshape_like(summed, bias))
    return contributions


def _matmul(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive the product of two matrices with two products, without the axis of directions."""
    a, b = node.input
    if ctx.opset < 11 or ctx.rank(a) != 2 or ctx.rank(b) != 2:
        return REVERSE["MatMul"](ctx, node, grads)
    grad = ctx.squeeze(ctx.full(grads[0], node.output[0]), [2])
    products = (
        ctx.b.op("Gemm", [grad, b], transB=1),
        ctx.b.op("Gemm", [a, grad], transA=1),
    )
    contributions = []
    for name, product in zip(node.input, products, strict=True):
        contribution = ctx.unsqueeze(product, [2])
        ctx.root.declare_exact(contribution, name)
        contributions.append(contribution)
    return contributions


def _softmax(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """Derive Softmax with zeros for rows that are masked as a whole.

    The softmax of such a row is NaN, which attention replaces by zeros. A NaN that nothing reads
    must not reach the gradient.
    """
    axis = attribute(node, "axis", -1) % ctx.rank(node.input[0])
    grad, y = ctx.full(grads[0], node.output[0]), ctx.lift(node.output[0])
    zero = ctx.constant(0.0, ctx.dtype(node.output[0]))
    # A NaN whose gradient is 0 is left out by a Where after it.
    is_nan = ctx.b.op("IsNaN", [y])
    has_no_gradient = ctx.b.op("Equal", [grad, zero])
    unread = ctx.b.op("And", [is_nan, has_no_gradient])
    y = ctx.b.op("Where", [unread, zero, y])
    # dx = y * (dy - sum(y * dy)), along the axis.
    product = ctx.b.op("Mul", [y, grad])
    total = ctx.reduce_sum(product, [axis], keepdims=1)
    difference = ctx.b.op("Sub", [grad, total])
    return [ctx.b.op("Mul", [y, difference])]


def _norm(ctx: Any, node: NodeProto, axes: Sequence[int], keepdims: int, dtype: int) -> Any:
    """Return the direction of a row, and zeros for a row of zeros, where onnx-ad has NaN."""
    norm = rules._reference(ctx, node, axes, keepdims)
    # A norm of zero is replaced by one in the divisor.
    is_zero = ctx.b.op("Equal", [norm, ctx.constant(0.0, dtype)])
    norm = ctx.b.op("Add", [norm, ctx.b.op("Cast", [is_zero], to=dtype)])
    return ctx.b.op("Div", [node.input[0], norm])


def _slice(ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive a Slice whose other axes are free, where onnx-ad needs the whole shape."""
    x = node.input[0]
    shape = ctx.shapes.shape(x)
    starts, ends, axes, steps = rules._slice_bounds(ctx, node)
    is_plain = None not in (shape, starts, ends, axes) and set(steps or ()) <= {1}
    if not is_plain or any(shape[axis] is None for axis in axes):
        return REVERSE["Slice"](ctx, node, grads)
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        start, end, _ = slice(start, end).indices(shape[axis])
        before[axis], after[axis] = start, shape[axis] - max(start, end)
    # The last axis is one that onnx-ad adds, for several directions.
    padded = rules._pad(ctx, ctx.full(grads[0], node.output[0]), [*before, 0], [*after, 0])
    return [padded] + [None] * (len(node.input) - 1)


RULES: Mapping[str, Callable[[Any, NodeProto, Any], Any]] = {
    "AveragePool": _convolution,
    "Conv": _convolution,
    "ReduceL2": bound(
        REVERSE["ReduceL2"], WEIGHTED_REDUCTIONS={**rules.WEIGHTED_REDUCTIONS, "ReduceL2": _norm}
    ),
    "MatMul": _matmul,
    "Slice": _slice,
    "Softmax": _softmax,
}
"""Rules by op type that replace onnx-ad's."""
