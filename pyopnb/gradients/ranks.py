"""The types of a model's tensors, with the ranks that neither a hint nor ``infer`` tells: those ops are called once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import count

import numpy as np
from onnx import GraphProto, ModelProto, TypeProto

from pyopnb.models.nodes import (
    Site,
    attribute_values,
    first_output,
    type_of_proto,
    type_proto,
    walk,
)
from pyopnb.models.op_inference import infer_types
from pyopnb.ops.instantiate import instantiate
from pyopnb.ops.op import Op
from pyopnb.ops.registry import registry
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = ["name_outputs", "types_of", "with_ranks"]

_SIZES = (2, 1)
"""Of each dimension that is not known: the same everywhere, so that whatever is added or multiplied fits."""


def types_of(graph: GraphProto) -> dict[str, TypeProto]:
    """The declared types of the values of a graph."""
    types = {info.name: info.type for info in graph.value_info if info.HasField("type")}
    types |= {
        info.name: info.type for info in (*graph.input, *graph.output) if info.HasField("type")
    }
    for tensor in graph.initializer:
        types[tensor.name] = TypeProto()
        types[tensor.name].tensor_type.elem_type = tensor.data_type
        shape = types[tensor.name].tensor_type.shape
        shape.SetInParent()
        for size in tensor.dims:
            shape.dim.add(dim_value=size)
    return types


def name_outputs(model: ModelProto) -> None:
    """Give names to the outputs that nodes of ops with ``backward`` leave out: it gets all of them.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    sites = list(walk(model))
    taken = {name for site in sites for name in (*site.node.input, *site.node.output)}
    for site in sites:
        op = registry.find(site.node.domain, site.node.op_type)
        hinted = (
            op.current.schema.outputs
            if op is not None and op.current.gradient is not None
            else None
        )
        for place in range(len(hinted or ())):
            if place == len(site.node.output):
                site.node.output.append("")
            if not site.node.output[place]:
                name = next(
                    n
                    for n in (f"{first_output(site.node)}_{place}{'_' * more}" for more in count())
                    if n not in taken
                )
                site.node.output[place] = name
                taken.add(name)


def with_ranks(model: ModelProto) -> ModelProto:
    """Copy a model with the types of its tensors, as far as they can be known.

    An op that declares no shape is called with ones, once, in the place of each of its nodes whose inputs' ranks are known.

    Parameters
    ----------
    model : ModelProto
        Without local functions.

    Returns
    -------
    ModelProto
    """
    tried: set[int] = set()
    while True:
        typed = infer_types(model)
        found: dict[int, Sequence[TensorType]] = {}
        sites = list(walk(typed))
        # An inner scope's names come over those of the scopes around it, which walk gives first.
        known: dict[str, TypeProto] = {}
        for graph in {id(site.scope): site.scope for site in sites}.values():
            known |= types_of(graph) if isinstance(graph, GraphProto) else {}
        for number, site in enumerate(sites):
            op = registry.find(site.node.domain, site.node.op_type)
            if (
                op is None
                or number in tried
                or all(_is_ranked(known.get(name)) for name in site.node.output if name)
            ):
                continue
            given = [
                type_of_proto(known[name]) if name in known else ANY if name else None
                for name in site.node.input
            ]
            if all(
                kind is None or (kind.shape is not None and kind.dtype is not None)
                for kind in given
            ):
                tried.add(number)
                found[number] = _call(op, site, given, typed)
        if not any(found.values()):
            return typed
        model = typed
        for number, kinds in found.items():
            _declare(sites[number], kinds)


def _is_ranked(kind: TypeProto | None) -> bool:
    return kind is not None and type_of_proto(kind).shape is not None


def _call(
    op: Op, site: Site, given: Sequence[TensorType | None], model: ModelProto
) -> Sequence[TensorType]:
    """The types, without sizes, that an op gives for ones; none where it does not run on them."""
    version = op.current
    for size in _SIZES:
        inputs = [None if kind is None else _ones(kind, size) for kind in given]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                values = attribute_values(site.node, model, site.where)
                instance = instantiate(version, version.schema, values, site.where)
                returned = instance.compute(*inputs)  # type: ignore[attr-defined]  # every op has one
            results = returned if isinstance(returned, tuple) else (returned,)
            return [type_of(result).without_sizes() for result in results]
        except Exception:  # noqa: S112  # ones are no example of the user's: what it raises on them says nothing
            continue
    return ()


def _ones(kind: TensorType, size: int) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else size for dim in kind.shape or ()]
    assert kind.dtype is not None, "with_ranks asks for it"  # noqa: S101  # for mypy
    if kind.dtype.name == "string":
        return np.full(shape, "1", object)
    return np.ones(shape, kind.dtype.numpy)


def _declare(site: Site, kinds: Sequence[TensorType]) -> None:
    """Write ranks into the graph of a node, beside the dtypes that are known."""
    if not isinstance(site.scope, GraphProto):
        return
    for name, kind in zip(site.node.output, kinds, strict=False):
        infos = [info for info in (*site.scope.output, *site.scope.value_info) if info.name == name]
        if name and not infos:
            site.scope.value_info.add(name=name, type=type_proto(kind))
        for info in infos:
            if not info.type.tensor_type.HasField("shape"):
                element = info.type.tensor_type.elem_type or type_proto(kind).tensor_type.elem_type
                info.type.CopyFrom(type_proto(kind))
                info.type.tensor_type.elem_type = element
