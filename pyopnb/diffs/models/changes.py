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
from pyopnb.diffs.models.hashing import Contents, Fingerprints, Graph, Numbers, graph_of
from pyopnb.diffs.models.match import Matching, graph_of_model, match_graphs, pair_names
from pyopnb.errors import InputError
from pyopnb.models.external_data import with_data
from pyopnb.models.io import FOLDER, ModelSource
from pyopnb.models.nodes import full_name, type_of_proto, walk
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import ANY

__all__ = ["find_changes"]

_TEXT = 80
_MAX_CHAIN = 64  # inserted or removed nodes in a row, up to which a reader behind them still counts as reading the same


@dataclass(frozen=True)
class _Level:
    """Two graphs to be compared, and what tensors outside them correspond."""

    path: str
    a: Graph
    b: Graph
    outer: Mapping[str, str] | None


_Tolerances = tuple[float | None, float | None, float | None]


def find_changes(
    a: ModelSource, b: ModelSource, tolerances: _Tolerances
) -> tuple[list[Change], Counts]:
    """Find every change between two models.

    Parameters
    ----------
    a, b : ModelSource
    tolerances : tuple of (float or None)
        For the weights: ``rtol``, ``atol`` and ``stol``.

    Returns
    -------
    tuple of (list of Change, Counts)
        The changes by kind.

    Raises
    ------
    ModelError
        A weight is in a file that cannot be read.
    """
    numbers, counts = Numbers(), Counts()
    contents = [Contents(numbers, source.folder, source.taken_out) for source in (a, b)]
    levels = deque(
        [
            _Level(
                "", graph_of_model(a.proto, contents[0]), graph_of_model(b.proto, contents[1]), None
            )
        ]
    )
    changes = [*_interface(a.proto.graph, b.proto.graph, levels[0]), *_header(a.proto, b.proto)]
    changes += _functions(a.proto, b.proto, contents, levels)
    while levels:
        changes += _GraphComparison(levels.popleft(), levels, counts, tolerances).changes()
    return sorted(changes, key=lambda change: KINDS.index(change.kind)), counts


# ---- the file around the graphs


def _interface(a: GraphProto, b: GraphProto, level: _Level) -> Iterator[Change]:
    for kind, left, right in (("input", a.input, b.input), ("output", a.output, b.output)):
        one, other = {info.name: info for info in left}, {info.name: info for info in right}
        required = (
            [list(one), list(other)] if kind == "output" else [level.a.inputs, level.b.inputs]
        )
        pairs = dict(pair_names(*required))
        if kind == "input":  # those that have a default: initializers that can be fed
            taken = set(pairs.values())
            pairs |= {
                name: name
                for name in one.keys() & other.keys()
                if name not in pairs and name not in taken
            }
        types = [
            {name: _format_type(info.type) for name, info in infos.items()}
            for infos in (one, other)
        ]
        known = set(pairs.values())
        facts = [Fact(name, types[0][name], types[1][partner]) for name, partner in pairs.items()]
        facts += [Fact(name, types[0][name], None) for name in one if name not in pairs]
        facts += [Fact(name, None, types[1][name]) for name in other if name not in known]
        yield from (Change(kind, facts=(fact,)) for fact in facts if fact.a != fact.b)


def _format_type(proto: TypeProto) -> str:
    try:
        kind = type_of_proto(proto)
        if kind != ANY or not proto.WhichOneof("value"):
            return sanitize(kind, _TEXT)
    except InputError:
        pass  # an unknown dtype: as the file has it
    return sanitize(" ".join(str(proto).split()), _TEXT)


def _header(a: ModelProto, b: ModelProto) -> Iterator[Change]:
    used = {site.node.domain or "ai.onnx" for model in (a, b) for site in walk(model)}
    opsets = [
        {
            o.domain or "ai.onnx": str(o.version)
            for o in m.opset_import
            if (o.domain or "ai.onnx") in used
        }
        for m in (a, b)
    ]
    yield from (Change("opset", facts=(fact,)) for fact in _differing(*opsets))
    names = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
    fields = [{name: sanitize(getattr(model, name), _TEXT) for name in names} for model in (a, b)]
    metadata = [
        {
            f"metadata {sanitize(e.key, _TEXT)}": sanitize(e.value, _TEXT)
            for e in model.metadata_props
            if e.key != FOLDER
        }
        for model in (a, b)
    ]
    yield from (
        Change("header", facts=(fact,)) for fact in (*_differing(*fields), *_differing(*metadata))
    )


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[Fact]:
    return [
        Fact(sanitize(key, _TEXT), a.get(key), b.get(key))
        for key in dict.fromkeys((*a, *b))
        if a.get(key) != b.get(key)
    ]


