"""Find the types of a model's tensors, with the ranks that neither a hint nor ``infer`` tells."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, TypeProto, helper

from pyopnb.engine import (
    ANY,
    Op,
    TensorType,
    instantiate,
    op_inference,
    op_names,
    protos,
    registry,
    type_of,
)

__all__ = ["make_inputs", "name_outputs", "types_of", "with_ranks"]

_SIZES = (2, 1)
"""Sizes to try for the unknown dimensions: one for all of them, so that sums and products fit."""


def types_of(graph: GraphProto) -> dict[str, TypeProto]:
    """Return the declared types of the values of a graph."""
    types = {}
    for info in (*graph.value_info, *graph.input, *graph.output):
        if info.HasField("type"):
            types[info.name] = info.type
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


def make_inputs(graph: GraphProto, names: Container[str]) -> None:
    """Turn initializers of a graph into inputs, in place."""
    types = types_of(graph)
    # Up to IR version 3, an initializer is also listed among the inputs.
    declared = {info.name for info in graph.input}
    kept = []
    for tensor in graph.initializer:
        if tensor.name not in names:
            kept.append(tensor)
        elif tensor.name not in declared:
            graph.input.add(name=tensor.name, type=types[tensor.name])
    graph.ClearField("initializer")
    graph.initializer.extend(kept)


def name_outputs(model: ModelProto) -> None:
    """Name the outputs that nodes of ops with ``backward`` leave out, as it gets all outputs.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    sites = list(protos.walk(model))
    used_names: set[str] = set()
    for site in sites:
        used_names.update(site.node.input, site.node.output)
    for site in sites:
        op = registry.find(site.node.domain, site.node.op_type)
        if op is None or op.current.gradient is None:
            continue
        outputs = site.node.output
        for position in range(len(op.current.schema.outputs or ())):
            if position == len(outputs):
                outputs.append("")
            if not outputs[position]:
                stem = f"{protos.first_output(site.node)}_{position}"
                outputs[position] = op_names.fresh_name(stem, used_names)
                used_names.add(outputs[position])


def with_ranks(model: ModelProto) -> ModelProto:
    """Copy a model with the types of its tensors, as far as they can be known.

    An op that declares no shapes is called with ones for each of its nodes whose inputs have known
    ranks.

    Parameters
    ----------
    model : ModelProto
        Without local functions.
    """
    tried: set[int] = set()
    while True:
        typed = op_inference.infer_types(model)
        sites = list(protos.walk(typed))
        known_types = _known_types(sites)
        is_changed = False
        for number, site in enumerate(sites):
            op = registry.find(site.node.domain, site.node.op_type)
            if op is None or number in tried or not _lacks_rank(site, known_types):
                continue
            types = [_input_type(name, known_types) for name in site.node.input]
            if all(_is_complete(tensor_type) for tensor_type in types):
                tried.add(number)
                results = _call(op, site, types, typed)
                _declare(site, results)
                is_changed = is_changed or bool(results)
        if not is_changed:
            return typed
        # The types after these nodes can be inferred in the next round.
        model = typed


def _known_types(sites: Sequence[protos.Site]) -> dict[str, TensorType]:
    # An inner scope's names override names of the scopes around it, which walk gives first.
    known_types: dict[str, TensorType] = {}
    for scope in {id(site.scope): site.scope for site in sites}.values():
        if isinstance(scope, GraphProto):
            for name, proto in types_of(scope).items():
                known_types[name] = protos.type_of_proto(proto)
    return known_types


def _lacks_rank(site: protos.Site, known_types: Mapping[str, TensorType]) -> bool:
    return any(known_types.get(name, ANY).shape is None for name in site.node.output if name)


def _input_type(name: str, known_types: Mapping[str, TensorType]) -> TensorType | None:
    return known_types.get(name, ANY) if name else None


def _is_complete(tensor_type: TensorType | None) -> bool:
    # An input that is left out lacks nothing.
    if tensor_type is None:
        return True
    return tensor_type.shape is not None and tensor_type.dtype is not None


def _call(
    op: Op, site: protos.Site, types: Sequence[TensorType | None], model: ModelProto
) -> Sequence[TensorType]:
    """Return the types, without sizes, that an op gives for ones, or none if it fails on them."""
    version = op.current
    values = protos.attribute_values(site.node, model, site.where)
    for size in _SIZES:
        inputs = [
            None if tensor_type is None else _ones(tensor_type, size) for tensor_type in types
        ]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                instance = instantiate(version, version.schema, values, site.where)
                returned = instance.compute(*inputs)  # type: ignore[attr-defined]  # every op has one
            results = returned if isinstance(returned, tuple) else (returned,)
            return [type_of(result).without_sizes() for result in results]
        except Exception:  # noqa: S112  # the user never gave ones: an exception on them says nothing
            continue
    return ()


def _ones(tensor_type: TensorType, size: int) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else size for dim in tensor_type.shape or ()]
    assert tensor_type.dtype is not None, "with_ranks asks for it"  # noqa: S101  # for mypy
    if tensor_type.dtype.name == "string":
        return np.full(shape, "1", object)
    return np.ones(shape, tensor_type.dtype.numpy)


def _declare(site: protos.Site, types: Sequence[TensorType]) -> None:
    """Write the ranks of a node's outputs into its graph, and keep the dtypes declared there."""
    if not isinstance(site.scope, GraphProto):
        return
    for name, tensor_type in zip(site.node.output, types, strict=False):
        if not name:
            continue
        declared = [*site.scope.output, *site.scope.value_info]
        infos = [info for info in declared if info.name == name]
        if not infos:
            site.scope.value_info.add(name=name, type=protos.type_proto(tensor_type))
        for info in infos:
            if not info.type.tensor_type.HasField("shape"):
                element = info.type.tensor_type.elem_type
                info.type.CopyFrom(protos.type_proto(tensor_type))
                info.type.tensor_type.elem_type = element or info.type.tensor_type.elem_type
