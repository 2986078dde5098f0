"""Two models as one to look at: all nodes of b, and those that only a has, between the tensors that both have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import ModelProto, NodeProto

from pyopnb.diffs.models.change import Change
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import without_weights
from pyopnb.models.nodes import first_output
from pyopnb.ops.names import fresh_name

__all__ = ["badges", "by_output", "merge"]

# These changes concern nodes that both models have.
_OF_BOTH = ("changed", "rewired")


def badges(changes: Iterable[Change], side: str) -> dict[int, str]:
    """Choose the badges of nodes of one model's main graph by their index, with a sign where the other model lacks the node.

    Parameters
    ----------
    changes : iterable of Change
    side : str
        ``"a"`` or ``"b"``.

    Returns
    -------
    dict
        ``changed``, ``rewired``, ``removed``, ``added``, or as ``-fused`` and ``+fused``.
    """
    marks: dict[int, str] = {}
    for change in changes:
        if change.path:
            # Changes in a body or a function are in the table only.
            continue
        mark = "changed" if change.kind == "weight" else change.kind
        if mark not in (*_OF_BOTH, "added", "removed"):
            if change.a and change.b:
                mark = f"{'-' if side == 'a' else '+'}{mark}"
            elif mark in ("fused", "folded"):
                mark = f"-{mark}"
        for node in change.a if side == "a" else change.b:
            marks.setdefault(node.place, mark)
    return marks


def by_output(model: ModelProto, marks: Mapping[int, str]) -> dict[str, str]:
    """Give badges to the first outputs of their nodes."""
    return {first_output(model.graph.node[place]): mark for place, mark in marks.items()}


def merge(
    a: ModelProto, b: ModelProto, only_a: Mapping[int, str], tensors: Mapping[str, str]
) -> tuple[ModelProto, dict[str, str], dict[str, str]]:
    """Put the nodes that only a has into b.

    Parameters
    ----------
    a, b : ModelProto
    only_a : mapping
        These nodes by their index, and their badges.
    tensors : mapping
        Names of a's tensors to those of b's.

    Returns
    -------
    tuple of ModelProto, dict and dict
        A model to be drawn, which need not be valid; the badges by outputs in it; the tensors that only a has, and their names
        in it.

    Raises
    ------
    ModelError
        Some of them need what b computes only after what is made of them, so that there is no such graph.
    """
    model = without_weights(b).proto
    graph = model.graph
    index = GraphIndex(a.graph)
    of_b = GraphIndex(graph)
    makers = {name: node for node in graph.node for name in node.output if name}
    names_of_b = {*of_b.initializers, *of_b.inputs, *makers}
    outputs = {name for number in only_a for name in a.graph.node[number].output if name}
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        partner = tensors.get(name, "")
        if not name or (partner in names_of_b and name not in outputs):
            return partner
        if name not in names:
            names[name] = fresh_name(name, names_of_b, " (a)")
            names_of_b.add(names[name])
        return names[name]

    marks: dict[str, str] = {}
    for number, mark in only_a.items():
        node = a.graph.node[number]
        # Bodies are left out, and what they read becomes inputs.
        copy = NodeProto(op_type=node.op_type, domain=node.domain, name=node.name)
        copy.attribute.extend(x for x in node.attribute if not (x.HasField("g") or x.graphs))
        copy.input.extend(
            renamed(name) for name in dict.fromkeys(n for _, n in index.reads(number))
        )
        copy.output.extend(map(renamed, node.output))
        graph.node.append(copy)
        marks[first_output(copy)] = mark
    # A node of both that reads something else in a gets a second line, from the removed node.
    for number, node in enumerate(a.graph.node):
        lost = [name for name in node.input if name in outputs and number not in only_a]
        reader = makers.get(tensors.get(first_output(node), "")) if lost else None
        if reader is not None:
            reader.input.extend(map(renamed, lost))
    # What else only a has stands at the ends of the graph.
    for name, new in names.items():
        if name not in outputs:
            graph.input.add(name=new)
    for info in a.graph.output:
        if info.name in outputs:
            graph.output.add(name=renamed(info.name))
    # Two orders of the same computation cannot be drawn as one graph.
    GraphIndex(graph).refuse_cycles()
    return model, marks, names
