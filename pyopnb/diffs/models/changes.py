"""The changes between two models, node by node: in the main graphs, in bodies and in functions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    numpy_helper,
)

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.models.attributes import Defaults, differing_attributes, format_attribute
from pyopnb.diffs.models.change import KINDS, Change, Counts, Fact, NodeAt
from pyopnb.diffs.models.groups import group_unpaired
from pyopnb.diffs.models.hashing import Contents, HashedGraph, Numbers, graph_of
from pyopnb.diffs.models.match import graph_of_model, match_graphs, pair_names
from pyopnb.errors import InputError
from pyopnb.models.external_data import with_data
from pyopnb.models.io import FOLDER, ModelSource
from pyopnb.models.nodes import full_name, type_of_proto, walk
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import ANY

__all__ = ["find_changes"]

_TEXT = 80
# A reader still reads the same tensor behind so many inserted or removed nodes in a row.
_MAX_CHAIN = 64


@dataclass(frozen=True)
class _Level:
    """Two graphs to be compared, and what tensors outside them correspond."""

    path: str
    a: HashedGraph
    b: HashedGraph
    outer: Mapping[str, str] | None


_Tolerances = tuple[float | None, float | None, float | None]


def find_changes(
    a: ModelSource, b: ModelSource, tolerances: _Tolerances
) -> tuple[list[Change], Counts]:
    """Find every change between two models, sorted by kind.

    Parameters
    ----------
    a, b : ModelSource
    tolerances : tuple of (float or None)
        For the weights: ``rtol``, ``atol`` and ``stol``.

    Raises
    ------
    ModelError
        A weight is in a file that cannot be read.
    """
    numbers = Numbers()
    counts = Counts()
    contents_a = Contents(numbers, a.folder, a.taken_out)
    contents_b = Contents(numbers, b.folder, b.taken_out)
    graphs = graph_of_model(a.proto, contents_a), graph_of_model(b.proto, contents_b)
    # Bodies and functions are compared later, as levels of their own: a deep nest costs no stack.
    levels = deque([_Level("", *graphs, None)])
    changes = [*_interface_changes(a.proto.graph, b.proto.graph, levels[0])]
    changes += _header_changes(a.proto, b.proto)
    changes += _function_changes(a.proto, b.proto, (contents_a, contents_b), levels)
    while levels:
        changes += _GraphComparison(levels.popleft(), levels, counts, tolerances).changes()
    return sorted(changes, key=lambda change: KINDS.index(change.kind)), counts


# ---- the file around the graphs


def _interface_changes(a: GraphProto, b: GraphProto, level: _Level) -> Iterator[Change]:
    """Compare the types of the models' inputs and outputs."""
    inputs_a = {info.name: _format_type(info.type) for info in a.input}
    inputs_b = {info.name: _format_type(info.type) for info in b.input}
    pairs = dict(pair_names(level.a.inputs, level.b.inputs))
    # Initializers that can be fed are inputs with a default, which the graphs do not list.
    partners = set(pairs.values())
    for name in inputs_a.keys() & inputs_b.keys():
        if name not in pairs and name not in partners:
            pairs[name] = name
    yield from _port_changes("input", inputs_a, inputs_b, pairs)
    outputs_a = {info.name: _format_type(info.type) for info in a.output}
    outputs_b = {info.name: _format_type(info.type) for info in b.output}
    pairs = dict(pair_names(list(outputs_a), list(outputs_b)))
    yield from _port_changes("output", outputs_a, outputs_b, pairs)


def _port_changes(
    kind: str, a: Mapping[str, str], b: Mapping[str, str], pairs: Mapping[str, str]
) -> Iterator[Change]:
    partners = set(pairs.values())
    facts = [Fact(name, a[name], b[partner]) for name, partner in pairs.items()]
    facts += [Fact(name, a[name], None) for name in a if name not in pairs]
    facts += [Fact(name, None, b[name]) for name in b if name not in partners]
    for fact in facts:
        if fact.a != fact.b:
            yield Change(kind, facts=(fact,))