def _functions(
    a: ModelProto, b: ModelProto, contents: list[Contents], levels: deque[_Level]
) -> Iterator[Change]:
    ours, theirs = (
        {(f.domain, f.name, f.overload): f for f in model.functions} for model in (a, b)
    )
    local = [{(f.domain, f.name): f for f in model.functions} for model in (a, b)]
    for key in dict.fromkeys((*ours, *theirs)):
        name = sanitize("::".join(filter(None, key)) or "without a name")
        left, right = ours.get(key), theirs.get(key)
        if left is None or right is None:
            fact = Fact(name, *("there" if one is not None else None for one in (left, right)))
            yield Change("function", facts=(fact,))
            continue
        facts = [
            *_differing(_declared(left), _declared(right)),
            *_differing(
                *(
                    {f"opset {o.domain or 'ai.onnx'}": str(o.version) for o in f.opset_import}
                    for f in (left, right)
                )
            ),
        ]
        if facts:
            yield Change("function", f"function {name}", facts=tuple(facts))
        graphs = [_function(*one) for one in zip((left, right), local, contents, strict=True)]
        levels.append(_Level(f"function {name}", graphs[0], graphs[1], {}))


def _declared(function: FunctionProto) -> dict[str, str]:
    defaults = {f"attr {a.name}": format_attribute(a) for a in function.attribute_proto}
    attrs = {f"attr {name}": "required" for name in function.attribute}
    return {
        "inputs": str(len(function.input)),
        "outputs": str(len(function.output)),
        **attrs,
        **defaults,
    }


def _function(
    function: FunctionProto, local: Mapping[tuple[str, str], FunctionProto], contents: Contents
) -> Graph:
    return graph_of(
        function, Defaults({o.domain: o.version for o in function.opset_import}, local), contents
    )


# ---- one pair of graphs


