"""Derive a model in reverse, by onnx-ad's passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx_ad import UnsupportedOperator
from onnx_ad._build import Builder, Context
from onnx_ad._graph import node_reads, reachable
from onnx_ad.lower import lower
from onnx_ad.recurrent import expand_recurrent
from onnx_ad.unroll import inline_constant_ifs

from pyopnb.engine.models.external_data import is_external
from pyopnb.engine.ops.messages import sanitize
from pyopnb.errors import ModelError
from pyopnb.gradients.limits import expand_functions
from pyopnb.gradients.ranks import make_inputs, types_of
from pyopnb.gradients.rules import Rules

__all__ = ["PREFIX", "reverse"]

PREFIX = "grad_"

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_MAX_CONSTANT = 64
"""The most elements of a floating-point initializer that onnx-ad may take for a constant.

The scales of a Resize are a constant, for example. A larger initializer is a weight: if onnx-ad
folded it, the model would keep old values when its weights are replaced.
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
        expected, got = "operators that onnx-ad can differentiate", sanitize(str(error))
        raise ModelError("model, gradient", expected=expected, got=got) from None
    original_names = {tensor.name for tensor in initializers} | hidden
    folded = [tensor for tensor in work.graph.initializer if tensor.name not in original_names]
    graph.CopyFrom(work.graph)
    for field in ("node", "input", "initializer"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.initializer.extend([*initializers, *folded, *added])
    graph.output.extend(outputs)
    # The types of bodies' nodes are not among them.
    graph.ClearField("value_info")
    rules.restore(model)


def _hide(graph: GraphProto, wrt: Sequence[str]) -> set[str]:
    """Turn the initializers that are not constants into inputs; return their names."""
    inputs = {info.name for info in graph.input}
    hidden = set()
    for tensor in graph.initializer:
        if tensor.name in wrt or tensor.name in inputs or _is_weight(tensor):
            hidden.add(tensor.name)
    make_inputs(graph, hidden)
    return hidden


def _is_weight(tensor: TensorProto) -> bool:
    if is_external(tensor):
        return True
    return tensor.data_type in _FLOATS and math.prod(tensor.dims) > _MAX_CONSTANT


def _passes(
    work: ModelProto, wrt: Sequence[str], loss: str, types: dict[str, TypeProto], rules: Rules
) -> tuple[list[NodeProto], list[TensorProto], list[ValueInfoProto]]:
    """Return all nodes, the new initializers and the new outputs."""
    ctx = Context(work)
    builder = ctx.b
    influential = _influences(work.graph, loss, keep=ctx.is_float)
    for name in wrt:
        if name not in influential:
            raise ModelError(
                f"wrt '{sanitize(name)}'",
                expected=f"a tensor that influences the loss '{sanitize(loss)}'",
                got="none, or only through integers or bools",
                next=f"wrt without '{sanitize(name)}'; its gradient would be zeros",
            )
    # Check each node before any is derived, so that the first refusal names a node of the model.
    varying = reachable(work.graph.node, wrt, keep=ctx.is_float)
    for node in work.graph.node:
        if node_reads(node) & varying and influential.intersection(node.output):
            rules.check(ctx, node)
    results = {name: _reserve(builder, PREFIX + name) for name in wrt}
    loss_type = types[loss].tensor_type
    # onnx-ad adds an axis for several directions, and here there is only one.
    seed = builder.constant(np.ones([1] * (len(loss_type.shape.dim) + 1)), loss_type.elem_type)
    ctx.add_seed(seed)
    ctx._count = builder.ints([1])
    seeds = {loss: seed}
    primal, adjoint, gradients = rules.reverse_nodes(ctx, list(work.graph.node), seeds, list(wrt))
    outputs = []
    for name in wrt:
        gradient = gradients.get(name)
        gradient = ctx.zeros(name) if gradient is None else ctx.full(gradient, name)
        ctx.squeeze(gradient, [ctx.rank(name)])
        # The last node gives the output itself, which saves an Identity.
        builder.nodes[-1].output[0] = results[name]
        outputs.append(ValueInfoProto(name=results[name], type=types[name]))
    derivation = _read_nodes([*adjoint, *builder.nodes], {value.name for value in outputs})
    # ONNX Runtime warns of an unused initializer.
    read = set().union(*map(node_reads, [*primal, *derivation]))
    initializers = [tensor for tensor in builder.initializers if tensor.name in read]
    return [*primal, *derivation], initializers, outputs


def _read_nodes(nodes: Sequence[NodeProto], names: set[str]) -> list[NodeProto]:
    """Drop the nodes with unused outputs, as rules also derive in unwanted inputs."""
    names = set(names)
    read = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            names |= node_reads(node)
            read.append(node)
    return read[::-1]


def _reserve(builder: Builder, name: str) -> str:
    if name in builder._taken:
        raise ModelError(
            f"tensor '{sanitize(name)}'",
            expected="the name to be free for the gradient",
            got="a tensor of the model",
            next="another name for it",
        )
    return str(builder.name(name))


def _influences(graph: GraphProto, loss: str, keep: Callable[[str], bool]) -> set[str]:
    """Return the values that the loss is computed from through floating-point values."""
    influences = {loss}
    for node in reversed(graph.node):
        if influences.intersection(node.output):
            influences.update(filter(keep, node_reads(node)))
    return influences
