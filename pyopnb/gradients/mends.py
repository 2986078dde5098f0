"""Correct or refuse the operators whose gradient onnx-ad 0.3.0 gets wrong or takes for zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto, helper
from onnx_ad.rules import DERIVATIVE, WEIGHTED_REDUCTIONS

__all__ = ["RULES", "Refused", "refuse"]

Rule = Callable[[Any, NodeProto, Sequence[Any]], Any]


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


def _attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    for field in node.attribute:
        if field.name == name:
            return helper.get_attribute_value(field)
    return default


# ---- refusals: each returns the reason, or an empty string ---------------------------------------

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
    if _attribute(node, "mode", b"DCR") != b"DCR":
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
    if not _attribute(node, "axes") and _attribute(node, "noop_with_empty_axes", 0):
        return "runtimes disagree on its result with noop_with_empty_axes=1 and no axes"
    return ""


def _einsum(ctx: Any, node: NodeProto) -> str:
    terms, _, output = _attribute(node, "equation").decode().partition("->")
    specs = terms.split(",")
    for number, (name, spec) in enumerate(zip(node.input, specs, strict=True)):
        elsewhere = "".join([output, *specs[:number], *specs[number + 1 :]])
        summed = [letter for letter in spec if letter.isalpha() and letter not in elsewhere]
        # onnx-ad broadcasts the gradient back over such an index by its declared size.
        if summed and ctx.asked_for(name) and ctx.shapes.static(name) is None:
            return f"index {summed[0]} is summed away, and the shape of its input is not declared"
    return ""


def _pad(ctx: Any, node: NodeProto) -> str:
    # onnx-ad slices the gradient by the pads, so it is too small if they are negative.
    pads = ctx.integers(node.input[1]) or ()
    return "negative pads: Slice cuts off as well" if min(pads, default=0) < 0 else ""


_CHECKS: Mapping[str, Callable[[Any, NodeProto], str]] = {
    "Clip": _clip_bounds,
    "Einsum": _einsum,
    "OneHot": _one_hot,
    "Pad": _pad,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("ReduceSum", "ReduceMean", *WEIGHTED_REDUCTIONS), _reduction_of_nothing),
}


# ---- mends of rules in onnx-ad; 0.3.0 is the newest, so no version ends them yet ---------------


def _conv(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive a Conv in its input, where onnx-ad needs the whole shape and forgets uneven pads."""
    x, w, y = node.input[0], node.input[1], node.output[0]
    names = ctx.wanted
    if x not in names:
        return rule(ctx, node, grads)
    shape = ctx.shapes.shape(x)
    if None in shape[2:]:
        raise Refused("the shape of its input is not declared")
    if x in node.input[1:]:
        raise Refused("its input is its weight as well")
    # The rule derives the weight and the bias, and leaves out the input that is not asked for.
    ctx.wanted = names - {x}
    contributions = rule(ctx, node, grads)
    ctx.wanted = names
    spatial = len(shape) - 2
    ones = [1] * spatial
    attributes = {
        "group": _attribute(node, "group", 1),
        "strides": _attribute(node, "strides", ones),
        "dilations": _attribute(node, "dilations", ones),
        "pads": _attribute(node, "pads", [0, 0] * spatial),
    }
    kernel = ctx.shapes.shape(w)[2:]
    padding = _unreached(shape[2:], kernel, attributes)
    # There is one direction, so its axis need not be folded into the samples.
    grad = ctx.squeeze(ctx.full(grads[0], y), [ctx.rank(y)])
    spread = ctx.b.op("ConvTranspose", [grad, w], output_padding=padding, **attributes)
    return [ctx.unsqueeze(spread, [ctx.rank(x)]), *contributions[1:]]


