"""Numbers for nodes: equal numbers mean equal computations, whatever the names.

This is Weisfeiler-Lehman hashing along the edges of a directed graph (Shervashidze et al., 2011): a node's key is its op,
attributes and weights with the numbers of what it reads, and once more with the numbers of what reads it. Instead of a hash,
each new key gets the next number from a table that both graphs share, so nothing can collide.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from onnx import FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, numpy_helper

from pyopnb.diffs.models.attributes import Defaults, attribute_key
from pyopnb.models.external_data import entries, find_data, original
from pyopnb.models.index import GraphIndex
from pyopnb.models.nodes import constant_value
from pyopnb.ops.names import canonical_domain

__all__ = ["Contents", "Fingerprints", "Graph", "Numbers", "fingerprints", "graph_of"]


class Numbers(dict[Hashable, int]):
    """Keys to numbers; a new key gets the next number."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Contents:
    """Numbers for the contents of tensors.

    Parameters
    ----------
    numbers : Numbers
    folder : str, optional
        The folder of external data; without it, external tensors count as equal if they refer to the same bytes.
    taken_out : mapping, optional
        Tensors that were replaced by external ones in the model, by name.
    """

    def __init__(
        self,
        numbers: Numbers,
        folder: str | None = None,
        taken_out: Mapping[str, TensorProto] | None = None,
    ) -> None:
        self.numbers, self.folder, self._taken_out = numbers, folder, taken_out or {}

    def original(self, tensor: TensorProto) -> TensorProto:
        """Return the tensor, or the one that it replaced in the model."""
        return original(tensor, self._taken_out)

    def of(self, tensor: TensorProto | SparseTensorProto) -> int:
        """Equal numbers for equal dtype, shape and bytes, however they are stored."""
        if isinstance(tensor, SparseTensorProto):
            return self.numbers[
                "sparse", tuple(tensor.dims), self.of(tensor.values), self.of(tensor.indices)
            ]
        tensor = self.original(tensor)
        head = ("tensor", tensor.data_type, tuple(tensor.dims))
        if tensor.data_location == TensorProto.EXTERNAL:
            return self.numbers[*head, self._external(tensor)]
        if tensor.HasField("raw_data"):
            raw = tensor.raw_data
            if tensor.data_type == TensorProto.BOOL:
                # Any byte but 0 is True, to NumPy and to `compared`.
                raw = raw.translate(_ZERO_OR_ONE)
            return self.numbers[*head, _digest(raw)]
        if tensor.data_type == TensorProto.STRING:
            return self.numbers[*head, tuple(tensor.string_data)]
        try:
            return self.numbers[
                *head, _digest(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)
            ]
        except (ValueError, TypeError, KeyError):  # damaged: equal to those of the same bytes
            bare = TensorProto()
            bare.CopyFrom(tensor)
            bare.name = bare.doc_string = ""
            return self.numbers[
                *head, "damaged", _digest(bare.SerializeToString(deterministic=True))
            ]

    def _external(self, tensor: TensorProto) -> Hashable:
        if self.folder is None:
            return "outside", tuple(sorted(entries(tensor).items()))
        place = find_data(tensor, self.folder)
        start = place.offset
        with place.path.open("rb") as file:
            size = place.path.stat().st_size
            end = min(start + place.length, size) if place.length else size
            if end <= start:
                return _digest(b"")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with mapped, memoryview(mapped) as view, view[start:end] as part:
                return _digest(part)


_ZERO_OR_ONE = bytes([0]) + bytes([1]) * 255


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