def _format_type(proto: TypeProto) -> str:
    try:
        port = type_of_proto(proto)
        if port != ANY or not proto.WhichOneof("value"):
            return sanitize(port, _TEXT)
    except InputError:
        # An unknown dtype is shown as the file has it.
        pass
    return sanitize(" ".join(str(proto).split()), _TEXT)


def _header_changes(a: ModelProto, b: ModelProto) -> Iterator[Change]:
    # An import that no node uses changes nothing.
    used = set()
    for model in (a, b):
        for site in walk(model):
            used.add(site.node.domain or "ai.onnx")
    for fact in _differing(_opsets(a), _opsets(b)):
        if fact.what in used:
            yield Change("opset", facts=(fact,))
    for fact in _differing(_header(a), _header(b)):
        yield Change("header", facts=(fact,))


def _opsets(proto: ModelProto | FunctionProto) -> dict[str, str]:
    return {entry.domain or "ai.onnx": str(entry.version) for entry in proto.opset_import}


def _header(model: ModelProto) -> dict[str, str]:
    names = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
    header = {name: sanitize(getattr(model, name), _TEXT) for name in names}
    for entry in model.metadata_props:
        if entry.key != FOLDER:
            header[f"metadata {sanitize(entry.key, _TEXT)}"] = sanitize(entry.value, _TEXT)
    return header


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[Fact]:
    facts = [Fact(sanitize(key, _TEXT), a.get(key), b.get(key)) for key in {**a, **b}]
    differing = []
    for fact in facts:
        if fact.a != fact.b:
            differing.append(fact)
    return differing


def _function_changes(
    a: ModelProto, b: ModelProto, contents: tuple[Contents, Contents], levels: deque[_Level]
) -> Iterator[Change]:
    """Compare what functions declare; their bodies are compared later, as levels."""
    functions_a = {(f.domain, f.name, f.overload): f for f in a.functions}
    functions_b = {(f.domain, f.name, f.overload): f for f in b.functions}
    for key in {**functions_a, **functions_b}:
        name = sanitize("::".join(filter(None, key)) or "without a name")
        function_a = functions_a.get(key)
        function_b = functions_b.get(key)
        if function_a is None:
            yield Change("function", facts=(Fact(name, None, "there"),))
        elif function_b is None:
            yield Change("function", facts=(Fact(name, "there", None),))
        else:
            facts = _differing(_declaration(function_a), _declaration(function_b))
            if facts:
                yield Change("function", f"function {name}", facts=tuple(facts))
            graph_a = _graph_of_function(function_a, a, contents[0])
            graph_b = _graph_of_function(function_b, b, contents[1])
            levels.append(_Level(f"function {name}", graph_a, graph_b, {}))


def _declaration(function: FunctionProto) -> dict[str, str]:
    declared = {"inputs": str(len(function.input)), "outputs": str(len(function.output))}
    declared |= {f"attr {name}": "required" for name in function.attribute}
    declared |= {f"attr {a.name}": format_attribute(a) for a in function.attribute_proto}
    declared |= {f"opset {domain}": number for domain, number in _opsets(function).items()}
    return declared


def _graph_of_function(
    function: FunctionProto, model: ModelProto, contents: Contents
) -> HashedGraph:
    local = {(f.domain, f.name): f for f in model.functions}
    imports = {entry.domain: entry.version for entry in function.opset_import}
    return graph_of(function, Defaults(imports, local), contents)


# ---- one pair of graphs


