"""Graphs as numbers: equal numbers stand for equal computations, whatever the names.

Keys are tuples of numbers of earlier keys, and a table that both graphs share gives each new key the next number. So nothing
can collide, nothing is hashed twice, and no depth costs stack.
"""

from __future__ import annotations

import hashlib
import mmap
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx import FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, numpy_helper

from pyopnb.diffs.models.attributes import Defaults, attribute_key
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

    def of(self, tensor: TensorProto) -> int:
        """Equal numbers for equal dtype, shape and bytes, however they are stored."""
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

    def of_sparse(self, sparse: SparseTensorProto) -> int:
        return self.numbers["sparse", tuple(sparse.dims), self.of(sparse.values), self.of(sparse.indices)]

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


class Graph:
    """A graph or function, read for comparison: what stands where, who makes and who reads what.

    Attributes
    ----------
    scope : GraphProto or FunctionProto
    nodes : list of NodeProto
    parent : Graph or None
        What a body stands in.
    inputs, outputs : list of str
        Inputs that must be fed, and outputs.
    tensors : dict
        Initializers and what Constant nodes give, by name.
    weights : dict
        The numbers of their contents, by name.
    constants : frozenset of int
        Places of the Constant nodes in there.
    made_by : dict
        Tensor name to the place of its node and the output slot.
    read_by : dict
        Tensor name to places of nodes and input slots; bodies read at slot -1.
    bodies : dict
        Place to attribute names and the graphs in there.
    captured : list of tuple of str
        What each node's bodies read from outside them.
    free : tuple of str
        What the graph reads from outside.
    local : list of int
        Each node's op and attributes, those that are the schema's defaults left out, with the shapes of its bodies.
    order : list of int
        Places, makers before readers; nodes on a circle, and behind one, last.
    """

    def __init__(
        self, scope: GraphProto | FunctionProto, defaults: Defaults, contents: Contents, parent: Graph | None = None
    ) -> None:
        self.scope, self.defaults, self.contents, self.parent = scope, defaults, contents, parent
        self.nodes: list[NodeProto] = list(scope.node)
        self.tensors: dict[str, TensorProto | SparseTensorProto] = {}
        self.weights: dict[str, int] = {}
        if isinstance(scope, GraphProto):
            for tensor in scope.initializer:
                self.tensors[tensor.name], self.weights[tensor.name] = contents.whole(tensor), contents.of(tensor)
            for sparse in scope.sparse_initializer:
                self.tensors[sparse.values.name], self.weights[sparse.values.name] = sparse, contents.of_sparse(sparse)
            self.inputs = [info.name for info in scope.input if info.name not in self.weights]
            self.outputs = [info.name for info in scope.output]
        else:
            self.inputs, self.outputs = list(scope.input), list(scope.output)
        self._given = frozenset(self.inputs)
        self.constants = frozenset(place for place, node in enumerate(self.nodes) if self._holds(node))
        self.made_by: dict[str, tuple[int, int]] = {}
        self.read_by: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.bodies: dict[int, list[tuple[str, Graph]]] = {}
        self.captured: list[tuple[str, ...]] = []
        self.free: tuple[str, ...] = ()
        self.local: list[int] = []
        self.order: list[int] = []

    def _holds(self, node: NodeProto) -> bool:
        tensor = constant_value(node)
        if tensor is None or len(node.output) != 1 or node.output[0] in self.weights:
            return False
        self.tensors[node.output[0]] = tensor
        contents = self.contents
        self.weights[node.output[0]] = contents.of(tensor) if isinstance(tensor, TensorProto) else contents.of_sparse(tensor)
        return True

    def weight(self, name: str) -> int | None:
        """The number of a weight's content, be it held here or outside."""
        graph: Graph | None = self
        while graph is not None:
            if name in graph.weights:
                return graph.weights[name]
            if name in graph.made_by or name in graph._given:
                return None
            graph = graph.parent
        return None

    def tensor(self, name: str) -> TensorProto | SparseTensorProto | None:
        """The weight of a name, be it held here or outside."""
        graph: Graph | None = self
        while graph is not None and name not in graph.tensors:
            graph = None if name in graph.made_by or name in graph._given else graph.parent
        return graph.tensors[name] if graph is not None else None

    def reads(self, place: int) -> Iterator[tuple[int, str]]:
        """Slots and names of what a node reads; its bodies read at slot -1."""
        yield from ((slot, name) for slot, name in enumerate(self.nodes[place].input) if name)
        yield from ((-1, name) for name in self.captured[place])

    def makers(self, place: int) -> Iterator[tuple[int, int, int]]:
        """Slot, and the place and slot of who makes it, for what a node reads of nodes that are no Constants."""
        for slot, name in self.reads(place):
            made = self.made_by.get(name)
            if made is not None and made[0] not in self.constants:
                yield slot, *made

    def link(self) -> None:
        """Say who makes and reads what, in which order, and what each node is by itself; its bodies are linked already."""
        for place, node in enumerate(self.nodes):
            for slot, name in enumerate(node.output):
                if name and (name not in self.weights or place in self.constants):
                    self.made_by.setdefault(name, (place, slot))
            inner = (name for _, body in self.bodies.get(place, ()) for name in body.free)
            self.captured.append(tuple(dict.fromkeys(inner)))
        own = {*self.inputs, *self.weights, *self.made_by}
        free: dict[str, None] = {}
        for place in range(len(self.nodes)):
            for slot, name in self.reads(place):
                self.read_by[name].append((place, slot))
                if name not in own:
                    free[name] = None
        free |= {name: None for name in self.outputs if name and name not in own}
        self.free = tuple(free)
        self.local = [self._local(place) for place in range(len(self.nodes))]
        self.order = self._ordered()

    def _local(self, place: int) -> int:
        node, numbers = self.nodes[place], self.contents.numbers
        held = []
        if node.attribute:
            defaults = self.defaults.of(node)
            for attribute in node.attribute:
                value = attribute_key(attribute, self.contents.of)
                if attribute.name in defaults and attribute_key(defaults[attribute.name], self.contents.of) == value:
                    continue
                held.append((attribute.name, value))
            held.sort(key=lambda pair: pair[0])
        inner = tuple((name, body.shape()) for name, body in self.bodies.get(place, ()))
        domain = canonical_domain(node.domain)
        return numbers["node", domain, node.op_type, node.overload, tuple(held), inner]

    def _ordered(self) -> list[int]:
        waits = [len({maker for _, maker, _ in self.makers(place)}) for place in range(len(self.nodes))]
        order = [place for place, count in enumerate(waits) if not count]
        for place in order:  # grows while it is walked
            readers = {
                reader
                for name in self.nodes[place].output
                if name and place not in self.constants and self.made_by.get(name, (-1,))[0] == place
                for reader, _ in self.read_by.get(name, ())
            }
            for reader in sorted(readers):
                waits[reader] -= 1
                if not waits[reader]:
                    order.append(reader)
        sorted_out = set(order)
        return order + [place for place in range(len(self.nodes)) if place not in sorted_out]

    def shape(self) -> int:
        """A number for the graph as a body, whatever it is given from outside."""
        printed = prints(self, {})
        numbers = self.contents.numbers
        results = tuple(printed.values.get(name, -1) for name in self.outputs)
        return numbers["body", len(self.inputs), results, tuple(sorted(printed.up))]