class _GraphComparison:
    def __init__(
        self, level: _Level, levels: deque[_Level], counts: Counts, tolerances: _Tolerances
    ) -> None:
        self.path, self.a, self.b, self.outer = (
            level.path,
            level.a,
            level.b,
            dict(level.outer or {}),
        )
        self.levels, self.counts, self.tolerances = levels, counts, tolerances
        self.matching: Matching
        self.left: Fingerprints
        self.right: Fingerprints
        self.matching, self.left, self.right = match_graphs(level.a, level.b, level.outer)
        undefined = {} if self.outer else {name: name for name in {*level.a.free} & {*level.b.free}}
        self.values = self.outer | undefined | self.matching.values
        self.weights: dict[tuple[str, str], tuple[int, int]] = {}
        """Weights that differ, with the first nodes that read them."""

    def changes(self) -> Iterator[Change]:
        if self.path and (len(self.a.inputs), len(self.a.outputs)) != (
            len(self.b.inputs),
            len(self.b.outputs),
        ):
            for kind, one, other in (
                ("input", self.a.inputs, self.b.inputs),
                ("output", self.a.outputs, self.b.outputs),
            ):
                if len(one) != len(other):
                    yield Change(
                        kind,
                        self.path,
                        facts=(Fact(f"number of {kind}s", str(len(one)), str(len(other))),),
                    )
        pairs = [(i, j) for i, j in self.matching.pairs if i not in self.a.constants]
        for i, j in pairs:
            yield from self._compare_nodes(i, j)
            self._add_bodies(i, j)
        yield from self._outputs()
        yield from self._unpaired()
        yield from self._weights()
        yield from self._unread_weights()
        self._count(pairs)

    def _count(self, pairs: list[tuple[int, int]]) -> None:
        counts = self.counts
        if not self.path:
            counts.tensors = self.matching.values
        counts.a += len(self.a.nodes) - len(self.a.constants)
        counts.b += len(self.b.nodes) - len(self.b.constants)
        counts.pairs += len(pairs)
        counts.renamed += sum(self.a.nodes[i].name != self.b.nodes[j].name for i, j in pairs)
        counts.renamed += sum(
            name != other for name, other in self.matching.values.items() if name not in self.a.free
        )
        counts.moved |= any(j > k for (_, j), (_, k) in pairwise(pairs))

    def _nodes_at(self, side: int, places: tuple[int, ...]) -> tuple[NodeAt, ...]:
        graph = (self.a, self.b)[side]
        return tuple(_node_at(graph.nodes[place], place) for place in places)

    # ---- a pair of nodes

    def _compare_nodes(self, i: int, j: int) -> Iterator[Change]:
        facts = tuple(self._op_facts(i, j))
        if facts:
            yield Change(
                "changed", self.path, self._nodes_at(0, (i,)), self._nodes_at(1, (j,)), facts
            )
        moved = tuple(self._input_facts(i, j))
        if moved:
            yield Change(
                "rewired", self.path, self._nodes_at(0, (i,)), self._nodes_at(1, (j,)), moved
            )

    def _op_facts(self, i: int, j: int) -> Iterator[Fact]:
        left, right = self.a.nodes[i], self.b.nodes[j]
        if (full_name(left), left.overload) != (full_name(right), right.overload):
            names = [
                _op_name(node) + (f":{sanitize(node.overload, _TEXT)}" if node.overload else "")
                for node in (left, right)
            ]
            yield Fact("op", *names)
        elif (
            self.a.local[i] != self.b.local[j] or self.a.defaults.imports != self.b.defaults.imports
        ):
            defaults, contents = (
                (self.a.defaults, self.b.defaults),
                (self.a.contents.of, self.b.contents.of),
            )
            for name, *values in differing_attributes((left, right), defaults, contents):
                yield Fact(
                    f"attr {sanitize(name, _TEXT)}",
                    *(None if x is None else format_attribute(x) for x in values),
                )
        given = [_without_trailing(node.output) for node in (left, right)]
        if len(given[0]) != len(given[1]):
            yield Fact("outputs", str(len(given[0])), str(len(given[1])))

    def _input_facts(self, i: int, j: int) -> Iterator[Fact]:
        left, right = self.a.nodes[i], self.b.nodes[j]
        for slot in range(max(len(left.input), len(right.input))):
            x = left.input[slot] if slot < len(left.input) else ""
            y = right.input[slot] if slot < len(right.input) else ""
            if not self._same_tensor(x, y, (i, j)):
                yield Fact(f"input {slot}", _format_tensor(x, self.a), _format_tensor(y, self.b))

    def _same_tensor(self, x: str, y: str, readers: tuple[int, int]) -> bool:
        if not x or not y:
            return x == y
        one, other = self.a.weight(x), self.b.weight(y)
        if one is not None and other is not None:
            if one != other:
                self.weights.setdefault((x, y), readers)
            return True
        if self.left.values.get(x, -1) == self.right.values.get(y, -2) or self.values.get(x) == y:
            return True
        return self._same_through_unpaired(x, y) or (
            other is not None and one is None and self._may_be_folded(x)
        )

    def _same_through_unpaired(self, x: str, y: str) -> bool:
        """Tell whether two tensors are the same except for nodes in between that were removed or inserted."""
        above_y = {y, *_walk_up(self.b, y, self.matching.back)}
        return any(
            self.values.get(name) in above_y
            for name in (x, *_walk_up(self.a, x, self.matching.forward))
        )

    def _may_be_folded(self, x: str) -> bool:
        """Tell whether the result of a node that was removed may have become a weight."""
        producer = self.a.producers.get(x)
        return (
            producer is not None
            and producer[0] not in self.matching.forward
            and x not in self.matching.values
        )

    def _add_bodies(self, i: int, j: int) -> None:
        inner = [
            _number_bodies(graph.bodies.get(place, []))
            for graph, place in ((self.a, i), (self.b, j))
        ]
        node = self.a.nodes[i]
        for key in inner[0].keys() & inner[1].keys():
            name, number = key
            title = sanitize(node.name or next(iter(_without_trailing(node.output)), ""), _TEXT)
            path = f"{sanitize(node.op_type, _TEXT)} '{title}', {sanitize(name, _TEXT)}" + (
                f" {number}" if number else ""
            )
            if self.path:  # of a deep nest, only the innermost bodies
                path = f"{self.path if len(self.path) < 5 * _TEXT else '…'}, {path}"
            self.levels.append(_Level(path, inner[0][key], inner[1][key], self.values))

    # ---- what has no partner

    def _unpaired(self) -> Iterator[Change]:
        for left, right in group_unpaired(self.a, self.b, self.matching):
            facts: tuple[Fact, ...] = ()
            if not right:
                kind, facts = self._classify_removal(left[0])
            elif not left:
                kind = "added"
            elif len(left) == len(right) == 1:
                kind, facts = (
                    "changed",
                    (
                        Fact(
                            "op", _op_name(self.a.nodes[left[0]]), _op_name(self.b.nodes[right[0]])
                        ),
                    ),
                )
            else:
                kind = (
                    "fused"
                    if len(left) > len(right)
                    else "split"
                    if len(left) < len(right)
                    else "exchanged"
                )
            yield Change(kind, self.path, self._nodes_at(0, left), self._nodes_at(1, right), facts)

    def _classify_removal(self, place: int) -> tuple[str, tuple[Fact, ...]]:
        for name in self.a.nodes[place].output:
            if name in self.matching.values:
                return "fused", (
                    Fact(
                        "computed once",
                        sanitize(name, _TEXT),
                        sanitize(self.matching.values[name], _TEXT),
                    ),
                )
            for reader, slot in self.a.consumers.get(name, ())[:_MAX_CHAIN] if name else ():
                j = self.matching.forward.get(reader)
                y = (
                    self.b.nodes[j].input[slot]
                    if j is not None and 0 <= slot < len(self.b.nodes[j].input)
                    else ""
                )
                if y and self.b.weight(y) is not None:
                    return "folded", (
                        Fact("became a weight", sanitize(name, _TEXT), sanitize(y, _TEXT)),
                    )
        return "removed", ()

    def _outputs(self) -> Iterator[Change]:
        pairs = (
            pair_names(self.a.outputs, self.b.outputs)
            if not self.path
            else zip(self.a.outputs, self.b.outputs, strict=False)
        )
        for x, y in pairs:
            if not self._same_tensor(x, y, (-1, -1)):
                yield Change(
                    "output",
                    self.path,
                    facts=(
                        Fact("what is given", _format_tensor(x, self.a), _format_tensor(y, self.b)),
                    ),
                )

    # ---- weights

    def _weights(self) -> Iterator[Change]:
        for (x, y), (i, j) in self.weights.items():
            facts, values = [Fact("name", sanitize(x, _TEXT), sanitize(y, _TEXT))], None
            one, other = self.a.tensor(x), self.b.tensor(y)
            try:
                arrays = _read_weight(one, self.a.contents), _read_weight(other, self.b.contents)
                values = compared(*arrays, *self.tolerances)
            except (ValueError, TypeError, KeyError, InputError, OSError) as error:
                facts.append(
                    Fact(
                        "values cannot be read", sanitize(f"{type(error).__name__}: {error}"), None
                    )
                )
            yield Change(
                "weight",
                self.path,
                self._nodes_at(0, (i,) * (i >= 0)),
                self._nodes_at(1, (j,) * (j >= 0)),
                tuple(facts),
                values,
            )

    def _unread_weights(self) -> Iterator[Change]:
        """Initializers that nothing reads and the other side lacks."""
        for side, graph, other in ((0, self.a, self.b), (1, self.b, self.a)):
            known, given = set(other.weights.values()), set(graph.outputs)
            for name, weight in graph.weights.items():
                if (
                    name not in graph.consumers
                    and name not in given
                    and weight not in known
                    and name not in graph.producers
                ):
                    names = [sanitize(name, _TEXT) if side == here else None for here in (0, 1)]
                    yield Change("weight", self.path, facts=(Fact("unread", *names),))


