"""Numbers for nodes: equal numbers mean equal computations, even under other names.

This is Weisfeiler-Lehman hashing along the edges of a directed graph (Shervashidze et al., 2011): a
node's key is its op, attributes and weights with the numbers of its inputs, and once more with
the numbers of the nodes that read it. Instead of a hash, each new key gets the next number from a
table that both graphs share, so nothing can collide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, SparseTensorProto, TensorProto

from pyopnb.common import progress
from pyopnb.diffs.arrays import _stats
from pyopnb.diffs.models.attributes import Defaults, attribute_key
from pyopnb.engine import GraphIndex, external_files, op_names, protos

__all__ = ["COMPARED", "Contents", "Fingerprints", "HashedGraph", "Numbers", "fingerprints"]

COMPARED = "MB of weights compared"
"""The noun that a bar counts."""

# About how many bytes of a weight tell it from others.
_SAMPLED = 2**7


class Numbers(dict[Hashable, int]):
    """Keys to numbers; a new key gets the next number.

    Attributes
    ----------
    contents : dict
        Functions that read the bytes of tensors, by dtype, shape and a sample of the bytes. Each
        reads other bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[Hashable, list[Callable[[], np.ndarray]]] = defaultdict(list)

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Contents:
    """Numbers for the contents of tensors.

    Parameters
    ----------
    folder : str, optional
        The folder of external data; without it, external tensors count as equal if they
        refer to the same bytes.
    taken_out : mapping, optional
        Tensors that were replaced by external ones in the model, by name.
    """

    def __init__(
        self,
        numbers: Numbers,
        folder: str | None = None,
        taken_out: Mapping[str, TensorProto] | None = None,
    ) -> None:
        self.numbers = numbers
        self.folder = folder
        self._taken_out = taken_out or {}

    def array(self, tensor: TensorProto) -> Any:
        """Read a tensor, from its file where it has one."""
        tensor = external_files.original(tensor, self._taken_out)
        if external_files.is_external(tensor) and self.folder is None:
            raise ValueError("its data is in a file, and the model has no folder")
        array = external_files.mapped(tensor, self.folder)
        if array.dtype == bool:
            # Any byte but 0 is True, to NumPy and to `compared`.
            return array.view(np.uint8) != 0
        return array

    def of(self, tensor: TensorProto | SparseTensorProto) -> int:
        """Return a tensor's number, the same for equal dtype, shape and bytes in any storage."""
        if isinstance(tensor, SparseTensorProto):
            return self.numbers["sparse", tensor.SerializeToString(deterministic=True)]
        # The dtype and shape are part of the key: the same bytes may be other numbers.
        kind = tensor.data_type, tuple(tensor.dims)
        return self.numbers[kind, self._content(tensor, kind)]

    def _content(self, tensor: TensorProto, kind: Hashable) -> Hashable:
        stored = external_files.original(tensor, self._taken_out)
        if stored.data_type == TensorProto.STRING:
            return tuple(stored.string_data)
        try:
            content = self._bytes(tensor)
        except (ValueError, TypeError, KeyError):
            # Damaged tensors, and tensors in a missing file, are equal if their bytes and entries
            # are.
            return stored.raw_data, tuple(sorted(external_files.entries(stored).items()))
        # Few weights have the same sample without being the same: comparing these takes less time
        # than a digest of all.
        sample = kind, content[:: 1 + content.size // _SAMPLED].tobytes()
        known = self.numbers.contents[sample]
        for number, read in enumerate(known):
            is_same = _stats.same(read(), content)
            progress.advance(COMPARED, content.size // 1_000_000)
            if is_same:
                return sample, number
        known.append(partial(self._bytes, tensor))
        return sample, len(known) - 1

    def _bytes(self, tensor: TensorProto) -> np.ndarray:
        return np.ascontiguousarray(self.array(tensor)).reshape(-1).view(np.uint8)


class HashedGraph(GraphIndex):
    """A graph or function for comparison: an index with numbers for weights and nodes.

    Attributes
    ----------
    tensors : dict
        Initializers and the outputs of Constant nodes, by name.
    weights : dict
        The numbers of their contents, by name.
    constants : set of int
        The Constant nodes in there.
    """

    bodies: dict[int, list[tuple[str, HashedGraph]]]  # type: ignore[assignment]
    outer: HashedGraph | None

    def __init__(
        self,
        scope: GraphProto | FunctionProto,
        defaults: Defaults,
        contents: Contents,
        outer: HashedGraph | None = None,
        holder: tuple[int, str] | None = None,
    ) -> None:
        super().__init__(scope, outer, holder)
        self.defaults = defaults
        self.contents = contents
        self.tensors = dict(self.initializers)
        # A weight is the same weight as an initializer or in a Constant node.
        self.constants = set()
        for index, node in enumerate(self.nodes):
            value = protos.constant_value(node)
            if value is not None and len(node.output) == 1 and node.output[0] not in self.tensors:
                self.constants.add(index)
                self.tensors[node.output[0]] = value
        self.weights = {name: contents.of(tensor) for name, tensor in self.tensors.items()}

    def _body(self, graph: GraphProto, index: int, attribute: str) -> HashedGraph:
        return HashedGraph(graph, self.defaults, self.contents, self, (index, attribute))

    @cached_property
    def computing(self) -> list[int]:
        """List the nodes in order, without Constant nodes."""
        return [index for index in self.order if index not in self.constants]

    @cached_property
    def local(self) -> list[int]:
        """Number each node by its op and the attributes that are not at their defaults."""
        numbers = self.contents.numbers
        content = self.contents.of
        local = []
        for node in self.nodes:
            attributes = set()
            if node.attribute:
                defaults = self.defaults.of(node)
            else:
                defaults = {}
            for attribute in node.attribute:
                key = attribute_key(attribute, content)
                default = defaults.get(attribute.name)
                if default is None or attribute_key(default, content) != key:
                    attributes.add((attribute.name, key))
            op = op_names.canonical_domain(node.domain), node.op_type
            local.append(numbers["node", op, frozenset(attributes)])
        return local

    def number(self, index: int) -> int:
        """Return the number of a node by its op and attributes."""
        return self.local[index]

    def weight(self, name: str) -> int | None:
        """Return the number of a weight's content, in this graph or one around it."""
        graph = self.resolve(name)
        if not isinstance(graph, HashedGraph):
            return None
        return graph.weights.get(name)

    def tensor(self, name: str) -> TensorProto | SparseTensorProto | None:
        """Return the weight of a name, in this graph or one around it."""
        graph = self.resolve(name)
        if not isinstance(graph, HashedGraph):
            return None
        return graph.tensors.get(name)

    def makers(self, index: int) -> list[int]:
        """List the nodes other than Constants that make the inputs of a node, each once."""
        names = (name for _, name in self.reads(index) if name in self.producers)
        makers = dict.fromkeys(self.producers[name][0] for name in names)
        return [maker for maker in makers if maker not in self.constants]

    def readers(self, name: str) -> list[int]:
        """List the nodes that read a tensor, each once."""
        return list(dict.fromkeys(reader for reader, _ in self.consumers.get(name, ())))


@dataclass(frozen=True)
class Fingerprints:
    """Numbers of the nodes of a graph.

    Attributes
    ----------
    up, down : list of int
        By node: a number for its computation from the graph's inputs, and one for the graph's from
        it.
    values : dict
        The number of each tensor, by name.
    """

    up: list[int]
    down: list[int]
    values: dict[str, int]


def fingerprints(
    graph: HashedGraph, starts: Mapping[str, int], ends: Mapping[str, int]
) -> Fingerprints:
    """Assign numbers to the nodes of a graph, from its inputs and from its outputs.

    Parameters
    ----------
    starts : mapping
        Numbers of inputs and of names from outside; all others from outside count as equal.
    ends : mapping
        Numbers of the outputs.
    """
    numbers = graph.contents.numbers
    values = {**starts, **graph.weights}
    for name in graph.free:
        weight = graph.weight(name)
        if weight is not None:
            values[name] = weight
    up = [-1] * len(graph.nodes)
    for index in graph.computing:
        node = graph.nodes[index]
        # Trailing omitted inputs make no difference.
        reads = [values.get(name, -2) if name else -1 for name in node.input]
        while reads and reads[-1] == -1:
            reads.pop()
        captures = frozenset(values.get(name, -2) for name in graph.captures.get(index, ()))
        up[index] = numbers["up", graph.local[index], tuple(reads), captures]
        for slot, name in enumerate(node.output):
            if graph.producers.get(name) == (index, slot):
                values[name] = numbers["slot", up[index], slot]
    return Fingerprints(up, _down(graph, ends), values)


def _down(graph: HashedGraph, ends: Mapping[str, int]) -> list[int]:
    down = [-1] * len(graph.nodes)
    for index in reversed(graph.order):
        node = graph.nodes[index]
        # Other inputs count from the other end, in `up`.
        weights = tuple(graph.weights.get(name, -1) for name in node.input)
        uses = []
        for name in node.output:
            readers = []
            for reader, slot in graph.consumers.get(name, ()):
                readers.append((down[reader], slot))
            uses.append((tuple(sorted(readers)), ends.get(name, -1)))
        down[index] = graph.contents.numbers["down", graph.local[index], weights, tuple(uses)]
    return down
