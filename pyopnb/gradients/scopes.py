"""Names that are bound once in a whole model, bodies included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.models.nodes import bodies, walk

__all__ = ["distinguish"]


def distinguish(model: ModelProto) -> None:
    """Rename what a body binds and another graph of the model binds as well.

    ONNX lets sibling bodies share names, with values of different types. onnx-ad keeps types and constants by name alone, and
    repeats the nodes of a body in that of its gradient, where onnx's inference of data takes the second for the first.

    Parameters
    ----------
    model : ModelProto
        Without local functions; it is changed. The main graph keeps its names.
    """
    taken = {name for site in walk(model) for name in (*site.node.input, *site.node.output)}
    taken.update(_bound(model.graph))
    seen = set(_bound(model.graph))
    waiting: list[tuple[GraphProto, Mapping[str, str]]] = [
        (body, {}) for node in model.graph.node for body in bodies(node)
    ]
    for body, outer in waiting:  # grows while it is walked
        bound = dict.fromkeys(_bound(body))
        taken.update(bound)
        new = {name: _free(name, taken) for name in bound if name in seen}
        names = {name: now for name, now in outer.items() if name not in bound} | new
        if names:
            _rename(body, names)
        seen.update(_bound(body))
        waiting += [(inner, names) for node in body.node for inner in bodies(node)]


def _bound(graph: GraphProto) -> Iterator[str]:
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _free(name: str, taken: set[str]) -> str:
    free = next(other for n in count(1) if (other := f"{name}_{n}") not in taken)
    taken.add(free)
    return free


def _rename(body: GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a body binds and reads, but for what is inside its nodes' own bodies."""
    for holder in (*body.input, *body.output, *body.value_info, *body.initializer):
        holder.name = names.get(holder.name, holder.name)
    for sparse in body.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for node in body.node:
        _rename_ends(node, names)


def _rename_ends(node: NodeProto, names: Mapping[str, str]) -> None:
    for ends in (node.input, node.output):
        for place, name in enumerate(ends):
            ends[place] = names.get(name, name)