class _GraphComparison:
    def __init__(
        self, level: _Level, levels: deque[_Level], counts: Counts, tolerances: _Tolerances
    ) -> None:
        self.path, self.a, self.b = level.path, level.a, level.b
        self.levels, self.counts, self.tolerances = levels, counts, tolerances
        self.matching, self.prints_a, self.prints_b = match_graphs(level.a, level.b, level.outer)
        # Tensors of a to those of b, outside the graphs and in them.
        self.values = dict(level.outer or {})
        if not level.outer:
            self.values = {name: name for name in {*level.a.free} & {*level.b.free}}
        self.values |= self.matching.values
        # Weights that differ, with the first nodes that read them.
        self.weights: dict[tuple[str, str], tuple[int, int]] = {}

    def changes(self) -> Iterator[Change]:
        if self.path:
            yield from self._port_counts("input", self.a.inputs, self.b.inputs)
            yield from self._port_counts("output", self.a.outputs, self.b.outputs)
        pairs = []
        for i, j in self.matching.pairs:
            if i not in self.a.constants:
                pairs.append((i, j))
        for i, j in pairs:
            yield from self._compare_nodes(i, j)
            self._add_bodies(i, j)
        yield from self._output_changes()
        yield from self._unpaired()
        yield from self._weight_changes()
        yield from self._unread_weights("a", self.a, self.b)
        yield from self._unread_weights("b", self.b, self.a)
        self._count(pairs)

    def _port_counts(self, kind: str, a: Sequence[str], b: Sequence[str]) -> Iterator[Change]:
        if len(a) != len(b):
            fact = Fact(f"number of {kind}s", str(len(a)), str(len(b)))
            yield Change(kind, self.path, facts=(fact,))

    def _count(self, pairs: list[tuple[int, int]]) -> None:
        counts, a, b = self.counts, self.a, self.b
        if not self.path:
            counts.tensors = self.matching.values
        counts.a += len(a.nodes) - len(a.constants)
        counts.b += len(b.nodes) - len(b.constants)
        counts.pairs += len(pairs)
        counts.renamed += sum(a.nodes[i].name != b.nodes[j].name for i, j in pairs)
        for name_a, name_b in self.matching.values.items():
            counts.renamed += name_a != name_b and name_a not in a.free
        counts.moved |= any(j > following for (_, j), (_, following) in pairwise(pairs))

    # ---- a pair of nodes

    def _compare_nodes(self, i: int, j: int) -> Iterator[Change]:
        nodes = (_node_at(self.a, i),), (_node_at(self.b, j),)
        # A node may have changed in itself and also read other tensors: these are two changes.
        facts = tuple(self._op_facts(i, j))
        if facts:
            yield Change("changed", self.path, *nodes, facts)
        facts = tuple(self._input_facts(i, j))
        if facts:
            yield Change("rewired", self.path, *nodes, facts)

    def _op_facts(self, i: int, j: int) -> Iterator[Fact]:
        a, b = self.a, self.b
        node_a = a.nodes[i]
        node_b = b.nodes[j]
        if _op_name(node_a) != _op_name(node_b):
            yield Fact("op", _op_name(node_a), _op_name(node_b))
        elif a.local[i] != b.local[j] or a.defaults.imports != b.defaults.imports:
            defaults, contents = (a.defaults, b.defaults), (a.contents.of, b.contents.of)
            for name, *values in differing_attributes((node_a, node_b), defaults, contents):
                texts = []
                for value in values:
                    texts.append(None if value is None else format_attribute(value))
                yield Fact(f"attr {sanitize(name, _TEXT)}", *texts)
        outputs_a = _without_trailing(node_a.output)
        outputs_b = _without_trailing(node_b.output)
        if len(outputs_a) != len(outputs_b):
            yield Fact("outputs", str(len(outputs_a)), str(len(outputs_b)))

    def _input_facts(self, i: int, j: int) -> Iterator[Fact]:
        inputs_a = list(self.a.nodes[i].input)
        inputs_b = list(self.b.nodes[j].input)
        # Omitted inputs at the end may be written out or not.
        inputs_a += [""] * (len(inputs_b) - len(inputs_a))
        inputs_b += [""] * (len(inputs_a) - len(inputs_b))
        for slot, (x, y) in enumerate(zip(inputs_a, inputs_b, strict=True)):
            if not self._same_tensor(x, y, (i, j)):
                yield Fact(f"input {slot}", _format_tensor(x, self.a), _format_tensor(y, self.b))

    def _same_tensor(self, x: str, y: str, readers: tuple[int, int]) -> bool:
        """Tell whether two nodes read the same; weights that differ are kept for later."""
        if not x or not y:
            return x == y
        weight_a = self.a.weight(x)
        weight_b = self.b.weight(y)
        if weight_a is not None and weight_b is not None:
            # The values are compared once, however many nodes read the weight.
            if weight_a != weight_b:
                self.weights.setdefault((x, y), readers)
            return True
        number = self.prints_a.values.get(x)
        if number is not None and number == self.prints_b.values.get(y):
            return True
        if self.values.get(x) == y or self._same_through_unpaired(x, y):
            return True
        return weight_a is None and weight_b is not None and self._may_be_folded(x)

    def _same_through_unpaired(self, x: str, y: str) -> bool:
        """Tell whether two tensors are the same but for nodes in between that were removed or inserted."""
        above_x = (x, *_walk_up(self.a, x, self.matching.forward))
        above_y = {y, *_walk_up(self.b, y, self.matching.back)}
        return any(self.values.get(name) in above_y for name in above_x)

    def _may_be_folded(self, x: str) -> bool:
        """Tell whether the result of a node that was removed may have become a weight."""
        producer, _ = self.a.producers.get(x, (None, 0))
        unpaired = producer is not None and producer not in self.matching.forward
        return unpaired and x not in self.matching.values

    def _add_bodies(self, i: int, j: int) -> None:
        bodies_a = _number_bodies(self.a, i)
        bodies_b = _number_bodies(self.b, j)
        node = self.a.nodes[i]
        title = sanitize(node.name or next(iter(_without_trailing(node.output)), ""), _TEXT)
        for name, number in bodies_a.keys() & bodies_b.keys():
            path = f"{sanitize(node.op_type, _TEXT)} '{title}', {sanitize(name, _TEXT)}"
            if number:
                path += f" {number}"
            if self.path:
                # Of a deep nest, only the innermost bodies are named.
                outer = "…"
                if len(self.path) < 5 * _TEXT:
                    outer = self.path
                path = f"{outer}, {path}"
            bodies = bodies_a[name, number], bodies_b[name, number]
            self.levels.append(_Level(path, *bodies, self.values))

    # ---- what has no partner

    def _unpaired(self) -> Iterator[Change]:
        for group_a, group_b in group_unpaired(self.a, self.b, self.matching):
            facts: tuple[Fact, ...] = ()
            if not group_b:
                # What disappears was often folded or merged, which is no loss.
                kind, facts = self._classify_removal(group_a[0])
            elif not group_a:
                kind = "added"
            elif len(group_a) == len(group_b) == 1:
                kind = "changed"
                ops = _op_name(self.a.nodes[group_a[0]]), _op_name(self.b.nodes[group_b[0]])
                facts = (Fact("op", *ops),)
            # Several nodes became as many, and nothing tells which became which.
            elif len(group_a) == len(group_b):
                kind = "exchanged"
            else:
                kind = "split"
                if len(group_a) > len(group_b):
                    kind = "fused"
            nodes_a = tuple(_node_at(self.a, position) for position in group_a)
            nodes_b = tuple(_node_at(self.b, position) for position in group_b)
            yield Change(kind, self.path, nodes_a, nodes_b, facts)

    def _classify_removal(self, place: int) -> tuple[str, tuple[Fact, ...]]:
        """Tell what became of a node that only a has: computed once with another, folded, or removed."""
        for name in self.a.nodes[place].output:
            text = sanitize(name, _TEXT)
            if name in self.matching.values:
                partner = sanitize(self.matching.values[name], _TEXT)
                return "fused", (Fact("computed once", text, partner),)
            for reader, slot in self.a.consumers.get(name, ())[:_MAX_CHAIN]:
                if reader not in self.matching.forward:
                    continue
                inputs = self.b.nodes[self.matching.forward[reader]].input
                if 0 <= slot < len(inputs) and self.b.weight(inputs[slot]) is not None:
                    weight = sanitize(inputs[slot], _TEXT)
                    return "folded", (Fact("became a weight", text, weight),)
        return "removed", ()

    def _output_changes(self) -> Iterator[Change]:
        pairs = list(zip(self.a.outputs, self.b.outputs, strict=False))
        if not self.path:
            pairs = pair_names(self.a.outputs, self.b.outputs)
        for x, y in pairs:
            if not self._same_tensor(x, y, (-1, -1)):
                names = _format_tensor(x, self.a), _format_tensor(y, self.b)
                yield Change("output", self.path, facts=(Fact("what is given", *names),))

    # ---- weights

    def _weight_changes(self) -> Iterator[Change]:
        for (x, y), (i, j) in self.weights.items():
            facts = [Fact("name", sanitize(x, _TEXT), sanitize(y, _TEXT))]
            values = None
            try:
                # A weight whose file is missing must not keep the other changes from being shown.
                array_a = _read_weight(self.a.tensor(x), self.a.contents)
                array_b = _read_weight(self.b.tensor(y), self.b.contents)
                values = compared(array_a, array_b, *self.tolerances)
            except (ValueError, TypeError, KeyError, InputError, OSError) as error:
                message = sanitize(f"{type(error).__name__}: {error}")
                facts.append(Fact("values cannot be read", message, None))
            # An output that is a weight has no reader.
            readers: list[tuple[NodeAt, ...]] = [(), ()]
            if i >= 0:
                readers = [(_node_at(self.a, i),), (_node_at(self.b, j),)]
            yield Change("weight", self.path, readers[0], readers[1], tuple(facts), values)

    def _unread_weights(
        self, side: str, graph: HashedGraph, partner: HashedGraph
    ) -> Iterator[Change]:
        """Yield initializers that nothing reads and the other side lacks."""
        contents, outputs = set(partner.weights.values()), set(graph.outputs)
        for name, weight in graph.weights.items():
            is_read = name in graph.consumers or name in outputs or name in graph.producers
            if not is_read and weight not in contents:
                text = sanitize(name, _TEXT)
                fact = Fact("unread", text, None)
                if side == "b":
                    fact = Fact("unread", None, text)
                yield Change("weight", self.path, facts=(fact,))


