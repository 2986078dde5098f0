"""The nodes that the installed ONNX Runtime lacks something for, found by following the types of all values.

This is another inference than `pyopnb.models.types`, which runs ONNX's over the whole model once: here each node is judged for
the dtypes that reach it in each call of a function, without shapes, so that a wrong shape or an unknown op stops nothing.
Nothing recurses: what is inside a node is a generator that the walk puts on a stack of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
)

from pyopnb.errors import ModelError
from pyopnb.models.functions import expansion, function_key
from pyopnb.models.index import GraphIndex
from pyopnb.models.markers import PREFIX
from pyopnb.models.nodes import (
    Site,
    first_output,
    full_name,
    imported_versions,
    is_constant,
    named_bodies,
)
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.ort_capabilities import (
    Operator,
    newest_version,
    operator_at,
    operators,
    schema_domains,
)
from pyopnb.models.support.kernels import (
    Kinds,
    float16_as_float32,
    has_kernel,
    port_at,
    type_mismatch,
    unserved_types,
)
from pyopnb.models.support.operators import declared_outputs, defaults_of, function_of, infer_node
from pyopnb.models.support.ort_types import kind_of, proto_of, tensor_kind, to_notation
from pyopnb.models.support.unsupported import MIXED, Misfit, Unsupported
from pyopnb.models.versions import NewImport, changed_in, runnable_versions
from pyopnb.ops.messages import closest, plural, sanitize
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.registry import registry

__all__ = ["lacks"]

_RETIRED = "PyOp"
_ONNX = ("", "ai.onnx.ml")
"""The domains in which the runtime ignores local functions."""

_LARGE = frozenset(
    getattr(AttributeProto, name)
    for name in ("TENSOR", "TENSORS", "GRAPH", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS")
)

_GUESSES = 200
"""Unknown names for which a similar known one is looked up: half a millisecond each, and a file can hold any number."""

_Task = Generator["_Task", Any, Any]


@dataclass
class _Names:
    """The types of a graph's values by name, during one walk of it."""

    graph: GraphIndex
    outer: _Names | None
    kinds: dict[str, str | None] = field(default_factory=dict)
    protos: dict[str, TypeProto] = field(
        default_factory=dict
    )  # of those that the file declares, with their shapes
    truths: dict[str, bool] = field(default_factory=dict)  # of constants that a condition can be

    def scope_of(self, name: str) -> _Names:
        scope = self
        while name not in scope.kinds and scope.outer is not None:
            scope = scope.outer
        return scope

    def kind(self, name: str) -> str | None:
        return self.kinds[name] if name in self.kinds else self.scope_of(name).kinds.get(name)

    def proto(self, name: str, kind: str | None) -> TypeProto:
        """Return the type with the shape that the file declares, if that is of the same kind."""
        declared = self.scope_of(name).protos.get(name) if name else None
        return (
            declared if declared is not None and kind_of(declared) == kind else proto_of(kind or "")
        )


@dataclass(frozen=True)
class _Around:
    """The context of a node, apart from names."""

    versions: Mapping[str, int]
    own: Mapping[str, int] = field(
        default_factory=dict
    )  # as the local function imports them that the node is in
    attrs: Mapping[str, AttributeProto] = field(default_factory=dict)
    found: list[tuple[Site, Unsupported]] = field(default_factory=list)
    unused: bool = False  # in a branch whose condition is a constant
    expanded: bool = False  # in a function that defines an operator, whose own node is reported

    @property
    def key(self) -> tuple[Any, ...]:
        return (
            frozenset(self.versions.items()),
            frozenset(self.own.items()),
            self.unused,
            self.expanded,
        )


def lacks(proto: ModelProto, new: Iterable[NewImport]) -> list[tuple[Site, Unsupported]]:
    """Return every node of the model that the runtime lacks something for, with what it lacks.

    Parameters
    ----------
    proto : ModelProto
    new : iterable of NewImport
        Its `new_imports`.

    Raises
    ------
    ModelError
        A name is defined twice, nodes form a cycle, or as from `expansion`.
    """
    if proto.functions:
        expansion(
            proto
        )  # only whether it ends: each function is judged once for the types that it is called with
    around = _Around(runnable_versions(proto, new))
    _run(_Walk(proto).scope(GraphIndex(proto.graph), (), None, around))
    first: dict[int, tuple[Site, Unsupported]] = {}
    for site, lack in around.found:
        first.setdefault(id(site.node), (site, lack))
    return list(first.values())


