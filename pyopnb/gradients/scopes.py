"""Names that are bound once in a whole model, bodies included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.engine import op_names, protos

__all__ = ["distinguish", "rename_ports"]


def distinguish(model: ModelProto) -> None:
    """Rename tensors of a body if another graph of the model has the same names.

    ONNX lets sibling bodies share names, with values of different types. onnx-ad keeps types and
    constants by name alone, and repeats the nodes of a body in the body of its gradient, where
    the inference of data in onnx takes the second for the first.

    Parameters
    ----------
    model : ModelProto
        Without local functions; it is changed. The main graph keeps its names.
    """
    pending: list[tuple[GraphProto, dict[str, str]]] = []
    for node in model.graph.node:
        pending += [(body, {}) for body in protos.bodies(node)]
    if not pending:
        return
    used_names = set(_bound_names(model.graph))
    seen = set(used_names)
    for node in protos.nodes_in(model.graph):
        used_names.update(node.input, node.output)
    # The list grows while it is walked.
    for body, outer in pending:
        # A body that binds a name hides the one that was renamed around it.
        names = dict(outer)
        used_names.update(_bound_names(body))
        for name in _bound_names(body):
            names.pop(name, None)
            if name in seen:
                names[name] = op_names.fresh_name(name, used_names)
                used_names.add(names[name])
        _rename(body, names)
        seen.update(_bound_names(body))
        for node in body.node:
            pending += [(inner, names) for inner in protos.bodies(node)]


def _bound_names(graph: GraphProto) -> list[str]:
    names = [info.name for info in graph.input]
    names += [tensor.name for tensor in graph.initializer]
    for node in graph.node:
        names += filter(None, node.output)
    return names


def _rename(body: GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors that a body defines and reads, but not inside its nodes' own bodies."""
    holders = [*body.input, *body.output, *body.value_info, *body.initializer]
    for holder in holders:
        holder.name = names.get(holder.name, holder.name)
    rename_ports(body.node, names)


def rename_ports(nodes: Iterable[NodeProto], names: Mapping[str, str]) -> None:
    """Rename tensors where nodes read and write them, but not inside the nodes' bodies."""
    for node in nodes:
        for ports in (node.input, node.output):
            for position, name in enumerate(ports):
                if name in names:
                    ports[position] = names[name]