def _node_at(graph: HashedGraph, place: int) -> NodeAt:
    node = graph.nodes[place]
    outputs = tuple(sanitize(name, _TEXT) for name in node.output[:_MAX_CHAIN])
    return NodeAt(place, _op_name(node), sanitize(node.name, _TEXT), outputs)


def _op_name(node: NodeProto) -> str:
    """Name the op with its domain, ONNX's own without, and with its overload."""
    name = full_name(node).removeprefix("::")
    if node.overload:
        name += f":{node.overload}"
    return sanitize(name, _TEXT)


def _without_trailing(names: Sequence[str]) -> list[str]:
    """Leave out the omitted names at the end."""
    names = list(names)
    while names and not names[-1]:
        names.pop()
    return names


def _format_tensor(name: str, graph: HashedGraph) -> str | None:
    if not name:
        return None
    prefix = ""
    if graph.weight(name) is not None:
        prefix = "weight "
    return prefix + sanitize(name, _TEXT)


def _number_bodies(graph: HashedGraph, place: int) -> dict[tuple[str, int], HashedGraph]:
    """Return a node's bodies by their attribute and their position in it."""
    counts: Counter[str] = Counter()
    numbered = {}
    for name, body in graph.bodies.get(place, []):
        numbered[name, counts[name]] = body
        counts[name] += 1
    return numbered


