"""Index a graph: producers, consumers, bodies and their captures, and an order to run nodes in.

Every part is built once, and only when it is asked for. Nothing recurses: a deep nest of
bodies costs no stack.

The short version of the longest part, which the tests compare with `GraphIndex.free`::

    def free(scope):
        own = inputs(scope) | initializers(scope)
        own |= {name for node in scope.node for name in node.output}
        read = set(outputs(scope))
        for node in scope.node:
            read.update(node.input, *(free(body) for body in bodies(node)))
        return read - own - {""}
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from onnx import (
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)

from pyopnb.common import messages
from pyopnb.engine.models.protos import (
    Site,
    first_output,
    named_bodies,
    path_of_body,
    path_of_function,
)
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.errors import ModelError

__all__ = ["CAPTURED", "GraphIndex"]

CAPTURED = -1
"""The input slot of a consumer that reads a name in one of its bodies."""

_SHOWN = 12
"""Nodes of a cycle that an error names."""


class GraphIndex:
    """The nodes of a graph, body or function, by the names of values that they produce and read.

    A node is known by its index in ``scope.node``. Broken graphs can also be read: if a name has
    several meanings, the first one counts, in the order initializer, input, node. Changes of the
    protobuf after it was read are not noticed.

    Parameters
    ----------
    outer : GraphIndex, optional
        Of a body: the graph or function around it.
    holder : tuple of (int, str), optional
        Of a body: the node of ``outer`` that holds it, and the name of the attribute.

    Examples
    --------
    >>> import pyopnb
    >>> graph = GraphIndex(
    ...     pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Add(a, x) }").graph
    ... )
    >>> graph.producers, graph.consumers["x"]
    ({'a': (0, 0), 'y': (1, 0)}, [(0, 0), (1, 1)])
    """

    def __init__(
        self,
        scope: GraphProto | FunctionProto,
        outer: GraphIndex | None = None,
        holder: tuple[int, str] | None = None,
    ) -> None:
        self.scope, self.outer, self.holder = scope, outer, holder

    @cached_property
    def nodes(self) -> list[NodeProto]:
        """Return the nodes in the order of the file.

        The index keeps these objects alive, so that no other object gets their ids.
        """
        # Passes over all nodes iterate over the scope itself: objects that live for a
        # moment cost a third.
        return list(self.scope.node)

    # ---- names -----------------------------------------------------------------------------------

    @cached_property
    def initializers(self) -> dict[str, TensorProto | SparseTensorProto]:
        """Return the initializers, dense and sparse, by name; a function has none."""
        initializers: dict[str, TensorProto | SparseTensorProto] = {}
        if isinstance(self.scope, GraphProto):
            initializers |= {tensor.name: tensor for tensor in self.scope.initializer}
            initializers |= {sparse.values.name: sparse for sparse in self.scope.sparse_initializer}
        return initializers

    @cached_property
    def declared_inputs(self) -> list[str]:
        """Return all inputs, including the ones that are also initializers."""
        return _names(self.scope.input)

    @cached_property
    def inputs(self) -> list[str]:
        """Return the inputs that must be fed: the ones without an initializer."""
        return [name for name in self.declared_inputs if name not in self.initializers]

    @cached_property
    def outputs(self) -> list[str]:
        return _names(self.scope.output)

    @cached_property
    def producers(self) -> dict[str, tuple[int, int]]:
        """Map each name to the node that produces it, and which of its outputs it is."""
        producers: dict[str, tuple[int, int]] = {}
        for index, node in enumerate(self.scope.node):
            for slot, name in enumerate(node.output):
                # An initializer or input of that name counts first, as it does for ONNX Runtime.
                if name and name not in self._given:
                    producers.setdefault(name, (index, slot))
        return producers

    @cached_property
    def consumers(self) -> dict[str, list[tuple[int, int]]]:
        """Map each name to the nodes that read it, each with the input slot.

        The slot is `CAPTURED` where a body of the node reads the name.
        """
        consumers: dict[str, list[tuple[int, int]]] = {}
        for index in range(len(self.scope.node)):
            for slot, name in self.reads(index):
                consumers.setdefault(name, []).append((index, slot))
        return consumers

    def defines(self, name: str) -> bool:
        """Tell whether the name is an input, an initializer or a node's output here."""
        return name in self.producers or name in self._given

    def resolve(self, name: str) -> GraphIndex | None:
        """Return the graph that defines a name: this or the nearest around it, or None."""
        # A body sees the names of the graphs around it, the nearest first.
        graph: GraphIndex | None = self
        while graph is not None and not graph.defines(name):
            graph = graph.outer
        return graph

    def reads(self, index: int) -> Iterator[tuple[int, str]]:
        """Yield the names that a node reads, each with the input slot.

        Names that its bodies read follow once each, with the slot `CAPTURED`.
        """
        for slot, name in enumerate(self.nodes[index].input):
            if name:
                yield slot, name
        for name in self.captures.get(index, ()):
            yield CAPTURED, name

    @cached_property
    def _given(self) -> frozenset[str]:
        return frozenset((*self.declared_inputs, *self.initializers))

    # ---- bodies ----------------------------------------------------------------------------------

    @cached_property
    def bodies(self) -> dict[int, list[tuple[str, GraphIndex]]]:
        """Map the index of a node to its bodies, each with the name of its attribute.

        All graphs of a list have the name of the list.
        """
        bodies: dict[int, list[tuple[str, GraphIndex]]] = {}
        for index, node in enumerate(self.scope.node):
            for name, body in named_bodies(node) if node.attribute else ():
                bodies.setdefault(index, []).append((name, self._body(body, index, name)))
        return bodies

    def _body(self, graph: GraphProto, index: int, attribute: str) -> GraphIndex:
        return GraphIndex(graph, self, (index, attribute))

    def walk(self) -> Iterator[GraphIndex]:
        """Yield the graph itself and all bodies in it, outer ones before inner ones."""
        graphs = [self]
        # The list grows while it is walked.
        for graph in graphs:
            yield graph
            for bodies in graph.bodies.values():
                graphs += (body for _, body in bodies)

    @cached_property
    def captures(self) -> dict[int, tuple[str, ...]]:
        """Map the index of a node to the names that its bodies read and do not define."""
        # Inner bodies come first, so that each finds the reads of its own bodies,
        # and nothing recurses.
        for graph in reversed(list(self.walk())[1:]):
            _ = graph.free
        captures = {}
        for index, inner in self.bodies.items():
            names = dict.fromkeys(name for _, body in inner for name in body.free)
            captures[index] = tuple(names)
        return captures

    @cached_property
    def free(self) -> tuple[str, ...]:
        """Return the names that are read here or in a body here and that neither defines."""
        read = dict.fromkeys(name for node in self.scope.node for name in node.input)
        for names in self.captures.values():
            read |= dict.fromkeys(names)
        read |= dict.fromkeys(self.outputs)
        return tuple(name for name in read if name and not self.defines(name))

    @property
    def path(self) -> str:
        """Say where the graph is, as `Site` does: ``""`` for a main graph."""
        steps: list[str] = []
        graph = self
        while graph.outer is not None and graph.holder is not None:
            index, attribute = graph.holder
            graph = graph.outer
            steps.insert(0, path_of_body(graph.nodes[index], attribute))
        if isinstance(graph.scope, FunctionProto):
            steps.insert(0, path_of_function(graph.scope))
        return ", ".join(steps)

    # ---- order -----------------------------------------------------------------------------------

    @cached_property
    def order(self) -> Sequence[int]:
        """Return all nodes, each after the nodes whose outputs it or a body in it reads.

        That is the order of the file if it will do. Otherwise it is the order of Kahn's algorithm,
        which takes the first in the file of the nodes that are ready. Nodes on a cycle, and nodes
        that wait for these, come last, in the order of the file.
        """
        stuck = set(range(len(self.scope.node))).difference(self._runnable)
        if stuck:
            return [*self._runnable, *sorted(stuck)]
        return self._runnable

    def in_order(self) -> Iterator[tuple[int, NodeProto]]:
        """Yield the nodes in `order`, each with its index."""
        return ((index, self.nodes[index]) for index in self.order)

    def refuse_cycles(self) -> None:
        """Raise a ModelError if nodes wait for each other, so that no order can run all of them."""
        if len(self._runnable) < len(self.scope.node):
            raise self._cycle()

    def refuse_duplicates(self) -> None:
        """Raise the first error of `duplicates`."""
        for _, error in self.duplicates():
            raise error

    def duplicates(self) -> Iterator[tuple[str, ModelError]]:
        """Yield the names of outputs that are defined twice, each with its error.

        An input, an initializer or another output has the same name.
        """
        owners = dict.fromkeys(self.declared_inputs, "an input")
        owners |= dict.fromkeys(self.initializers, "an initializer")
        for node in self.scope.node:
            for name in filter(None, node.output):
                if name in owners:
                    got = f"{owners[name]} and an output of {node.op_type}"
                    where, advice = f"name {name}{self._inside}", "rename one of them"
                    yield name, ModelError(where, expected="one meaning", got=got, next=advice)
                owners[name] = f"an output of {node.op_type}"

    def refuse_unknown_names(self) -> None:
        """Raise the first error of `unknown_names`."""
        for _, _, error in self.unknown_names():
            raise error

    def unknown_names(self) -> Iterator[tuple[NodeProto | None, str, ModelError]]:
        """Yield the names that are read and that nothing defines, each with its node and its error.

        Nodes, bodies in them and outputs of graphs read names; the node of an output is None. Only
        the bodies of the ONNX operators count: what another op does with a graph is its own
        affair.
        """
        graphs = [self]
        # The list grows while it is walked.
        for graph in graphs:
            for index, node in enumerate(graph.scope.node):
                for name in node.input:
                    if name and graph.resolve(name) is None:
                        where = f"{graph._around(index, self)}, input {name}"
                        yield node, name, self._unknown(where, name)
                if not canonical_domain(node.domain):
                    graphs += [body for _, body in graph.bodies.get(index, ())]
            for name in graph.outputs:
                if graph.resolve(name) is None:
                    yield None, name, self._unknown(f"output {name}{graph._inside}", name)

    @property
    def _inside(self) -> str:
        path = self.path
        if path:
            return f", in {path}"
        return ""

    @cached_property
    def _is_sorted(self) -> bool:
        """Tell whether no node comes before one whose output it reads, as in nearly all files."""
        read: set[str] = set()
        for index, node in enumerate(self.scope.node):
            read.update(node.input, self.captures.get(index, ()))
            if not read.isdisjoint(filter(None, node.output)):
                return False
        return True

    @cached_property
    def _runnable(self) -> Sequence[int]:
        """Return the nodes in order, without nodes on a cycle or after one."""
        if self._is_sorted:
            return range(len(self.scope.node))
        # Kahn's algorithm. The heap gives the first in the file, so that the order changes as
        # little as needed.
        waits_for = [len(self._predecessors(index)) for index in range(len(self.scope.node))]
        startable = [index for index, count in enumerate(waits_for) if not count]
        order = []
        while startable:
            index = heapq.heappop(startable)
            order.append(index)
            readers: set[int] = set()
            for name in self.nodes[index].output:
                if self.producers.get(name, (-1,))[0] == index:
                    readers.update(reader for reader, _ in self.consumers.get(name, ()))
            for reader in readers:
                waits_for[reader] -= 1
                if not waits_for[reader]:
                    heapq.heappush(startable, reader)
        return order

    def _predecessors(self, index: int) -> set[int]:
        return {self.producers[name][0] for _, name in self.reads(index) if name in self.producers}

    def _cycle(self) -> ModelError:
        predecessors = {index: self._predecessors(index) for index in range(len(self.nodes))}
        cycle: list[int] = []
        try:
            TopologicalSorter(predecessors).prepare()
        except CycleError as error:
            cycle = error.args[1]
        names = []
        for index in cycle:
            node = self.nodes[index]
            names.append(node.name or first_output(node) or node.op_type)
        # A long cycle is shown by its two ends.
        if len(names) > _SHOWN:
            names[_SHOWN // 2 : -_SHOWN // 2] = ["…"]
        return ModelError(
            Site(self.nodes[cycle[0]], self.scope, self.path).where,
            expected="nodes that can run one after the other",
            got=f"a cycle: {' → '.join(names)}",
            next="let one of them use another name",
        )

    def _around(self, index: int, outermost: GraphIndex) -> str:
        """Name a node and the nodes that hold its graph, for messages."""
        texts, graph = [Site(self.nodes[index], self.scope, "").where], self
        while graph is not outermost and graph.outer is not None and graph.holder is not None:
            holder, graph = graph.holder[0], graph.outer
            texts.append(Site(graph.nodes[holder], graph.scope, "").where)
        return " in ".join(texts)

    def _unknown(self, where: str, name: str) -> ModelError:
        names = {text for text in (*self._given, *self.producers) if isinstance(text, str)}
        return ModelError(
            where,
            expected="an input, an initializer or an output of a node",
            got=f"{name}, which no node produces",
            next=messages.suggest(str(name), sorted(names)),
        )

    @staticmethod
    def sort_nodes(scope: GraphProto | FunctionProto) -> None:
        """Move nodes after the nodes that they read, also in bodies.

        Parameters
        ----------
        scope : GraphProto or FunctionProto
            It is changed, where its nodes are in another order.

        Raises
        ------
        ModelError
            Nodes wait for each other.
        """
        # Inner bodies come first, as moving a node copies its bodies.
        for graph in reversed(list(GraphIndex(scope).walk())):
            graph.refuse_cycles()
            if not isinstance(graph.order, range):
                # As bytes, because protobuf moves the nodes that are still in the list.
                nodes = [graph.nodes[position].SerializeToString() for position in graph.order]
                del graph.scope.node[:]
                graph.scope.node.extend(map(NodeProto.FromString, nodes))


def _names(ends: Iterable[Any]) -> list[str]:
    """Return the names of inputs or outputs, which in a function are names already."""
    return [getattr(end, "name", end) for end in ends]
