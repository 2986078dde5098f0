"""Graphs as numbers: equal numbers stand for equal computations, whatever the names.

Keys are tuples of numbers of earlier keys, and a table that both graphs share gives each new key the next number. So nothing
can collide, nothing is hashed twice, and no depth costs stack.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx import FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, numpy_helper

from pyopnb.diffs.models.attributes import Defaults, attribute_key
from pyopnb.models.index import GraphIndex
from pyopnb.models.nodes import constant_value
from pyopnb.ops.errors import ModelError, sanitize
from pyopnb.ops.registry import canonical_domain

__all__ = ["Contents", "Graph", "Numbers", "Prints", "graph_of", "prints"]


class Numbers(dict[Hashable, int]):
    """Keys to numbers, the next number for a key that is new."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Contents:
    """Numbers of what tensors hold, each tensor read once.

    Parameters
    ----------
    numbers : Numbers
    folder : str, optional
        Where external data is; tensors whose data nobody can read are known by where it would be.
    taken_out : mapping, optional
        Tensors that had to leave the model, by name.
    """

    def __init__(self, numbers: Numbers, folder: str | None = None, taken_out: Mapping[str, TensorProto] | None = None) -> None:
        self.numbers, self.folder, self._taken_out = numbers, folder, taken_out or {}

    def whole(self, tensor: TensorProto) -> TensorProto:
        """The tensor, or the one that was taken out of the model in its place."""
        return self._taken_out.get(tensor.name, tensor) if tensor.data_location == TensorProto.EXTERNAL else tensor

    def of(self, tensor: TensorProto | SparseTensorProto) -> int:
        """Equal numbers for equal dtype, shape and bytes, however they are stored."""
        if isinstance(tensor, SparseTensorProto):
            return self.numbers["sparse", tuple(tensor.dims), self.of(tensor.values), self.of(tensor.indices)]
        tensor = self.whole(tensor)
        head = ("tensor", tensor.data_type, tuple(tensor.dims))
        if tensor.data_location == TensorProto.EXTERNAL:
            return self.numbers[*head, self._outside(tensor)]
        if tensor.HasField("raw_data"):
            return self.numbers[*head, _digest(tensor.raw_data)]
        if tensor.data_type == TensorProto.STRING:
            return self.numbers[*head, tuple(tensor.string_data)]
        try:
            return self.numbers[*head, _digest(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)]
        except (ValueError, TypeError, KeyError):  # a damaged one is equal to those of the same bytes
            bare = TensorProto()
            bare.CopyFrom(tensor)
            bare.name = bare.doc_string = ""
            return self.numbers[*head, "damaged", _digest(bare.SerializeToString(deterministic=True))]

    def _outside(self, tensor: TensorProto) -> Hashable:
        said = {entry.key: entry.value for entry in tensor.external_data}
        if self.folder is None:
            return "outside", tuple(sorted(said.items()))
        path = Path(self.folder) / said.get("location", "")
        start, length = (_bytes(said.get(key) or "0", tensor.name) for key in ("offset", "length"))
        with path.open("rb") as file:
            size = path.stat().st_size
            end = min(start + length, size) if length else size
            if end <= start:
                return _digest(b"")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with mapped, memoryview(mapped) as view, view[start:end] as part:
                return _digest(part)


