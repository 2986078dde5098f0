"""Derive a model in reverse, by onnx-ad's passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx_ad import UnsupportedOperator
from onnx_ad._build import Builder, Context
from onnx_ad._graph import node_reads, reachable
from onnx_ad.lower import lower
from onnx_ad.recurrent import expand_recurrent
from onnx_ad.unroll import inline_constant_ifs

from pyopnb.engine.models.external_data import is_external
from pyopnb.engine.models.nodes import type_of_proto
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
    ctx = _Context(work, types)
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
        gradient = ctx.squeeze(gradient, [ctx.rank(name)])
        if not builder.nodes or builder.nodes[-1].output[0] != gradient:
            builder.op("Identity", [gradient])
        builder.nodes[-1].output[0] = results[name]
        outputs.append(ValueInfoProto(name=results[name], type=types[name]))
    derivation = _read_nodes([*adjoint, *builder.nodes], {value.name for value in outputs})
    # ONNX Runtime warns of an unused initializer.
    read = set().union(*map(node_reads, [*primal, *derivation]))
    initializers = [tensor for tensor in builder.initializers if tensor.name in read]
    return [*primal, *derivation], initializers, outputs


class _Context(Context):  # type: ignore[misc]
    """The context of onnx-ad, with fewer nodes where free sizes have names, which it forgets."""

    def __init__(self, model: ModelProto, types: Mapping[str, TypeProto]) -> None:
        super().__init__(model)
        self._exact: dict[str, tuple[int | str | None, ...]] = {}
        self._sizes: dict[str, tuple[int | str | None, ...]] = {}
        for name, proto in types.items():
            shape = type_of_proto(proto).shape
            if shape is not None and None not in shape:
                self._sizes[name] = shape
        self._unsqueezed: dict[str, tuple[str, list[int]]] = {}
        self._targets: dict[tuple[int | str | None, ...], str] = {}

    def declare_exact(self, value: str, primal: str) -> None:
        """Note that a gradient has the sizes of what it is derived in."""
        if primal in self._sizes:
            self._exact[value] = self._sizes[primal]

    def full(self, value: Any, primal: str) -> Any:
        """Expand a gradient to the sizes of what it is derived in."""
        sizes = self._sizes.get(primal)
        if sizes is None:
            return super().full(value, primal)
        if self._exact.get(value) == sizes:
            return value
        if sizes not in self._targets:
            expanded = super().full(value, primal)
            self._targets[sizes] = self.b.nodes[-1].input[1]
        else:
            expanded = self.b.op("Expand", [value, self._targets[sizes]], stem="full")
        self._exact[expanded] = sizes
        return expanded

    def unsqueeze(self, value: Any, axes: Sequence[int]) -> Any:
        """Add axes of size 1."""
        result = super().unsqueeze(value, axes)
        self._unsqueezed[result] = value, list(axes)
        return result

    def squeeze(self, value: Any, axes: Sequence[int]) -> Any:
        """Drop axes of size 1."""
        plain, added = self._unsqueezed.get(value, (None, None))
        return plain if added == list(axes) else super().squeeze(value, axes)

    def unbroadcast(self, value: Any, source_rank: int, target: str) -> Any:
        """Sum a gradient over the axes along which an operand was broadcast."""
        sizes, result = self._sizes.get(target), self._sizes.get(self.node.output[0])
        if sizes and result and len(sizes) == len(result) and self.node.op_type != "Einsum":
            # Two matrices are multiplied, and only the axes before theirs are broadcast.
            count = len(sizes) - 2 * (self.node.op_type == "MatMul")
            if 1 not in sizes[:count] and sizes[:count] == result[:count]:
                return value
        reduced = super().unbroadcast(value, source_rank, target)
        if sizes and self.b.nodes[-1].op_type == "Reshape" and reduced != value:
            self.declare_exact(reduced, target)
        return reduced


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