class Graph(GraphIndex):
    """A graph or function for comparison: an index with numbers for weights and nodes.

    `graph_of` creates one.

    Attributes
    ----------
    tensors : dict
        Initializers and the outputs of Constant nodes, by name.
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
            self.tensors[name] = (
                contents.original(tensor) if isinstance(tensor, TensorProto) else tensor
            )
        constants = {index: self._constant(node) for index, node in enumerate(self.nodes)}
        self.constants = frozenset(
            index for index, tensor in constants.items() if tensor is not None
        )
        self.tensors |= {
            self.nodes[i].output[0]: tensor for i, tensor in constants.items() if tensor is not None
        }
        self.weights = {name: contents.of(tensor) for name, tensor in self.tensors.items()}
        self.local: list[int] = []

    def _body(self, graph: GraphProto, index: int, attribute: str) -> Graph:
        return Graph(graph, self.defaults, self.contents, self, (index, attribute))

    def _constant(self, node: NodeProto) -> TensorProto | SparseTensorProto | None:
        given = len(node.output) == 1 and node.output[0] not in self.initializers
        return constant_value(node) if given else None

    def weight(self, name: str) -> int | None:
        """Return the number of a weight's content, in this graph or one around it."""
        graph = self.resolve(name)
        return graph.weights.get(name) if isinstance(graph, Graph) else None

    def tensor(self, name: str) -> TensorProto | SparseTensorProto | None:
        """Return the weight of a name, in this graph or one around it."""
        graph = self.resolve(name)
        return graph.tensors.get(name) if isinstance(graph, Graph) else None

    def predecessors(self, index: int) -> Iterator[tuple[int, int, int]]:
        """Input slot, node and output slot for each input that comes from a node other than Constant."""
        for slot, name in self.reads(index):
            producer = self.producers.get(name)
            if producer is not None and producer[0] not in self.constants:
                yield slot, *producer

    def number_nodes(self) -> None:
        """Fill `local`; that of the bodies must be filled already."""
        self.local = [self._number(index) for index in range(len(self.nodes))]

    def _number(self, index: int) -> int:
        node, numbers = self.nodes[index], self.contents.numbers
        attrs = []
        if node.attribute:
            defaults = self.defaults.of(node)
            for attribute in node.attribute:
                value = attribute_key(attribute, self.contents.of)
                if (
                    attribute.name in defaults
                    and attribute_key(defaults[attribute.name], self.contents.of) == value
                ):
                    continue
                attrs.append((attribute.name, value))
            attrs.sort(key=lambda pair: pair[0])
        bodies = sorted(self.bodies.get(index, ()), key=lambda pair: pair[0])
        shapes = tuple((name, body.shape()) for name, body in bodies)
        return numbers[
            "node", canonical_domain(node.domain), node.op_type, node.overload, tuple(attrs), shapes
        ]

    def shape(self) -> int:
        """Number the graph as a body, whatever it reads from outside."""
        printed = fingerprints(self, {})
        numbers = self.contents.numbers
        results = tuple(printed.values.get(name, -1) for name in self.outputs)
        return numbers["body", len(self.inputs), results, tuple(sorted(printed.up))]


def graph_of(scope: GraphProto | FunctionProto, defaults: Defaults, contents: Contents) -> Graph:
    """Build a graph or function, with all bodies in it, for comparison."""
    top = Graph(scope, defaults, contents)
    for graph in reversed(
        [graph for graph in top.walk() if isinstance(graph, Graph)]
    ):  # inner ones first
        graph.number_nodes()
    return top


@dataclass(frozen=True)
class Fingerprints:
    """Numbers of the nodes of a graph.

    Attributes
    ----------
    up, down : list of int
        By node: what it computes from the graph's inputs, and what the graph computes from it.
    values : dict
        The number of each tensor, by name.
    """

    up: list[int]
    down: list[int]
    values: dict[str, int]


def fingerprints(
    graph: Graph, given: Mapping[str, int], ends: Mapping[str, int] | None = None
) -> Fingerprints:
    """Number the nodes of a graph from both ends.

    Parameters
    ----------
    graph : Graph
    given : mapping
        Numbers of inputs and of names from outside. Without one, an input counts by its position, and all names from
        outside count as equal.
    ends : mapping, optional
        Numbers of the outputs; without them, ``down`` is empty.
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
        captured = tuple(sorted({values.get(name, -2) for name in graph.captures.get(place, ())}))
        number = up[place] = numbers["up", graph.local[place], tuple(read), captured]
        for slot, name in enumerate(node.output):
            if name and graph.producers.get(name) == (place, slot):
                values[name] = numbers["slot", number, slot] if slot else number
    return Fingerprints(up, [] if ends is None else _down(graph, ends), values)


def _down(graph: Graph, ends: Mapping[str, int]) -> list[int]:
    numbers = graph.contents.numbers
    down = [-1] * len(graph.nodes)
    for place in reversed(graph.order):
        node = graph.nodes[place]
        weights = tuple(graph.weights.get(name, -1) for name in node.input)
        uses = tuple(
            (
                tuple(
                    sorted((down[reader], slot) for reader, slot in graph.consumers.get(name, ()))
                ),
                ends.get(name, -1),
            )
            for name in node.output
        )
        down[place] = numbers["down", graph.local[place], weights, uses]
    return down
