"""Two models as one to look at: all nodes of b, and those that only a has, between the tensors that both have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.diffs.models.change import Change
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import without_weights
from pyopnb.models.nodes import bodies
from pyopnb.ops.names import fresh_name

__all__ = ["Merged", "badges", "merge"]

_OF_BOTH = ("changed", "rewired", "weight")  # changes of nodes that both models have


@dataclass(frozen=True)
class Merged:
    """The nodes of two models.

    Attributes
    ----------
    model : ModelProto
        To be drawn; it need not be valid.
    marks : dict
        The badges of the nodes of a by their index in ``model``.
    names : dict
        The tensors that only a has, and their names in ``model``.
    """

    model: ModelProto
    marks: dict[int, str]
    names: dict[str, str]


def badges(changes: Iterable[Change], side: str) -> dict[int, str]:
    """The badges of nodes of one model's main graph by their index, with a sign where the other model lacks the node.

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
            continue  # in a body or a function: the table has it
        kind = "changed" if change.kind == "weight" else change.kind
        if kind not in (*_OF_BOTH, "added", "removed") and change.a and change.b:
            kind = f"{'-' if side == 'a' else '+'}{kind}"
        elif kind in ("fused", "folded"):
            kind = f"-{kind}"
        for node in change.a if side == "a" else change.b:
            marks.setdefault(node.place, kind)
    return marks


def merge(
    a: ModelProto, b: ModelProto, only_a: Mapping[int, str], tensors: Mapping[str, str]
) -> Merged:
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
    Merged

    Raises
    ------
    ModelError
        Some of them need what b computes only after what is made of them, so that there is no such graph.
    """
    one, model = (without_weights(each).proto for each in (a, b))
    marks: dict[int, str] = {}
    merger = _Merger(one.graph, model.graph, tensors, list(only_a))
    for place, mark in only_a.items():
        marks[len(model.graph.node)] = mark
        model.graph.node.append(merger.renamed(place))
    merger.add_readers()
    merger.add_ends()
    GraphIndex(model.graph).refuse_cycles()
    return Merged(model, marks, merger.names)


class _Merger:
    def __init__(
        self, a: GraphProto, b: GraphProto, tensors: Mapping[str, str], places: Sequence[int]
    ) -> None:
        self.names: dict[str, str] = {}
        self._places = places  # of the nodes that only a has
        self._a, self._b, self._index, self._tensors = a, b, GraphIndex(a), tensors
        self._of_b = {*(of_b := GraphIndex(b)).initializers, *of_b.inputs, *of_b.producers}
        self._makes = {name for place in places for name in a.node[place].output if name}

    def name(self, name: str) -> str:
        """The name in b of a tensor of a; a new one if only a has it."""
        partner = self._tensors.get(name, "")
        if not name or (name not in self._makes and partner in self._of_b):
            return partner
        if name not in self.names:
            new = fresh_name(name, self._of_b, " (a)")
            self.names[name] = new
            self._of_b.add(new)
        return self.names[name]

    def renamed(self, place: int) -> NodeProto:
        """A node of a. Its bodies are left out, and what they read becomes inputs."""
        node, copy = self._a.node[place], NodeProto()
        copy.CopyFrom(node)
        if bodies(node):
            del copy.attribute[:]
            copy.attribute.extend(
                each for each in node.attribute if not each.HasField("g") and not each.graphs
            )
        read = (
            dict.fromkeys(name for _, name in self._index.reads(place))
            if bodies(node)
            else node.input
        )
        copy.input[:] = [self.name(name) for name in read]
        copy.output[:] = [self.name(name) for name in node.output]
        return copy

    def add_readers(self) -> None:
        """Let the nodes that both have read what they read in a."""
        makers = {name: node for node in self._b.node for name in node.output if name}
        removed = set(self._places)
        for place, node in enumerate(self._a.node):
            lost = [name for name in node.input if name in self._makes]
            if lost and place not in removed:
                partners = [
                    makers[self._tensors[name]]
                    for name in node.output
                    if self._tensors.get(name) in makers
                ]
                for partner in partners[:1]:
                    partner.input.extend(self.name(name) for name in lost)

    def add_ends(self) -> None:
        """The inputs, weights and constants that only nodes of a read, and the outputs that only these make."""
        graph, read = self._b, dict(self.names)
        for infos, added in (
            (self._a.input, graph.input),
            (self._a.initializer, graph.initializer),
        ):
            for info in infos:
                if info.name in read and info.name not in self._makes:
                    added.add().CopyFrom(info)
                    added[-1].name = read[info.name]
        for place in {
            self._index.producers[name][0] for name in read if name in self._index.producers
        } - {*self._places}:
            graph.node.append(self.renamed(place))  # a Constant, which no diff counts
        for infos, added in (
            (self._a.output, graph.output),
            (self._a.value_info, graph.value_info),
        ):
            for info in infos:
                if info.name in self._makes:
                    added.add().CopyFrom(info)
                    added[-1].name = self.name(info.name)