def _run(task: _Task) -> Any:
    stack, value = [task], None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
    return value


class _Walk:
    def __init__(self, proto: ModelProto) -> None:
        functions = [f for f in proto.functions if canonical_domain(f.domain) not in _ONNX]
        self.functions = {function_key(f): (f, GraphIndex(f)) for f in functions}
        self.called: set[tuple[str, str, str]] = set()  # functions that are being walked
        self.guesses = _GUESSES
        self.places: dict[Any, int] = {}
        self.judged: dict[Any, tuple[Unsupported | None, Kinds]] = {}

    def scope(
        self, graph: GraphIndex, inputs: Kinds, outer: _Names | None, around: _Around
    ) -> _Task:
        """Walk a graph or function whose inputs are of these types; returns the types of its outputs."""
        graph.refuse_duplicates()
        graph.refuse_cycles()
        scope = graph.scope
        names = _names_of(graph, inputs, outer)
        declared = {info.name: info.type for info in scope.value_info}
        ends = (
            {end.name: end.type for end in scope.output}
            if isinstance(scope, GraphProto)
            else dict.fromkeys(scope.output)
        )
        declared |= {name: kind for name, kind in ends.items() if kind is not None}
        here = self.places.setdefault(around.key, len(self.places))  # a small number hashes faster
        known, ends_of = names.kinds, graph.ends
        for index, node in graph.in_order():
            given, made = ends_of[index]
            kinds = tuple(
                [
                    (known[name] if name in known else names.kind(name)) if name else ""
                    for name in given
                ]
            )
            attributes = graph.attributes.get(index, ())
            key = _key(node, attributes, kinds, made, here)
            judged = self.judged.get(key) if key else None
            if judged is None:
                judged = yield self.node(node, index, kinds, names, around)
                if key:
                    self.judged[key] = judged
            lack, outputs = judged
            if lack is not None and not (
                lack.kernel and (around.unused or _is_eliminated(node, ends))
            ):
                around.found.append((Site(node, scope, graph.path), lack))
            _record(made, outputs, names, declared)
            if attributes and is_constant(node):
                _record_constant(node, attributes, names)
        return [names.kind(name) for name in ends]

    def node(
        self, node: NodeProto, index: int, kinds: Kinds, names: _Names, around: _Around
    ) -> _Task:
        """Judge one node; returns its `Unsupported`, or None, and the types of its outputs."""
        node, bodies = _with_callers_attrs(node, index, names.graph, around.attrs)
        _refuse_undecodable(node, names.graph)
        domain = canonical_domain(node.domain)
        own = _outputs_of_op(node, domain)
        if own is not None:
            return None, own
        newest = newest_version(domain)
        version = around.versions.get(
            domain, newest
        )  # the runtime adds an import of its own domains
        if newest is not None and version is not None and version > newest:
            since = changed_in(domain, node.op_type, version, newest)
            if since is not None:
                schema = find_schema(domain, node.op_type, version)
                return _too_new(node, since, newest), self.infer(schema, node, kinds, names, around)
            version = newest
        operator = (
            None
            if newest is None or version is None
            else operator_at(domain, node.op_type, version)
        )
        if operator is not None:
            return (yield self.standard(node, bodies, operator, version or 1, kinds, names, around))
        function = self.functions.get(function_key(node))
        if function is not None and version is not None:
            return (yield self.call(node, *function, kinds, around))
        schema = find_schema(domain, node.op_type, version)
        known = (
            [None] * len(node.output)
            if schema is None
            else self.infer(schema, node, kinds, names, around)
        )
        return self.unknown(node, domain, version), known

    def standard(
        self,
        node: NodeProto,
        bodies: _Bodies,
        operator: Operator,
        version: int,
        kinds: Kinds,
        names: _Names,
        around: _Around,
    ) -> _Task:
        """Judge a node whose operator the runtime knows; returns what `node` does."""
        outputs = yield self.inside(node, bodies, operator, kinds, names, around)
        if outputs is None:
            outputs = self.standard_outputs(node, operator, kinds, names, around)
        refusal = _refusal(node, operator, kinds, outputs)
        if refusal is None:
            refusal = _refusal_by_function(node, operator, kinds, outputs, around)
        if refusal is not None or is_constant(node) or has_kernel(operator, kinds, outputs):
            return refusal, outputs
        # The runtime computes float16 in float32 where it has no kernel of its own for it.
        if "tensor(float16)" in kinds and has_kernel(
            operator, float16_as_float32(kinds), float16_as_float32(outputs)
        ):
            return None, outputs
        return (yield self.expanded(node, operator, version, kinds, outputs, names, around))

    def standard_outputs(
        self, node: NodeProto, operator: Operator, kinds: Kinds, names: _Names, around: _Around
    ) -> list[str | None]:
        """Find the types of outputs by the operator's type variables and, as that is slower, by ONNX where these do not do."""
        outputs = declared_outputs(node, operator, kinds)
        if None not in outputs:
            return outputs
        schema = find_schema(operator.domain, node.op_type, operator.since)
        if schema is None:
            return outputs
        return _merged(outputs, self.infer(schema, node, kinds, names, around))

    def expanded(
        self,
        node: NodeProto,
        operator: Operator,
        version: int,
        kinds: Kinds,
        outputs: list[str | None],
        names: _Names,
        around: _Around,
    ) -> _Task:
        """Judge a node without a kernel by the function that ONNX defines it by; returns what `node` does."""
        unserved = unserved_types(operator, kinds, outputs)
        types = [names.proto(name, kind) for name, kind in zip(node.input, kinds, strict=True)]
        body = function_of(node, operator, types, version)
        if body is None and unserved:
            return Unsupported(
                "no kernel for dtype", unserved, operator.since, kernel=True
            ), outputs
        if body is None:
            reason = f"version {operator.since} has none for any dtype"
            return Unsupported("no kernel", reason, operator.since, kernel=True), outputs
        # The node's own attributes come last, so that they win.
        attributes = [*defaults_of(operator), *body.attribute_proto, *node.attribute]
        attrs = {attribute.name: attribute for attribute in attributes}
        inner = replace(around, own={}, attrs=attrs, found=[], expanded=True)
        ends = yield self.scope(GraphIndex(body), kinds, None, inner)
        if not inner.found:
            return None, _merged(outputs, [*ends, *[None] * len(outputs)])
        site, first = inner.found[0]
        reason = f"{unserved or 'it has none'}, and the function in its place needs {full_name(site.node)}: {first.reason}"
        kind = "no kernel for dtype" if unserved else first.kind
        return Unsupported(kind, reason, operator.since, kernel=True), outputs

    def inside(
        self,
        node: NodeProto,
        bodies: _Bodies,
        operator: Operator,
        kinds: Kinds,
        names: _Names,
        around: _Around,
    ) -> _Task:
        """Walk the bodies of the runtime's control flow; returns the types of the outputs, or None for other nodes."""
        if operator.domain or node.op_type not in ("If", "Loop", "Scan") or not bodies:
            return None
        ends = {}
        for name, body in bodies:
            inner = replace(around, unused=around.unused or _is_dead_branch(node, name, names))
            given: Kinds = ()
            if node.op_type == "Loop":
                given = ["tensor(int64)", "tensor(bool)", *kinds[2:]]
            elif node.op_type == "Scan":
                given = (
                    kinds[1:] if operator.since < 9 else kinds
                )  # the first one's own batch lengths came first
            ends[name] = yield self.scope(body, given, names, inner)
        if node.op_type == "If":
            pairs = zip(ends.get("then_branch", ()), ends.get("else_branch", ()), strict=False)
            found = [a or b for a, b in pairs]
        else:
            found = ends.get("body", ())[1 if node.op_type == "Loop" else 0 :]
        return [*found, *[None] * len(node.output)][: len(node.output)]

    def call(
        self,
        node: NodeProto,
        function: FunctionProto,
        graph: GraphIndex,
        kinds: Kinds,
        around: _Around,
    ) -> _Task:
        """Walk a local function with the types and attrs of a call; returns what `node` does."""
        key = function_key(function)
        if key in self.called:
            raise ModelError(
                graph.path, expected="no recursion", got="a function that calls itself"
            )
        # The runtime puts the function's nodes into the graph, where the versions that the model imports hold. Before that, it
        # infers the function's types by the versions that the function imports.
        own = imported_versions(function)
        attrs = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        inner = replace(around, versions=own | dict(around.versions), own=own, attrs=attrs)
        self.called.add(key)
        ends = yield self.scope(graph, kinds, None, inner)
        self.called.remove(key)
        return None, ends

    def unknown(self, node: NodeProto, domain: str, version: int | None) -> Unsupported:
        """Return the `Unsupported` of a node whose operator the runtime does not have in that version."""
        asked = sanitize(full_name(node))
        self.guesses -= 1
        if domain not in schema_domains():
            known = {op.name for op in registry} | {f"{d}::{name}" for d, name, _ in self.functions}
            if version is None and full_name(node) in known:
                return Unsupported(
                    "unknown domain",
                    f"the model has {asked} and imports no version of {sanitize(domain)}",
                )
            reason = f"the runtime has no domain {sanitize(domain)}, and no op of the registry is {asked}"
            return Unsupported("unknown domain", reason + self.guess(full_name(node), known))
        versions = operators().get((domain, node.op_type))
        if versions:
            since = versions[0].since
            return Unsupported(
                "unknown op", f"it came in version {since}; the model imports {version}", since
            )
        names = [f"{domain}::{op_type}" for place, op_type in operators() if place == domain]
        return Unsupported(
            "unknown op", f"the runtime has no {asked}" + self.guess(full_name(node), names)
        )

    def guess(self, name: str, known: Collection[str]) -> str:
        close = closest(name, known) if self.guesses >= 0 else None
        return f"; nearest: {sanitize(close)}" if close else ""

    @staticmethod
    def infer(
        schema: Any, node: NodeProto, kinds: Kinds, names: _Names, around: _Around
    ) -> list[str | None]:
        types = {
            name: names.proto(name, kind)
            for name, kind in zip(node.input, kinds, strict=True)
            if name
        }
        return infer_node(schema, node, types, around.versions)


