"""A model's reverse derivative, by onnx-ad's passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx_ad import UnsupportedOperator
from onnx_ad._build import Builder, Context
from onnx_ad._graph import node_reads, reachable
from onnx_ad.lower import lower
from onnx_ad.recurrent import expand_recurrent
from onnx_ad.unroll import inline_constant_ifs

from pyopnb.errors import ModelError
from pyopnb.gradients.context import SingleContext
from pyopnb.gradients.limits import expand_functions
from pyopnb.gradients.ranks import types_of
from pyopnb.gradients.rules import Rules
from pyopnb.models.external_data import is_external
from pyopnb.ops.messages import sanitize

__all__ = ["PREFIX", "reverse"]

PREFIX = "grad_"

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_MAX_CONSTANT = 64
"""Elements of a floating-point initializer that onnx-ad may take for a constant, such as the scales of a Resize.

A larger one is a weight: whoever gives the model other weights later must not meet what was folded of the first.
"""


def reverse(model: ModelProto, wrt: Sequence[str], loss: str) -> None:
    """Add to a model the gradients of an output.

    Parameters
    ----------
    model : ModelProto
        It is changed. It declares the types of its tensors and has no local functions.
    wrt : sequence of str
        Inputs and initializers.
    loss : str
        A floating-point output with one element.

    Raises
    ------
    ModelError
        A node between them has no gradient, or one of ``wrt`` has no influence.
    """
    graph = model.graph
    types = types_of(graph)
    inputs, initializers = list(graph.input), list(graph.initializer)
    rules = Rules(model)
    hidden = _hide(graph, wrt)
    try:
        work = inline_constant_ifs(expand_functions(lower(expand_recurrent(model))))
        nodes, added, outputs = _passes(work, wrt, loss, types, rules)
    except UnsupportedOperator as error:
        got = sanitize(str(error))
        raise ModelError(
            "model, gradient", expected="operators that onnx-ad derives", got=got
        ) from None
    ours = {tensor.name for tensor in initializers} | hidden
    new = [tensor for tensor in work.graph.initializer if tensor.name not in ours]
    graph.CopyFrom(work.graph)
    for field, values in (
        ("node", nodes),
        ("input", inputs),
        ("initializer", [*initializers, *new, *added]),
    ):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.output.extend(outputs)
    graph.ClearField("value_info")  # the types of bodies' nodes are not among them
    rules.restore(model)


def _hide(graph: GraphProto, wrt: Sequence[str]) -> set[str]:
    """Make inputs of the initializers that are no constants; the names of those that were none of the inputs."""
    inputs = {info.name for info in graph.input}
    variable = [
        tensor
        for tensor in graph.initializer
        if tensor.name in {*wrt, *inputs} or _is_weight(tensor)
    ]
    types = types_of(graph)
    names = {tensor.name for tensor in variable}
    for name in sorted(names - inputs):
        graph.input.append(ValueInfoProto(name=name, type=types[name]))
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    return names


def _is_weight(tensor: TensorProto) -> bool:
    return is_external(tensor) or (
        tensor.data_type in _FLOATS and int(np.prod(tensor.dims)) > _MAX_CONSTANT
    )


def _passes(
    work: ModelProto, wrt: Sequence[str], loss: str, types: dict[str, TypeProto], rules: Rules
) -> tuple[list[object], list[TensorProto], list[ValueInfoProto]]:
    """All nodes, the new initializers and the new outputs."""
    ctx = SingleContext(work)
    builder = ctx.b
    for name in wrt:
        _refuse_without_influence(ctx, work, name, loss)
    for node in _between(ctx, work.graph, wrt, loss):
        rules.check(ctx, node)
    results = {name: _reserve(builder, PREFIX + name) for name in wrt}
    kind = types[loss].tensor_type
    seed = builder.constant(np.ones([1] * (len(kind.shape.dim) + 1)), kind.elem_type)
    ctx.add_seed(seed)
    ctx._count = builder.ints([1])
    primal, adjoint, found = rules.reverse_nodes(
        ctx, list(work.graph.node), {loss: seed}, list(wrt)
    )
    outputs = []
    for name in wrt:
        grad = found.get(name)
        grad = ctx.zeros(name) if grad is None else ctx.full(grad, name)
        builder.alias(ctx.squeeze(grad, [ctx.rank(name)]), results[name])
        outputs.append(ValueInfoProto(name=results[name], type=types[name]))
    return [*primal, *adjoint, *builder.nodes], builder.initializers, outputs


def _reserve(builder: Builder, name: str) -> str:
    if name in builder._taken:
        expected = "the name to be free for the gradient"
        raise ModelError(
            f"tensor '{sanitize(name)}'",
            expected=expected,
            got="a tensor of the model",
            next="another name for it",
        )
    return str(builder.name(name))


def _between(ctx: Context, graph: GraphProto, wrt: Sequence[str], loss: str) -> list[NodeProto]:
    """The nodes through which ``wrt`` has an influence on the loss, in their order."""
    depends, wanted, found = reachable(graph.node, wrt, keep=ctx.is_float), {loss}, []
    for node in reversed(graph.node):
        if wanted & depends.intersection(node.output) and node_reads(node) & depends:
            found.append(node)
            wanted |= node_reads(node)
    return found[::-1]


def _refuse_without_influence(ctx: Context, work: ModelProto, name: str, loss: str) -> None:
    if loss in reachable(work.graph.node, [name], keep=ctx.is_float):
        return
    through = (
        ", only through integers or bools" if loss in reachable(work.graph.node, [name]) else ""
    )
    raise ModelError(
        f"wrt '{sanitize(name)}'",
        expected=f"what has an influence on the loss '{sanitize(loss)}'",
        got=f"an influence{through}, which has no gradient" if through else "none",
        next=f"wrt without '{sanitize(name)}'; its gradient would be zeros",
    )
