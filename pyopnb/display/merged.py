"""Merge two models into one to look at: all nodes of b, and the nodes that only a has.

The nodes of a are between the tensors that both models have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import ModelProto

from pyopnb.diffs import model_diffs
from pyopnb.engine import GraphIndex, model_files, op_names, protos

__all__ = ["badges", "by_output", "merge"]

# These changes concern nodes that both models have.
_OF_BOTH = ("changed", "rewired")


def badges(changes: Iterable[model_diffs.Change], side: str) -> dict[int, str]:
    """Choose the badges of nodes of one model's main graph, by their index.

    A badge has a sign where the other model lacks the node.

    Parameters
    ----------
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
        mark = change.kind
        if change.kind == "weight":
            mark = "changed"
        if mark not in (*_OF_BOTH, "added", "removed"):
            if change.a and change.b:
                mark = f"{'-' if side == 'a' else '+'}{mark}"
            elif mark == "fused":
                mark = f"-{mark}"
        for node in change.a if side == "a" else change.b:
            marks.setdefault(node.place, mark)
    return marks


def by_output(model: ModelProto, marks: Mapping[int, str]) -> dict[str, str]:
    """Give badges to the first outputs of their nodes."""
    return {protos.first_output(model.graph.node[place]): mark for place, mark in marks.items()}


def merge(
    a: ModelProto, b: ModelProto, only_a: Mapping[int, str], tensors: Mapping[str, str]
) -> tuple[ModelProto, dict[str, str], dict[str, str]]:
    """Put the nodes that only a has into b.

    Parameters
    ----------
    only_a : mapping
        These nodes by their index, and their badges.
    tensors : mapping
        Names of tensors of a to names of tensors of b.

    Returns
    -------
    tuple of ModelProto, dict and dict
        A model to be drawn, which need not be valid; the badges by outputs in it; the tensors that
        only a has, and their names in it.

    Raises
    ------
    ModelError
        There is no such graph, as some of the nodes need results of b that depend on them.
    """
    merger = _Merger(a, b, set(only_a), tensors)
    marks = {}
    for number, mark in only_a.items():
        marks[merger.add(number)] = mark
    merger.add_lost_lines()
    merger.add_ends()
    # Two orders of the same computation cannot be drawn as one graph.
    GraphIndex(merger.graph).refuse_cycles()
    return merger.model, marks, merger.names


class _Merger:
    """A copy of b that gets nodes of a.

    Attributes
    ----------
    model : ModelProto
    names : dict of str to str
        The tensors that only a has, and their names in the copy.
    """

    def __init__(
        self, a: ModelProto, b: ModelProto, only_a: set[int], tensors: Mapping[str, str]
    ) -> None:
        self.model = model_files.without_weights(b).proto
        self.graph = self.model.graph
        self.names: dict[str, str] = {}
        self._a, self._only_a, self._tensors = a.graph, only_a, tensors
        self._index = GraphIndex(a.graph)
        self._makers = {name: node for node in self.graph.node for name in node.output if name}
        of_b = GraphIndex(self.graph)
        self._names_of_b = {*of_b.initializers, *of_b.inputs, *self._makers}
        self._outputs: set[str] = set()
        for number in only_a:
            self._outputs.update(filter(None, a.graph.node[number].output))

    def _renamed(self, name: str) -> str:
        """Return the name that a tensor of a has in the copy."""
        partner = self._tensors.get(name, "")
        if not name or (partner in self._names_of_b and name not in self._outputs):
            return partner
        if name not in self.names:
            self.names[name] = op_names.fresh_name(name, self._names_of_b, " (a)")
            self._names_of_b.add(self.names[name])
        return self.names[name]

    def add(self, number: int) -> str:
        """Add a node of a; return its first output."""
        node = self._a.node[number]
        # Bodies are left out, and tensors that they read become inputs.
        copy = self.graph.node.add(op_type=node.op_type, domain=node.domain, name=node.name)
        copy.attribute.extend(x for x in node.attribute if not (x.HasField("g") or x.graphs))
        names = dict.fromkeys(name for _, name in self._index.reads(number))
        copy.input.extend(map(self._renamed, names))
        copy.output.extend(map(self._renamed, node.output))
        return protos.first_output(copy)

    def add_lost_lines(self) -> None:
        """Draw a second line from a removed node to a node of both that read it in a."""
        for number, node in enumerate(self._a.node):
            reader = self._makers.get(self._tensors.get(protos.first_output(node), ""))
            if number in self._only_a or reader is None:
                continue
            lost = [name for name in node.input if name in self._outputs]
            reader.input.extend(map(self._renamed, lost))

    def add_ends(self) -> None:
        """Add the inputs and outputs that only a has."""
        for name, new in self.names.items():
            if name not in self._outputs:
                self.graph.input.add(name=new)
        for info in self._a.output:
            if info.name in self._outputs:
                self.graph.output.add(name=self._renamed(info.name))
