"""Match the nodes of two graphs by their computations, and by name as a last resort.

1. Nodes are numbered from both ends (`hashing.fingerprints`), as in Weisfeiler-Lehman refinement
   (Weisfeiler and Leman, 1968), but with exact keys instead of hashes: ``up`` covers all that a
   node is computed from, ``down`` all that is computed from it. Nodes of equal numbers are pairs.
2. Pairs spread to their neighbors, the most similar candidates first (a priority queue, as in
   similarity flooding: Melnik, Garcia-Molina and Rahm, 2002).
3. Nodes without a partner are paired by their weights, by their names and by the names of
   their outputs, each followed by step 2.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from onnx import GraphProto, ModelProto

from pyopnb.diffs.models.attributes import Defaults
from pyopnb.diffs.models.hashing import Contents, Fingerprints, HashedGraph, fingerprints

__all__ = ["Matching", "graph_of_model", "pair_names"]


def graph_of_model(model: ModelProto, contents: Contents) -> HashedGraph:
    """Read a model's main graph."""
    return HashedGraph(model.graph, Defaults.of_model(model), contents)


def pair_names(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str]]:
    """Pair inputs or outputs: equal names first, and the others in order.

    If the only names that both sides have are at the same positions, that is position by position.
    """
    # Exporters rename inputs, and people reorder them: names decide where both sides have them.
    shared = set(a) & set(b)
    aligned = all(first == second for first, second in zip(a, b, strict=False) if first in shared)
    if len(a) == len(b) and len(shared) < len(set(a)) == len(a) and aligned:
        return list(zip(a, b, strict=True))
    pairs = [(name, name) for name in dict.fromkeys(a) if name in shared]
    new_in_a = [name for name in a if name not in shared]
    new_in_b = [name for name in b if name not in shared]
    return [*pairs, *zip(new_in_a, new_in_b, strict=False)]


