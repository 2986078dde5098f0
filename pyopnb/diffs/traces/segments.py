"""The main graph of a traced model, and its segments: the nodes between known tensors.

A node with bodies is one unit: it also reads the tensors that its bodies read from the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine import GraphIndex, protos
from pyopnb.traces import Trace

__all__ = ["Segment", "Side", "TraceGraph", "called", "same_op", "turned_otherwise"]


# Nodes that give the same numbers in another form.
_TURNING_OPS = ("DepthToSpace", "Flatten", "Reshape", "SpaceToDepth", "Squeeze", "Transpose")


@dataclass(frozen=True)
class Segment:
    """The nodes that compute one tensor from known ones.

    Attributes
    ----------
    nodes : tuple of int
        Positions of the nodes in `TraceGraph.nodes`; the last one produces the tensor.
    ends : tuple of str
        The known tensors and the feeds that they read.
    weights : tuple of str
        The initializers that they read.
    """

    nodes: tuple[int, ...]
    ends: tuple[str, ...]
    weights: tuple[str, ...]


class Side(NamedTuple):
    """One of two runs that are compared, or arrays beside the run whose names they have.

    Attributes
    ----------
    graph : TraceGraph
        Of its model.
    arrays : mapping
        The values by name.
    """

    trace: Trace
    graph: TraceGraph
    arrays: Mapping[str, Any]

    @classmethod
    def of(cls, trace: Trace) -> Side:
        """Index the graph and the arrays of a trace."""
        return cls(trace, TraceGraph(trace.model), dict(trace.items()))

    def weight(self, name: str) -> np.ndarray | None:
        """Return the value of an initializer or a Constant node, or None."""
        position = self.graph.producer.get(name)
        if position is None:
            return self.trace.initializers.get(name)
        value = protos.constant_value(self.graph.nodes[position])
        if not isinstance(value, TensorProto):
            return None
        return np.asarray(numpy_helper.to_array(value))


class TraceGraph:
    """The main graph of a model, by the names of its tensors.

    Examples
    --------
    >>> import pyopnb
    >>> graph = TraceGraph(
    ...     pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  b = Neg(a)  y = Add(b, x) }")
    ... )
    >>> graph.between("y", {"a"})
    Segment(nodes=(1, 2), ends=('x', 'a'), weights=())
    """

    def __init__(self, model: ModelProto) -> None:
        graph = GraphIndex(model.graph)
        # A broken graph is named here, and not by a KeyError in a later search.
        graph.refuse_unknown_names()
        graph.refuse_cycles()
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        self.weights = graph.initializers.keys()
        # ONNX Runtime takes nodes in any order; here they are in one in which they can run.
        self.nodes: list[NodeProto] = [node for _, node in graph.in_order()]
        self.reads = [_read(graph, index) for index in graph.order]
        self.readers: dict[str, list[int]] = {}
        self.producer: dict[str, int] = {}
        self.constants: set[int] = set()
        for position, node in enumerate(self.nodes):
            self.producer |= {name: position for name in node.output if name}
            if protos.is_constant(node):
                self.constants.add(position)
            for name in self.reads[position]:
                self.readers.setdefault(name, []).append(position)

    @cached_property
    def order(self) -> list[str]:
        """List every tensor: inputs, then outputs of nodes in order, then outputs of the model.

        Constants and weights are among them only if they are outputs of the model.
        """
        results = []
        for x, position in self.producer.items():
            if position not in self.constants:
                results.append(x)
        return list(dict.fromkeys([*self.inputs, *results, *self.outputs]))

    def uses(self, name: str) -> list[str]:
        """List the ops of the nodes that read a tensor, and "" if it is an output."""
        ops = [protos.full_name(self.nodes[position]) for position in self.readers.get(name, ())]
        return sorted([*ops, *[""] * (name in self.outputs)])

    def between(self, names: str | Collection[str], known: Collection[str]) -> Segment:
        """Return the nodes that compute one or several tensors from known ones."""
        # Upwards from the tensors, until all that is read is known. No recursion: chains are long.
        # An output of the model may be a weight or an input, which no node makes.
        ends = [names] if isinstance(names, str) else names
        nodes = {self.producer[name] for name in ends if name in self.producer}
        waiting = list(nodes)
        edges: dict[str, None] = {}
        weights: dict[str, None] = {}
        while waiting:
            for read in self.reads[waiting.pop()]:
                if read in self.weights:
                    weights[read] = None
                elif read not in self.producer or read in known:
                    edges[read] = None
                elif self.producer[read] not in nodes:
                    nodes.add(self.producer[read])
                    waiting.append(self.producer[read])
        # In the order of the graph, its inputs first.
        in_order = sorted(edges, key=lambda name: (self.producer.get(name, -1), name))
        return Segment(tuple(sorted(nodes)), tuple(in_order), tuple(weights))

    def around(self, name: str) -> Iterator[int]:
        """Yield the nodes that make or read a tensor."""
        for position, node in enumerate(self.nodes):
            if name in node.output or name in self.reads[position]:
                yield position

    def names(self, segment: Segment, without: Collection[int]) -> Iterator[str]:
        """Name the nodes of a segment, without Constants and excluded ones."""
        for position in segment.nodes:
            if position not in without and position not in self.constants:
                yield called(self.nodes[position])


def _read(graph: GraphIndex, index: int) -> tuple[str, ...]:
    """Return the values of the graph that a node or a body in it reads, each once."""
    return tuple(dict.fromkeys(name for _, name in graph.reads(index) if graph.defines(name)))


def same_op(a: TraceGraph, name_a: str, b: TraceGraph, name_b: str) -> bool:
    """Tell whether nodes of one op make two tensors."""
    if name_a not in a.producer or name_b not in b.producer:
        return False
    nodes = a.nodes[a.producer[name_a]], b.nodes[b.producer[name_b]]
    return protos.full_name(nodes[0]) == protos.full_name(nodes[1])


def turned_otherwise(a: TraceGraph, name_a: str, b: TraceGraph, name_b: str) -> bool:
    """Tell whether a node of both graphs changes the form in two ways, for the same readers.

    That is a difference, and no other layout.
    """
    if not same_op(a, name_a, b, name_b) or a.uses(name_a) != b.uses(name_b):
        return False
    return b.nodes[b.producer[name_b]].op_type in _TURNING_OPS


def called(node: NodeProto) -> str:
    """Name a node in messages: its name, or else its first output, and its op."""
    return sanitize(
        f"{node.name or protos.first_output(node)} ({protos.full_name(node).removeprefix('::')})",
        120,
    )