def _merged(kinds: Kinds, others: Kinds) -> list[str | None]:
    """Fill in the types that the first list does not have from the second."""
    return [other if kind is None else kind for kind, other in zip(kinds, others, strict=False)]


# ---- one scope ---------------------------------------------------------------------------------------------------------------


_Bodies = Sequence[tuple[str, GraphIndex]]


def _names_of(graph: GraphIndex, inputs: Kinds, outer: _Names | None) -> _Names:
    names, scope = _Names(graph, outer), graph.scope
    if isinstance(scope, FunctionProto):
        names.kinds |= dict(zip(scope.input, [*inputs, *[None] * len(scope.input)], strict=False))
        return names
    for place, info in enumerate(scope.input):
        given = inputs[place] if place < len(inputs) else None
        names.kinds[info.name] = given or kind_of(info.type)
        names.protos[info.name] = info.type
    for tensor in scope.initializer:
        if tensor.name not in names.kinds:  # else a default, which a feed may replace
            _record_truth(names, tensor.name, tensor)
        names.kinds[tensor.name] = tensor_kind(tensor.data_type)
    for sparse in scope.sparse_initializer:
        names.kinds[sparse.values.name] = tensor_kind(sparse.values.data_type)
    return names


def _record(
    made: Sequence[str], outputs: Kinds, names: _Names, declared: Mapping[str, TypeProto]
) -> None:
    """Record the types of a node's outputs; for unknown ones, what the file declares."""
    for name, kind in zip(made, outputs, strict=False):
        if name in declared and name:
            names.protos[name] = declared[name]
            kind = kind or kind_of(declared[name])
        names.kinds[name] = kind


