"""Group the nodes that ONNX Runtime runs with the user's nodes that they were made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from onnx import GraphProto

from pyopnb.common import DisjointSets
from pyopnb.engine import GraphIndex

__all__ = ["Origin", "origins"]

_COPIES = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
"""Operators that ONNX Runtime inserts to give a tensor another layout or device."""


@dataclass(frozen=True)
class Origin:
    """The indices of nodes of the user's graph, and of the nodes that run in their place.

    Attributes
    ----------
    nodes : tuple of int
        In the order in which they can run; empty where none is known.
    """

    nodes: tuple[int, ...]
    executed: tuple[int, ...]


def origins(graph: GraphProto, executed: GraphProto) -> list[Origin]:
    """Group the nodes of an optimized graph with the nodes of the graph that it was made from.

    Tensors keep their names through the ONNX Runtime optimizations unless they are optimized away,
    and a tensor that both graphs have is a limit of fusions. Between such tensors, names of
    nodes tell more, as in a chain of convolutions whose tensors all have another layout; where the
    edges of the two graphs speak against a name, the executed nodes stay together.

    Returns
    -------
    list of Origin
        Each executed node is in one of them. A user's node that was folded or eliminated is in
        none, or in the group of the node that gives its result.

    Examples
    --------
    >>> import pyopnb
    >>> user = pyopnb.parse(
    ...     "(float[N] x) => (float[N] y) { a = Abs(x)  b = Add(a, x)  y = Gelu(b) }"
    ... ).graph
    >>> fused = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Max(a, x) }").graph
    >>> origins(user, fused)
    [Origin(nodes=(0,), executed=(0,)), Origin(nodes=(1, 2), executed=(1,))]
    """
    search = _Origins(GraphIndex(graph), GraphIndex(executed))
    search.label()
    return search.origins()


class _Origins:
    """The executed node, called kernel here, that does the work of each of the user's nodes.

    Attributes
    ----------
    labels : dict
        The kernels by the user's nodes, as far as they are known.
    groups : DisjointSets
        Kernels that cannot be told apart.
    before, after : dict
        By the user's nodes: those that pass them, or that they pass, a tensor which the
        executed graph lacks.
    """

    def __init__(self, user: GraphIndex, ran: GraphIndex) -> None:
        self.user, self.ran = user, ran
        self.kept = {name for name in user.producers if ran.defines(name)}
        self.owners: dict[str, int] = {}
        for index, node in enumerate(user.nodes):
            for name in filter(None, (node.name, *node.output)):
                self.owners.setdefault(name, index)
        self.copies = [index for index in range(len(ran.nodes)) if self._is_copy(index)]
        self.kernels = sorted(set(range(len(ran.nodes))).difference(self.copies))
        # Names of the optimized graph that mean one tensor.
        self.tensors: DisjointSets[str] = DisjointSets()
        for index in self.copies:
            self.tensors.join(ran.nodes[index].input[0], ran.nodes[index].output[0])
        # A tensor of the user is found under any name that a copy gave it.
        self.names = {self.tensors.root(name): name for name in self.kept}
        # Copies are skipped: the producer and the readers of a tensor, under any of its names.
        self.producers: dict[str, list[int]] = defaultdict(list)
        self.consumers: dict[str, list[int]] = defaultdict(list)
        for index in self.kernels:
            for name in filter(None, ran.nodes[index].output):
                self.producers[self.tensors.root(name)].append(index)
            for _, name in ran.reads(index):
                self.consumers[self.tensors.root(name)].append(index)
        self.edges: set[tuple[int, int]] = set()
        for root, producers in self.producers.items():
            self.edges.update(product(producers, self.consumers[root]))
        self.groups: DisjointSets[int] = DisjointSets(self.kernels)
        self.labels: dict[int, int] = {}
        self.before: dict[int, list[int]] = {}
        self.after: dict[int, list[int]] = defaultdict(list)

    def _is_copy(self, index: int) -> bool:
        """Tell whether a node was inserted for the layout or the device of a tensor."""
        node = self.ran.nodes[index]
        if node.op_type == "Transpose":
            # A user's own node has one of their names, or is between their tensors.
            is_between = node.output[0] in self.kept and self._is_known(node.input[0])
            return self._owner(node.name) < 0 and not is_between
        return node.op_type in _COPIES

    def _is_known(self, name: str) -> bool:
        return name in self.kept or name in self.user.declared_inputs

    def _owner(self, name: str) -> int:
        """Find the user's node with whose name a generated one begins, as in ``conv1_nchwc``.

        The answer is -1 if there is none.
        """
        for end in range(len(name), 0, -1):
            if name[:end] in self.owners and not name[end : end + 1].isalnum():
                return self.owners[name[:end]]
        return -1

    # ---- labels ----------------------------------------------------------------------------------

    def label(self) -> None:
        """Find the kernels of the user's nodes."""
        for kernel in self.kernels:
            for name in filter(None, self.ran.nodes[kernel].output):
                kept = self.names.get(self.tensors.root(name))
                if kept is not None:
                    producer = self.user.producers[kept][0]
                    # The outputs of one node that two kernels make.
                    self.groups.join(self.labels.setdefault(producer, kernel), kernel)
        self._connect()
        for kernel in self.kernels:
            owner = self._owner(self.ran.nodes[kernel].name)
            if owner in self.before:
                self.labels.setdefault(owner, kernel)
        self._label_operations()
        # A kernel can also do nodes after its own operation, such as an activation, or before it.
        nodes = list(self.before)
        behind = [x for x in nodes if self.user.nodes[x].op_type != "DequantizeLinear"]
        self._spread(reversed(behind), self.before, last=True)
        self._spread(nodes, self.after, last=False)
        self._spread(reversed(nodes), self.before, last=True)

    def _connect(self) -> None:
        """Collect the user's nodes that kernels do, the last ones first, with the edges between."""
        # A node that reads constants only was folded before the run.
        constants = set(self.user.initializers)
        folded = set()
        for index in self.user.order:
            if all(name in constants for _, name in self.user.reads(index)):
                folded.add(index)
                constants.update(self.user.nodes[index].output)
        for index in reversed(self.user.order):
            if index not in self.labels and (index in folded or index not in self.after):
                continue
            self.before[index] = []
            for _, name in self.user.reads(index):
                near = self.user.producers.get(name, (-1, 0))[0]
                # A tensor that both graphs have is the work of other kernels.
                if near >= 0 and near not in folded and name not in self.kept:
                    self.before[index].append(near)
                    self.after[near].append(index)

    def _label_operations(self) -> None:
        """Label the node that gave a kernel its op type, where another node gave it its name.

        An example is the Conv before an activation.
        """
        nodes_by_kernel = defaultdict(list)
        for index, kernel in self.labels.items():
            nodes_by_kernel[kernel].append(index)
        for kernel, queue in nodes_by_kernel.items():
            op_type = self.ran.nodes[kernel].op_type
            seen = set(queue)
            # Breadth first, so that the nearest comes first; the queue grows while it is walked.
            for index in queue:
                # The kernel of a Conv can be a FusedConv or a QLinearConv.
                if op_type.endswith(self.user.nodes[index].op_type):
                    self.labels[index] = kernel
                    break
                near = [x for x in self.before[index] if x not in self.labels and x not in seen]
                queue += near
                seen.update(near)

    def _spread(self, indices: Iterable[int], near: Mapping[int, list[int]], *, last: bool) -> None:
        """Give nodes the label of a neighbor that the labels of all other neighbors lead to.

        Unless ``last``, it is the label that these come from.
        """
        for index in indices:
            labels = {self.labels[x] for x in near.get(index, ()) if x in self.labels}
            for label in labels:
                leads = [(other, label) for other in labels if other != label]
                if not last:
                    leads = [(end, start) for start, end in leads]
                if index not in self.labels and self.edges.issuperset(leads):
                    self.labels[index] = label

    # ---- groups ----------------------------------------------------------------------------------

    def origins(self) -> list[Origin]:
        """Group kernels whose labels are missing or contradict the edges, and list the groups."""
        nodes_by_kernel: dict[int, list[int]] = defaultdict(list)
        kernels_by_node: dict[int, set[int]] = {}
        for index in self.before:
            # A tensor that kernels of several nodes use is the work of each of them.
            kernels = {self.labels[index]} if index in self.labels else set()
            for reader in () if kernels else self.after[index]:
                kernels |= kernels_by_node[reader]
            kernels_by_node[index] = kernels
            for kernel in kernels:
                nodes_by_kernel[kernel].append(index)
        # Names are believed where each edge of the user's graph is one of the executed graph,
        # or inside one kernel.
        for index, start in self.labels.items():
            for reader in self.after[index]:
                for end in kernels_by_node[reader]:
                    if start != end and (start, end) not in self.edges:
                        self.groups.join(start, end)
        # A kernel of no known node did a part of the work that its neighbors seem to have done.
        for root, producers in self.producers.items():
            tied = [*producers, *self.consumers[root]]
            if root not in self.names and not nodes_by_kernel.keys() >= set(tied):
                for kernel in tied[1:]:
                    self.groups.join(tied[0], kernel)
        return self._listed(nodes_by_kernel)

    def _listed(self, nodes_by_kernel: Mapping[int, list[int]]) -> list[Origin]:
        positions = {index: position for position, index in enumerate(self.user.order)}
        copies: dict[int, list[int]] = defaultdict(list)
        orphans = []
        for index in self.copies:
            # A copy belongs to the node that it was inserted for.
            neighbor = next(self._neighbors(index), None)
            if neighbor is None:
                orphans.append(index)
            else:
                copies[self.groups.root(neighbor)].append(index)
        result = []
        for kernels in self.groups.members():
            nodes = {index for kernel in kernels for index in nodes_by_kernel.get(kernel, ())}
            ran = sorted([*kernels, *copies[self.groups.root(kernels[0])]])
            result.append(Origin(tuple(sorted(nodes, key=positions.__getitem__)), tuple(ran)))
        if orphans:
            result.append(Origin((), tuple(orphans)))
        return result

    def _neighbors(self, copy: int) -> Iterator[int]:
        """Yield the kernels around a copy, first the ones that it was inserted for."""
        name = self.ran.nodes[copy].input[0]
        root = self.tensors.root(name)
        neighbors = [self.producers[root], self.consumers[root]]
        # A tensor of the user was converted for its readers, any other one back
        # for the user's graph.
        if self._is_known(name):
            neighbors.reverse()
        for kernels in neighbors:
            yield from kernels
