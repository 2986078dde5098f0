"""The changes between two models, node by node: in the main graphs, in bodies and in functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.models.attributes import Defaults, differing_attributes
from pyopnb.diffs.models.change import KINDS, Change, Fact, NodeAt
from pyopnb.diffs.models.groups import group_unpaired
from pyopnb.diffs.models.hashing import Contents, HashedGraph, Numbers
from pyopnb.diffs.models.match import Matching, graph_of_model, pair_names
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine import ANY, ModelSource, protos
from pyopnb.errors import InputError

__all__ = ["GraphComparison", "find_changes"]

_TEXT = 80
# After up to this many inserted or removed nodes, a reader still reads the same tensor.
_MAX_CHAIN = 64


@dataclass(frozen=True)
class _Level:
    """Two graphs to be compared, and the tensors outside them that correspond."""

    path: str
    a: HashedGraph
    b: HashedGraph
    outer: Mapping[str, str] | None


def find_changes(
    a: ModelSource, b: ModelSource, tolerances: Tolerances
) -> tuple[list[Change], list[GraphComparison]]:
    """Find every change between two models, sorted by kind.

    Graph is compared with graph, the main ones first.

    Parameters
    ----------
    tolerances : Tolerances
        For the weights.

    Raises
    ------
    ModelError
        A weight is in a file that cannot be read.
    """
    numbers = Numbers()
    contents_a = Contents(numbers, a.folder, a.taken_out)
    contents_b = Contents(numbers, b.folder, b.taken_out)
    graphs = graph_of_model(a.proto, contents_a), graph_of_model(b.proto, contents_b)
    # Bodies and functions are compared later, as separate levels, so that deep nesting needs no
    # stack.
    levels = [_Level("", *graphs, None)]
    changes = [*_interface_changes(a.proto.graph, b.proto.graph, levels[0])]
    changes += _opset_changes(a.proto, b.proto)
    changes += _function_changes(a.proto, b.proto, (contents_a, contents_b), levels)
    comparisons = []
    # The list grows while it is walked.
    for level in levels:
        comparison = GraphComparison(level, tolerances)
        changes += comparison.changes()
        levels += comparison.bodies()
        comparisons.append(comparison)
    return sorted(changes, key=lambda change: KINDS.index(change.kind)), comparisons


# ---- the file around the graphs


def _interface_changes(a: GraphProto, b: GraphProto, level: _Level) -> Iterator[Change]:
    """Compare the types of the models' inputs and outputs."""
    # Initializers that can be fed are no inputs of the level.
    inputs_a = {
        info.name: _format_type(info.type) for info in a.input if info.name in level.a.inputs
    }
    inputs_b = {
        info.name: _format_type(info.type) for info in b.input if info.name in level.b.inputs
    }
    yield from _port_changes("input", inputs_a, inputs_b)
    outputs_a = {info.name: _format_type(info.type) for info in a.output}
    outputs_b = {info.name: _format_type(info.type) for info in b.output}
    yield from _port_changes("output", outputs_a, outputs_b)


def _port_changes(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Change]:
    names_a = {name_b: name_a for name_a, name_b in pair_names(list(a), list(b))}
    return _fact_changes(kind, a, {names_a.get(name, name): text for name, text in b.items()})


def _fact_changes(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Change]:
    """Yield a change for each name whose texts differ."""
    for name in {**a, **b}:
        fact = Fact(name, a.get(name), b.get(name))
        if fact.a != fact.b:
            yield Change(kind, facts=(fact,))


def _format_type(proto: TypeProto) -> str:
    try:
        port = protos.type_of_proto(proto)
    except InputError:
        # An unknown dtype is shown as the file has it.
        port = ANY
    if port == ANY and proto.WhichOneof("value"):
        return sanitize(" ".join(str(proto).split()), _TEXT)
    return sanitize(port, _TEXT)


def _opset_changes(a: ModelProto, b: ModelProto) -> Iterator[Change]:
    """Compare the imports that nodes use."""
    used = {site.node.domain for model in (a, b) for site in protos.walk(model)}
    sides = []
    for model in (a, b):
        versions = {}
        for domain, version in Defaults.of_model(model).imports.items():
            if domain in used:
                versions[sanitize(domain or "ai.onnx", _TEXT)] = sanitize(version)
        sides.append(versions)
    return _fact_changes("opset", *sides)