def _walk_up(graph: HashedGraph, name: str, paired: Mapping[int, int]) -> Iterator[str]:
    """Yield the tensors above one, through nodes without a partner that read a single tensor besides weights."""
    for _ in range(_MAX_CHAIN):
        producer, _ = graph.producers.get(name, (None, 0))
        if producer is None or producer in paired or producer in graph.constants:
            return
        reads = {x for _, x in graph.reads(producer) if graph.weight(x) is None}
        # Behind a node that reads two tensors, neither of them is the same.
        if len(reads) != 1:
            return
        name = reads.pop()
        yield name


def _read_weight(tensor: TensorProto | SparseTensorProto | None, contents: Contents) -> Any:
    """Read a weight as an array, a sparse one as a dict of its parts."""
    if isinstance(tensor, SparseTensorProto):
        values = _read_weight(tensor.values, contents)
        indices = _read_weight(tensor.indices, contents)
        return {"values": values, "indices": indices, "shape": list(tensor.dims)}
    if tensor is None:
        raise ValueError("there is no such weight")
    if tensor.data_location == TensorProto.EXTERNAL:
        if contents.folder is None:
            raise ValueError("its data is in a file, and the model is in memory without a folder")
        tensor = with_data(tensor, contents.folder)
    return np.asarray(numpy_helper.to_array(tensor))