class Matching:
    """The nodes and tensors of two graphs that correspond to each other.

    The graphs share their `Numbers`.

    Parameters
    ----------
    outer : mapping, optional
        For bodies: tensors around a to tensors around b. Inputs and outputs of bodies and of
        functions are paired by position.

    Attributes
    ----------
    forward, back : dict
        The pairs of nodes, from a to b and from b to a, of the same op each.
    values : dict
        Tensor names of a to tensor names of b: inputs, initializers, outputs of paired nodes, and
        tensors that paired nodes read at the same slot from nodes without a partner.
    """

    def __init__(
        self, a: HashedGraph, b: HashedGraph, outer: Mapping[str, str] | None = None
    ) -> None:
        self.a = a
        self.b = b
        self.inputs = list(zip(a.inputs, b.inputs, strict=False))
        self.outputs = list(zip(a.outputs, b.outputs, strict=False))
        if outer is None and isinstance(a.scope, GraphProto):
            self.inputs = pair_names(a.inputs, b.inputs)
            self.outputs = pair_names(a.outputs, b.outputs)
        same = {name: name for name in b.free}
        self.prints = self._number(a, 0, outer or {}), self._number(b, 1, same)
        self.forward: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._pair_nodes()
        self.values = self._pair_tensors()

    def same_number(self, name_a: str, name_b: str) -> bool:
        """Tell whether two tensors are computed in the same way."""
        number = self.prints[0].values.get(name_a)
        return number is not None and number == self.prints[1].values.get(name_b)

    def _number(self, graph: HashedGraph, side: int, outer: Mapping[str, str]) -> Fingerprints:
        """Give numbers to one graph's nodes; paired inputs and outputs count as the same."""
        # Inputs that correspond start with the same number, even under different names.
        numbers = graph.contents.numbers
        starts = {name: numbers["only", side, name] for name in graph.inputs}
        for slot, pair in enumerate(self.inputs):
            starts[pair[side]] = numbers["input", slot]
        for name in graph.free:
            starts[name] = numbers["outer", outer.get(name, f"{side} {name}")]
        slots: dict[str, list[int]] = defaultdict(list)
        for slot, pair in enumerate(self.outputs):
            slots[pair[side]].append(slot)
        endings = {name: numbers["end", tuple(at)] for name, at in slots.items()}
        return fingerprints(graph, starts, endings)

    # ---- nodes

    def _pair_nodes(self) -> None:
        # First nodes that are both computed and used alike, then nodes that are only one of the
        # two.
        self._pair_by(lambda side, index: (self._up(side, index), self._down(side, index)))
        for equal_counts in (True, False):
            self._pair_by(self._up, equal_counts)
            self._pair_by(self._down, equal_counts)
        # From the pairs, the search spreads to their neighbors.
        for name_a, name_b in self.inputs:
            self._spread(self._pair_clear(self.a.readers(name_a), self.b.readers(name_b)))
        for name_a, name_b in self.outputs:
            if name_a in self.a.producers and name_b in self.b.producers:
                makers = [self.a.producers[name_a][0]], [self.b.producers[name_b][0]]
                self._spread(self._pair_clear(*makers))
        self._spread(list(self.forward.items()))
        # The remaining nodes have no paired neighbor, but their weights or names may still tell.
        for key in (self._weights, self._name, self._outputs):
            self._spread(self._pair_by(key, equal_counts=True))

    def _pair_by(
        self, key: Callable[[int, int], Hashable], equal_counts: bool = False
    ) -> list[tuple[int, int]]:
        """Pair unpaired nodes of equal keys in order.

        Parameters
        ----------
        key : callable
            Of the side, 0 or 1, and the node; None for a node that is left out.
        equal_counts : bool
            Pair only keys that both sides have equally often.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, (graph, paired) in enumerate(((self.a, self.forward), (self.b, self.back))):
            for index in graph.computing:
                if index not in paired:
                    groups[key(side, index)][side].append(index)
        groups.pop(None, None)
        pairs: list[tuple[int, int]] = []
        for nodes_a, nodes_b in groups.values():
            if not equal_counts or len(nodes_a) == len(nodes_b):
                pairs += zip(nodes_a, nodes_b, strict=False)
        for i, j in pairs:
            self._pair(i, j)
        return pairs

    def _pair(self, i: int, j: int) -> None:
        self.forward[i], self.back[j] = j, i

    def _up(self, side: int, index: int) -> int:
        return self.prints[side].up[index]

    def _down(self, side: int, index: int) -> int:
        return self.prints[side].down[index]

    def _weights(self, side: int, index: int) -> Hashable:
        graph = (self.a, self.b)[side]
        weights = tuple(graph.weights.get(name, -1) for name in graph.nodes[index].input)
        if max(weights, default=-1) < 0:
            return None
        return graph.local[index], weights

    def _name(self, side: int, index: int) -> Hashable:
        graph = (self.a, self.b)[side]
        name = graph.nodes[index].name
        return (_op(graph, index), name) if name else None

    def _outputs(self, side: int, index: int) -> Hashable:
        # Models that people write have names for tensors, seldom for nodes.
        graph = (self.a, self.b)[side]
        return _op(graph, index), tuple(graph.nodes[index].output)

    # ---- from pairs to their neighbors

    def _spread(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Pair the neighbors of paired nodes, and their neighbors in turn."""
        a = self.a
        b = self.b
        waiting = deque(pairs)
        while waiting:
            i, j = waiting.popleft()
            waiting += self._pair_clear(a.makers(i), b.makers(j))
            for name_a, name_b in zip(a.nodes[i].output, b.nodes[j].output, strict=False):
                waiting += self._pair_clear(a.readers(name_a), b.readers(name_b))

    def _pair_clear(self, nodes_a: list[int], nodes_b: list[int]) -> Iterator[tuple[int, int]]:
        """Pair nodes with a unique computation, then nodes with a unique op."""
        for key in (HashedGraph.number, _op):
            groups_a, groups_b = _grouped(self.a, nodes_a, key), _grouped(self.b, nodes_b, key)
            for common in groups_a.keys() & groups_b.keys():
                group_a, group_b = groups_a[common], groups_b[common]
                open_a = [index for index in group_a if index not in self.forward]
                open_b = [index for index in group_b if index not in self.back]
                partners = {self.forward[index] for index in group_a if index in self.forward}
                # Ambiguous nodes are not paired yet: a name or a later pair may settle them.
                is_clear = partners == set(group_b).difference(open_b)
                if is_clear and len(open_a) == len(open_b) == 1:
                    self._pair(open_a[0], open_b[0])
                    yield open_a[0], open_b[0]

    # ---- tensors

    def _pair_tensors(self) -> dict[str, str]:
        a = self.a
        b = self.b
        values = dict(self.inputs)
        reads: list[tuple[str, str]] = []
        for i, j in sorted(self.forward.items()):
            values.update(zip(a.nodes[i].output, b.nodes[j].output, strict=False))
            reads += zip(a.nodes[i].input, b.nodes[j].input, strict=False)
        partners = set(values.values())
        for name_a, name_b in (*reads, *self.outputs):
            if name_a in values:
                continue
            if name_a in a.weights or name_b in b.weights:
                if name_a in a.weights and name_b in b.weights:
                    values[name_a] = name_b
            elif name_b not in partners and self._are_results_without_partner(name_a, name_b):
                values[name_a] = name_b
                partners.add(name_b)
        # Tensors of the same number are computed in the same way, even if their nodes have other
        # partners.
        names_b = {number: name for name, number in reversed(self.prints[1].values.items())}
        for name_a, number in self.prints[0].values.items():
            if name_a not in values and number in names_b:
                values[name_a] = names_b[number]
        # Omitted inputs and outputs have no name.
        return {name_a: name_b for name_a, name_b in values.items() if name_a and name_b}

    def _are_results_without_partner(self, name_a: str, name_b: str) -> bool:
        maker_a = self.a.producers.get(name_a)
        maker_b = self.b.producers.get(name_b)
        if maker_a is None or maker_b is None:
            return False
        return maker_a[0] not in self.forward and maker_b[0] not in self.back


def _op(graph: HashedGraph, index: int) -> tuple[str, str]:
    node = graph.nodes[index]
    return node.domain, node.op_type


def _grouped(
    graph: HashedGraph, nodes: Iterable[int], key: Callable[[HashedGraph, int], Hashable]
) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index in nodes:
        groups[key(graph, index)].append(index)
    return groups