def _function_changes(
    a: ModelProto, b: ModelProto, contents: tuple[Contents, Contents], levels: list[_Level]
) -> Iterator[Change]:
    """List the functions that only one model has, and add the bodies of others to ``levels``."""
    graphs = []
    for model, side_contents in zip((a, b), contents, strict=True):
        functions = {}
        for function in model.functions:
            name = "::".join(filter(None, (function.domain, function.name, function.overload)))
            functions[sanitize(name)] = _graph_of_function(function, side_contents)
        graphs.append(functions)
    functions_a, functions_b = graphs
    for name in functions_a:
        if name in functions_b:
            level = _Level(f"function {name}", functions_a[name], functions_b[name], {})
            levels.append(level)
    there_a, there_b = (dict.fromkeys(functions, "there") for functions in graphs)
    return _fact_changes("function", there_a, there_b)


def _graph_of_function(function: FunctionProto, contents: Contents) -> HashedGraph:
    imports = {entry.domain: entry.version for entry in function.opset_import}
    return HashedGraph(function, Defaults(imports), contents)


# ---- one pair of graphs


class GraphComparison:
    """The comparison of two graphs, whose nodes are matched."""

    def __init__(self, level: _Level, tolerances: Tolerances) -> None:
        self.path = level.path
        self.a = level.a
        self.b = level.b
        self.tolerances = tolerances
        self.matching = Matching(level.a, level.b, level.outer)
        # Tensors of a to tensors of b, outside the graphs and in them.
        outside = level.outer or {name: name for name in {*level.a.free} & {*level.b.free}}
        self.values = {**outside, **self.matching.values}
        # Weights that differ, with the first nodes that read them.
        self.weights: dict[tuple[str, str], tuple[int, int]] = {}

    def changes(self) -> Iterator[Change]:
        for i, j in sorted(self.matching.forward.items()):
            yield from self._compare_nodes(i, j)
        yield from self._output_changes()
        yield from self._unpaired()
        yield from self._weight_changes()

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
        a = self.a
        b = self.b
        node_a = a.nodes[i]
        node_b = b.nodes[j]
        if _op_name(node_a) != _op_name(node_b):
            yield Fact("op", _op_name(node_a), _op_name(node_b))
        elif a.local[i] != b.local[j] or a.defaults.imports != b.defaults.imports:
            contents = a.contents.of, b.contents.of
            defaults = a.defaults, b.defaults
            for name, *texts in differing_attributes((node_a, node_b), defaults, contents):
                yield Fact(f"attr {sanitize(name, _TEXT)}", *texts)

    def _input_facts(self, i: int, j: int) -> Iterator[Fact]:
        inputs_a = list(self.a.nodes[i].input)
        inputs_b = list(self.b.nodes[j].input)
        # Trailing omitted inputs may be written as empty names or left out.
        inputs_a += [""] * (len(inputs_b) - len(inputs_a))
        inputs_b += [""] * (len(inputs_a) - len(inputs_b))
        for slot, (x, y) in enumerate(zip(inputs_a, inputs_b, strict=True)):
            if not self._same_tensor(x, y, (i, j)):
                yield Fact(f"input {slot}", _format_tensor(x, self.a), _format_tensor(y, self.b))

    def _same_tensor(self, x: str, y: str, readers: tuple[int, int]) -> bool:
        """Tell whether two nodes read the same tensors; differing weights are noted for later."""
        if not x or not y:
            return x == y
        weight_a = self.a.weight(x)
        weight_b = self.b.weight(y)
        if weight_a is not None and weight_b is not None:
            # The values are compared once, however many nodes read the weight.
            if weight_a != weight_b:
                self.weights.setdefault((x, y), readers)
            return True
        if self.matching.same_number(x, y):
            return True
        # Nodes in between that were removed or inserted leave the tensor as the same one.
        above_x = (x, *_walk_up(self.a, x, self.matching.forward))
        above_y = {y, *_walk_up(self.b, y, self.matching.back)}
        if any(self.values.get(name) in above_y for name in above_x):
            return True
        # The result of a node that was removed may have become a weight.
        producer = self.a.producers.get(x, (-1, 0))[0]
        is_open = producer >= 0 and producer not in self.matching.forward
        return is_open and weight_b is not None and x not in self.matching.values

    def bodies(self) -> Iterator[_Level]:
        """Yield the bodies of paired nodes, to be compared in turn."""
        for i, j in sorted(self.matching.forward.items()):
            bodies_b = dict(self.b.bodies.get(j, ()))
            for name, body in self.a.bodies.get(i, ()):
                if name in bodies_b:
                    # Of a deep nest, only the innermost bodies are named.
                    outer = self.path
                    if len(outer) >= 5 * _TEXT:
                        outer = "…"
                    path = ", ".join(
                        filter(None, (outer, protos.path_of_body(self.a.nodes[i], name)))
                    )
                    yield _Level(path, body, bodies_b[name], self.values)

    # ---- without a partner

    def _unpaired(self) -> Iterator[Change]:
        for group_a, group_b in group_unpaired(self.matching):
            facts: tuple[Fact, ...] = ()
            if not group_a:
                change_kind = "added"
            elif not group_b:
                change_kind = "removed"
            elif len(group_a) == len(group_b) == 1:
                change_kind = "changed"
                ops = _op_name(self.a.nodes[group_a[0]]), _op_name(self.b.nodes[group_b[0]])
                facts = (Fact("op", *ops),)
            else:
                change_kind = "split"
                if len(group_a) >= len(group_b):
                    change_kind = "fused"
            nodes_a = tuple(_node_at(self.a, position) for position in group_a)
            nodes_b = tuple(_node_at(self.b, position) for position in group_b)
            yield Change(change_kind, self.path, nodes_a, nodes_b, facts)

    def _output_changes(self) -> Iterator[Change]:
        pairs = list(zip(self.a.outputs, self.b.outputs, strict=False))
        if not self.path:
            pairs = pair_names(self.a.outputs, self.b.outputs)
        for x, y in pairs:
            if not self._same_tensor(x, y, (-1, -1)):
                names = _format_tensor(x, self.a), _format_tensor(y, self.b)
                yield Change("output", self.path, facts=(Fact("what is given", *names),))

    def _weight_changes(self) -> Iterator[Change]:
        for (x, y), (i, j) in self.weights.items():
            facts = [Fact("name", sanitize(x, _TEXT), sanitize(y, _TEXT))]
            values = None
            try:
                values = self._compare_weights(x, y)
            except (ValueError, TypeError, KeyError, InputError, OSError) as error:
                # A weight whose file is missing must not keep the other changes from being shown.
                message = sanitize(f"{type(error).__name__}: {error}")
                facts.append(Fact("values cannot be read", message, None))
            # An output that is a weight has no reader.
            nodes_a = (_node_at(self.a, i),) if i >= 0 else ()
            nodes_b = (_node_at(self.b, j),) if j >= 0 else ()
            yield Change("weight", self.path, nodes_a, nodes_b, tuple(facts), values)

    def _compare_weights(self, x: str, y: str) -> Diff:
        tensor_a = self.a.tensor(x)
        tensor_b = self.b.tensor(y)
        if not isinstance(tensor_a, TensorProto) or not isinstance(tensor_b, TensorProto):
            raise TypeError("a sparse tensor")
        arrays = self.a.contents.array(tensor_a), self.b.contents.array(tensor_b)
        return compared(*arrays, self.tolerances)