def graph_of(scope: GraphProto | FunctionProto, defaults: Defaults, contents: Contents) -> Graph:
    """A graph or function with all the bodies in it, read."""
    graphs = [Graph(scope, defaults, contents)]
    for graph in graphs:  # grows while it is walked, outer ones first
        for place, node in enumerate(graph.nodes):
            inner = [(a.name, body) for a in node.attribute for body in ([a.g] if a.HasField("g") else a.graphs)]
            if inner:
                made = [
                    (name, Graph(body, defaults, contents, graph)) for name, body in sorted(inner, key=lambda pair: pair[0])
                ]
                graph.bodies[place] = made
                graphs += [body for _, body in made]
    for graph in reversed(graphs):
        graph.link()
    return graphs[0]


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
        held = graph.parent.weight(name) if graph.parent is not None else None
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
        caught = tuple(sorted({values.get(name, -2) for name in graph.captured[place]}))
        number = up[place] = numbers["up", graph.local[place], tuple(read), caught]
        for slot, name in enumerate(node.output):
            if name and graph.made_by.get(name) == (place, slot):
                values[name] = numbers["slot", number, slot] if slot else number
    return Prints(up, [] if ends is None else _down(graph, ends), values)


def _down(graph: Graph, ends: Mapping[str, int]) -> list[int]:
    numbers = graph.contents.numbers
    down = [-1] * len(graph.nodes)
    for place in reversed(graph.order):
        node = graph.nodes[place]
        weights = tuple(graph.weights.get(name, -1) for name in node.input)
        uses = tuple(
            (tuple(sorted((down[reader], slot) for reader, slot in graph.read_by.get(name, ()))), ends.get(name, -1))
            for name in node.output
        )
        down[place] = numbers["down", graph.local[place], weights, uses]
    return down