def _average_pool(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive an AveragePool with the pads at both ends as the node has them."""
    # The rule appends the ConvTranspose that spreads the gradient back over the windows. Its
    # output_shape makes ONNX Runtime ignore its pads.
    first = len(ctx.b.nodes)
    contributions = rule(ctx, node, grads)
    for emitted in ctx.b.nodes[first:]:
        attributes = {field.name: helper.get_attribute_value(field) for field in emitted.attribute}
        if emitted.op_type == "ConvTranspose" and "output_shape" in attributes:
            shape = attributes.pop("output_shape")
            kernel = _attribute(node, "kernel_shape")
            attributes["output_padding"] = _unreached(shape, kernel, attributes)
            del emitted.attribute[:]
            emitted.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
    return contributions


def _unreached(
    shape: Sequence[int], kernel: Sequence[int | None], attributes: Mapping[str, Any]
) -> list[int]:
    """Count the elements of a padded input that the last window does not reach, for each axis."""
    spatial = len(shape)
    ones = [1] * spatial
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    pads = attributes.get("pads", [0, 0] * spatial)
    counts = []
    for axis, size in enumerate(kernel):
        if size is None:
            raise Refused("the size of its kernel is not declared")
        covered = (size - 1) * dilations[axis] + 1
        counts.append((shape[axis] + pads[axis] + pads[spatial + axis] - covered) % strides[axis])
    return counts


def _elementwise(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """Derive a function of single elements with fewer nodes, without the axis of directions."""
    x, y = node.input[0], node.output[0]
    factor = DERIVATIVE[node.op_type](ctx, node, x, y, ctx.dtype(x, y))
    product = ctx.b.op("Mul", [ctx.squeeze(grads[0], [ctx.rank(y)]), factor])
    contribution = ctx.unsqueeze(product, [ctx.rank(x)])
    ctx.declare_exact(contribution, x)
    return [contribution]


def _matmul(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive the product of two matrices with two products, without the axis of directions."""
    a, b = node.input
    if ctx.opset < 11 or ctx.rank(a) != 2 or ctx.rank(b) != 2:
        return rule(ctx, node, grads)
    grad = ctx.squeeze(ctx.full(grads[0], node.output[0]), [2])
    products = (
        ctx.b.op("Gemm", [grad, b], transB=1),
        ctx.b.op("Gemm", [a, grad], transA=1),
    )
    contributions = []
    for name, product in zip(node.input, products, strict=True):
        contribution = ctx.unsqueeze(product, [2])
        ctx.declare_exact(contribution, name)
        contributions.append(contribution)
    return contributions


def _softmax(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """Derive Softmax with zeros for rows that are masked as a whole.

    The softmax of such a row is NaN, which attention replaces by zeros. A NaN that nothing reads
    must not reach the gradient.
    """
    axis = _attribute(node, "axis", -1) % ctx.rank(node.input[0])
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


def _norm(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> list[Any]:
    """Derive a norm with zeros for zeros, where onnx-ad divides zero by zero in a row of them."""
    # Beside larger elements, the gradient in a zero is zero anyway.
    zero = ctx.constant(0.0, ctx.dtype(node.input[0]))
    is_zero = ctx.b.op("Equal", [ctx.lift(node.input[0]), zero])
    (grad,) = rule(ctx, node, grads)
    return [ctx.b.op("Where", [is_zero, zero, grad])]


def _slice(rule: Rule, ctx: Any, node: NodeProto, grads: Sequence[Any]) -> Any:
    """Derive a Slice whose other axes are free, where onnx-ad needs the whole shape."""
    x = node.input[0]
    shape, starts = ctx.shapes.shape(x), ctx.integers(node.input[1])
    axes = range(len(starts or ()))
    if len(node.input) > 3 and node.input[3]:
        axes = ctx.integers(node.input[3])
    if axes is None or any(shape[axis] is None for axis in axes):
        return rule(ctx, node, grads)
    # Of the axes that are not sliced, the rule reads nothing else.
    ctx.shapes.declare(x, [1 if size is None else size for size in shape])
    contributions = rule(ctx, node, grads)
    ctx.shapes.declare(x, shape)
    return contributions


RULES: Mapping[str, Callable[[Rule, Any, NodeProto, Sequence[Any]], Any]] = {
    **dict.fromkeys(DERIVATIVE, _elementwise),
    "AveragePool": _average_pool,
    "Conv": _conv,
    "MatMul": _matmul,
    "ReduceL2": _norm,
    "Slice": _slice,
    "Softmax": _softmax,
}
"""Rules by op type that replace the rule of onnx-ad, which they get first."""