def _node_at(graph: HashedGraph, place: int) -> NodeAt:
    node = graph.nodes[place]
    outputs = tuple(sanitize(name, _TEXT) for name in node.output[:_MAX_CHAIN])
    return NodeAt(place, _op_name(node), sanitize(node.name, _TEXT), outputs)


def _op_name(node: NodeProto) -> str:
    """Name the op with its domain, unless that is ONNX's own."""
    return sanitize(protos.full_name(node).removeprefix("::"), _TEXT)


def _format_tensor(name: str, graph: HashedGraph) -> str | None:
    if not name:
        return None
    prefix = ""
    if graph.weight(name) is not None:
        prefix = "weight "
    return prefix + sanitize(name, _TEXT)


def _walk_up(graph: HashedGraph, name: str, paired: Mapping[int, int]) -> Iterator[str]:
    """Yield the tensors above one, through unpaired nodes that have one input besides weights."""
    for _ in range(_MAX_CHAIN):
        producer, _ = graph.producers.get(name, (None, 0))
        if producer is None or producer in paired or producer in graph.constants:
            return
        reads = {x for _, x in graph.reads(producer) if graph.weight(x) is None}
        # After a node that reads two tensors, neither of them is the same.
        if len(reads) != 1:
            return
        name = reads.pop()
        yield name