def _node_at(node: NodeProto, place: int) -> NodeAt:
    outputs = tuple(sanitize(name, _TEXT) for name in node.output[:_MAX_CHAIN])
    return NodeAt(place, _op_name(node), sanitize(node.name, _TEXT), outputs)


def _op_name(node: NodeProto) -> str:
    """Name the op with its domain, ONNX's own without."""
    return sanitize(full_name(node).removeprefix("::"), _TEXT)


def _without_trailing(names: Sequence[str]) -> list[str]:
    """Names without the omitted ones at the end."""
    last = max((index for index, name in enumerate(names) if name), default=-1)
    return list(names[: last + 1])


def _format_tensor(name: str, graph: Graph) -> str | None:
    if not name:
        return None
    return (
        f"weight {sanitize(name, _TEXT)}"
        if graph.weight(name) is not None
        else sanitize(name, _TEXT)
    )


def _number_bodies(bodies: list[tuple[str, Graph]]) -> dict[tuple[str, int], Graph]:
    """Bodies by their attribute and their position in it."""
    counts: Counter[str] = Counter()
    numbered = {}
    for name, body in bodies:
        numbered[name, counts[name]] = body
        counts[name] += 1
    return numbered


def _walk_up(graph: Graph, name: str, paired: Mapping[int, int]) -> Iterator[str]:
    """Yield the tensors above one, through nodes without a partner that read a single tensor besides weights."""
    for _ in range(_MAX_CHAIN):
        producer = graph.producers.get(name)
        if producer is None or producer[0] in paired or producer[0] in graph.constants:
            return
        read = {x for _, x in graph.reads(producer[0]) if graph.weight(x) is None}
        if len(read) != 1:
            return
        name = read.pop()
        yield name


def _read_weight(tensor: TensorProto | SparseTensorProto | None, contents: Contents) -> Any:
    """Read a weight as an array, a sparse one as a dict of its parts."""
    if isinstance(tensor, SparseTensorProto):
        values, indices = (
            _read_weight(tensor.values, contents),
            _read_weight(tensor.indices, contents),
        )
        return {"values": values, "indices": indices, "shape": list(tensor.dims)}
    if tensor is None:
        raise ValueError("there is no such weight")
    if tensor.data_location == TensorProto.EXTERNAL:
        if contents.folder is None:
            raise ValueError("its data is in a file, and the model is in memory without a folder")
        tensor = with_data(tensor, contents.folder)
    return np.asarray(numpy_helper.to_array(tensor))