def _record_constant(node: NodeProto, attributes: Sequence[AttributeProto], names: _Names) -> None:
    for attribute in attributes:
        if attribute.name == "value":
            _record_truth(names, first_output(node), attribute.t)


def _record_truth(names: _Names, name: str, tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.BOOL and tuple(tensor.dims) in ((), (1,)):
        names.truths[name] = any(tensor.raw_data) or any(tensor.int32_data)


def _is_dead_branch(node: NodeProto, branch: str, names: _Names) -> bool:
    """Tell whether a constant condition excludes a branch: the runtime drops it before it looks for kernels."""
    if node.op_type != "If" or not node.input:
        return False
    truth = names.scope_of(node.input[0]).truths.get(node.input[0])
    return truth is not None and branch == ("else_branch" if truth else "then_branch")


def _is_eliminated(node: NodeProto, ends: Mapping[str, Any]) -> bool:
    """Tell whether the runtime drops a node before it looks for kernels: a Dropout of whose outputs only the data is used."""
    plain = node.op_type == "Dropout" and not canonical_domain(node.domain) and len(node.input) <= 2
    return plain and len(node.output) == 1 and node.output[0] not in ends


# ---- one node ----------------------------------------------------------------------------------------------------------------


def _key(
    node: NodeProto,
    attributes: Sequence[AttributeProto],
    kinds: Kinds,
    made: Sequence[str],
    here: int,
) -> Any:
    """What a judgement depends on, as a dictionary key; None where that would be large."""
    attrs = []
    for attribute in attributes:
        if attribute.type in _LARGE or attribute.ref_attr_name:
            return None
        attrs.append(attribute.SerializeToString())
    op_type = node.op_type
    if op_type in _BY_SHAPE:
        return None
    left_out = "" in made and tuple(map(bool, made))
    return op_type, kinds, len(made), left_out, node.domain, node.overload, tuple(attrs), here


_BY_SHAPE = frozenset(("RotaryEmbedding", "CausalConvWithState"))


def _refuse_undecodable(node: NodeProto, graph: GraphIndex) -> None:
    # protobuf gives bytes where a name is not UTF-8.
    for name in (
        node.op_type,
        node.domain,
        *node.input,
        *node.output,
        *(a.name for a in node.attribute),
    ):
        if not isinstance(name, str):
            where = f"a node of op type {sanitize(node.op_type)}" + (
                f", in {graph.path}" if graph.path else ""
            )
            raise ModelError(where, expected="names in UTF-8", got=sanitize(name))


def _with_callers_attrs(
    node: NodeProto, index: int, graph: GraphIndex, attrs: Mapping[str, AttributeProto]
) -> tuple[NodeProto, _Bodies]:
    """Return a node with the values that the caller of its function gives, and the graphs among these."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node, graph.bodies.get(index, ())
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        given = attrs.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is not None:
            made.attribute.add().CopyFrom(given)
            made.attribute[-1].name = attribute.name
    return made, [
        (name, GraphIndex(body, graph, (index, name))) for name, body in named_bodies(made)
    ]


def _outputs_of_op(node: NodeProto, domain: str) -> Kinds | None:
    """Return the types of the outputs of a node that runs through an op; None for any other node."""
    known: list[str | None] = []
    op = registry.find(domain, node.op_type)
    if op is not None:
        known = [
            tensor_kind(hint.dtype.onnx) if hint.dtype else None
            for hint in op.current.schema.outputs or ()
        ]
    elif node.op_type == _RETIRED:
        known = [
            tensor_kind(number)
            for a in node.attribute
            if a.name == "output_types"
            for number in a.ints
        ]
    elif not domain.startswith(PREFIX):
        return None
    return [*known, *[None] * len(node.output)][: len(node.output)]


def _too_new(node: NodeProto, since: int, newest: int) -> Unsupported:
    about = canonical_domain(node.domain) or "ai.onnx"
    return Unsupported(
        "opset too new",
        f"it changed in version {since}; the runtime takes {about} up to {newest}",
        since,
    )


def _refusal(
    node: NodeProto, operator: Operator, kinds: Kinds, outputs: Kinds
) -> Unsupported | None:
    """Return the `Unsupported` of a node that the runtime refuses before it looks for a kernel."""
    since = operator.since
    if operator.deprecated:
        return Unsupported(
            "unknown op",
            f"it was taken out of {operator.domain or 'ai.onnx'} in version {since}",
            since,
        )
    for attribute in node.attribute:
        if attribute.name not in operator.attributes and operator.domain in _ONNX:
            schema = find_schema(operator.domain, node.op_type)
            if (
                schema is not None
                and attribute.name in schema.attributes
                and schema.since_version > since
            ):
                reason = f"attr {sanitize(attribute.name)} is newer than the runtime's version {since} of it"
                return Unsupported("opset too new", reason, int(schema.since_version))
    wrong = type_mismatch(operator, kinds, outputs) if not is_constant(node) else None
    misfit = _misfit(operator, kinds) if not is_constant(node) else None
    if wrong:
        return Unsupported("no kernel for dtype", wrong, since, misfit=misfit)
    if misfit is not None and misfit.other is not None:
        (one, a), (two, b) = ((place, kinds[place] or "") for place in (misfit.other, misfit.place))
        names = [
            port.name if (port := port_at(operator.inputs, place)) else str(place)
            for place in (one, two)
        ]
        reason = f"{names[0]} is {to_notation(a)} and {names[1]} is {to_notation(b)}; the operator takes one type for both"
        return Unsupported(MIXED, reason, since, misfit=misfit)
    return None


def _refusal_by_function(
    node: NodeProto, operator: Operator, kinds: Kinds, outputs: Kinds, around: _Around
) -> Unsupported | None:
    """Return the `Unsupported` of a node in a local function that imports another version than the model.

    The operator did not take these types in the function's version, or is not written in this way in the model's.
    """
    version = around.own.get(operator.domain)
    own = None if version is None else operator_at(operator.domain, node.op_type, version)
    if own is None or own is operator or is_constant(node):
        return None
    domain = operator.domain or "ai.onnx"
    unfit = _form_mismatch(node, operator)
    if unfit and not _form_mismatch(node, own):
        models = around.versions.get(operator.domain)
        reason = f"{unfit}, by version {models} of {domain}, which the model imports; the function imports version {version}"
        return Unsupported("unknown op", reason, own.since)
    wrong = type_mismatch(own, kinds, outputs)
    if not wrong:
        return None
    return Unsupported(
        "no kernel for dtype",
        f"{wrong}, by version {version} of {domain}, which the function imports",
        own.since,
    )


def _form_mismatch(node: NodeProto, operator: Operator) -> str:
    """What a version of the operator refuses of a node's attrs and numbers of inputs and outputs; empty if nothing."""
    schema = find_schema(operator.domain, node.op_type, operator.since)
    if schema is None or schema.since_version != operator.since:
        return ""  # the installed onnx is older than the runtime, which alone knows
    given = {attribute.name for attribute in node.attribute}
    for name in sorted(given - schema.attributes.keys()):
        return f"there is no attr {sanitize(name)}"
    for name in sorted({name for name, attr in schema.attributes.items() if attr.required} - given):
        return f"the attr {sanitize(name)} is needed"
    for side, count, least, most in (
        ("input", len(node.input), schema.min_input, schema.max_input),
        ("output", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            limit = most if count > most else least
            word = "" if least == most else "at most " if count > most else "at least "
            return f"{word}{plural(limit, side)}, not {count}"
    return ""


def _misfit(operator: Operator, kinds: Kinds) -> Misfit | None:
    """Return the first input that the operator does not take, or of another type than an input of the same type variable."""
    first: dict[str, int] = {}
    for place, kind in enumerate(kinds):
        port = port_at(operator.inputs, place)
        if not kind or port is None:
            continue
        if kind not in port.takes:
            return Misfit(place, tuple(sorted(port.takes)), None, tuple(kinds))
        same = (
            first.setdefault(port.type, place) if port.homogeneous or not port.variadic else place
        )
        if kinds[same] != kind:
            return Misfit(place, tuple(sorted(port.takes)), same, tuple(kinds))
    return None