def _bytes(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(f"initializer {sanitize(name)}", expected="offset and length in bytes", got=sanitize(text))
    return int(text)


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


class Graph(GraphIndex):
    """A graph or function, indexed for comparison: beside its names, the numbers of its weights and of its nodes.

    `graph_of` makes one with all of its parts.

    Attributes
    ----------
    tensors : dict
        Initializers and what Constant nodes give, by name.
    weights : dict
        The numbers of their contents, by name.
    constants : frozenset of int
        The Constant nodes in there.
    local : list of int
        Each node's op and attributes, those that are the schema's defaults left out, with the shapes of its bodies.
    """

    bodies: dict[int, list[tuple[str, Graph]]]  # type: ignore[assignment]
    outer: Graph | None

    def __init__(
        self,
        scope: GraphProto | FunctionProto,
        defaults: Defaults,
        contents: Contents,
        outer: Graph | None = None,
        holder: tuple[int, str] | None = None,
    ) -> None:
        super().__init__(scope, outer, holder)
        self.defaults, self.contents = defaults, contents
        self.tensors: dict[str, TensorProto | SparseTensorProto] = {}
        for name, tensor in self.initializers.items():
            self.tensors[name] = contents.whole(tensor) if isinstance(tensor, TensorProto) else tensor
        constants = {index: self._constant(node) for index, node in enumerate(self.nodes)}
        self.constants = frozenset(index for index, tensor in constants.items() if tensor is not None)
        self.tensors |= {self.nodes[i].output[0]: tensor for i, tensor in constants.items() if tensor is not None}
        self.weights = {name: contents.of(tensor) for name, tensor in self.tensors.items()}
        self.local: list[int] = []

    def _body(self, graph: GraphProto, index: int, attribute: str) -> Graph:
        return Graph(graph, self.defaults, self.contents, self, (index, attribute))

    def _constant(self, node: NodeProto) -> TensorProto | SparseTensorProto | None:
        given = len(node.output) == 1 and node.output[0] not in self.initializers
        return constant_value(node) if given else None

    def weight(self, name: str) -> int | None:
        """The number of a weight's content, be it held here or outside."""
        graph = self.resolve(name)
        return graph.weights.get(name) if isinstance(graph, Graph) else None

    def tensor(self, name: str) -> TensorProto | SparseTensorProto | None:
        """The weight of a name, be it held here or outside."""
        graph = self.resolve(name)
        return graph.tensors.get(name) if isinstance(graph, Graph) else None

    def predecessors(self, index: int) -> Iterator[tuple[int, int, int]]:
        """Slot, and the producing node and its slot, for what a node reads of nodes that are no Constants."""
        for slot, name in self.reads(index):
            producer = self.producers.get(name)
            if producer is not None and producer[0] not in self.constants:
                yield slot, *producer

    def number_nodes(self) -> None:
        """Give each node its number in `local`; the nodes of its bodies have theirs already."""
        self.local = [self._number(index) for index in range(len(self.nodes))]

    def _number(self, index: int) -> int:
        node, numbers = self.nodes[index], self.contents.numbers
        attrs = []
        if node.attribute:
            defaults = self.defaults.of(node)
            for attribute in node.attribute:
                value = attribute_key(attribute, self.contents.of)
                if attribute.name in defaults and attribute_key(defaults[attribute.name], self.contents.of) == value:
                    continue
                attrs.append((attribute.name, value))
            attrs.sort(key=lambda pair: pair[0])
        bodies = sorted(self.bodies.get(index, ()), key=lambda pair: pair[0])
        shapes = tuple((name, body.shape()) for name, body in bodies)
        return numbers["node", canonical_domain(node.domain), node.op_type, node.overload, tuple(attrs), shapes]

    def shape(self) -> int:
        """A number for the graph as a body, whatever it is given from outside."""
        printed = prints(self, {})
        numbers = self.contents.numbers
        results = tuple(printed.values.get(name, -1) for name in self.outputs)
        return numbers["body", len(self.inputs), results, tuple(sorted(printed.up))]


def graph_of(scope: GraphProto | FunctionProto, defaults: Defaults, contents: Contents) -> Graph:
    """A graph or function with all the bodies in it, read."""
    top = Graph(scope, defaults, contents)
    for graph in reversed([graph for graph in top.walk() if isinstance(graph, Graph)]):  # inner ones first
        graph.number_nodes()
    return top


@dataclass(frozen=True)
class Prints:
    """Numbers of the nodes of a graph.

    Attributes
    ----------
    up, down : list of int
        By place: what a node computes from the graph's inputs, and what becomes of it on the way to the outputs.
    values : dict
        What each tensor is, by name.
    """

    up: list[int]
    down: list[int]
    values: dict[str, int]


def prints(graph: Graph, given: Mapping[str, int], ends: Mapping[str, int] | None = None) -> Prints:
    """Number the nodes of a graph from both ends.

    Parameters
    ----------
    graph : Graph
    given : mapping
        Numbers of its inputs and of what it reads from outside; inputs without one are known by their position, others are
        all the same.
    ends : mapping, optional
        Numbers of its outputs; without them, ``down`` is empty.
    """
    numbers = graph.contents.numbers
    values = {name: numbers["input", place] for place, name in enumerate(graph.inputs)}
    values |= {name: graph.weights[name] for name in graph.weights}
    outside = numbers["outside"]
    for name in graph.free:
        held = graph.outer.weight(name) if graph.outer is not None else None
        values[name] = outside if held is None else held
    values |= {name: number for name, number in given.items() if name not in graph.weights}
    up = [-1] * len(graph.nodes)
    for place in graph.order:
        node = graph.nodes[place]
        if place in graph.constants:
            up[place] = graph.weights[node.output[0]]
            continue
        read = [values.get(name, -2) if name else -1 for name in node.input]
        while read and read[-1] == -1:
            read.pop()
        caught = tuple(sorted({values.get(name, -2) for name in graph.captures.get(place, ())}))
        number = up[place] = numbers["up", graph.local[place], tuple(read), caught]
        for slot, name in enumerate(node.output):
            if name and graph.producers.get(name) == (place, slot):
                values[name] = numbers["slot", number, slot] if slot else number
    return Prints(up, [] if ends is None else _down(graph, ends), values)


def _down(graph: Graph, ends: Mapping[str, int]) -> list[int]:
    numbers = graph.contents.numbers
    down = [-1] * len(graph.nodes)
    for place in reversed(graph.order):
        node = graph.nodes[place]
        weights = tuple(graph.weights.get(name, -1) for name in node.input)
        uses = tuple(
            (tuple(sorted((down[reader], slot) for reader, slot in graph.consumers.get(name, ()))), ends.get(name, -1))
            for name in node.output
        )
        down[place] = numbers["down", graph.local[place], weights, uses]
    return down
