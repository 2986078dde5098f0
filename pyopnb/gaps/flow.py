"""The types of all values of a model, and on the way every node that the installed ONNX Runtime lacks something for.

Each node is judged once for the types that reach it; a body or function is walked with the types of its call. Nothing recurses:
what stands inside a node is a generator that the walk puts on its own stack.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

from pyopnb.gaps.kinds import in_notation, kind_of, proto_of, tensor_kind
from pyopnb.gaps.lookup import Kinds, clash, has_kernel, lacking, port_at, refused, widened
from pyopnb.models.installed import Operator, newest_version, operator_at, operators, schema_domains
from pyopnb.models.nodes import Site, first_output, full_name
from pyopnb.models.numbered import PREFIX
from pyopnb.ops.errors import ModelError, nearest, shown
from pyopnb.ops.registry import registry

__all__ = ["Lack", "lacks"]

_Task = Generator["_Task", Any, Any]
_Judged = tuple["Lack | None", Kinds]
_ONNX = ("", "ai.onnx.ml")


@dataclass(frozen=True)
class Lack:
    """What the runtime lacks for a node."""

    kind: str
    reason: str
    since: int | None = None


@dataclass
class Names:
    """The values of a graph or function by name: their types, and the protos of those whose shape is known."""

    outer: Names | None
    kinds: dict[str, str | None] = field(default_factory=dict)
    protos: dict[str, TypeProto] = field(default_factory=dict)
    fixed: dict[str, bool] = field(default_factory=dict)

    def kind(self, name: str) -> str | None:
        scope: Names | None = self
        while scope is not None:
            if name in scope.kinds:
                return scope.kinds[name]
            scope = scope.outer
        return None

    def proto(self, name: str) -> TypeProto | None:
        scope: Names | None = self
        while scope is not None:
            if name in scope.kinds:
                return scope.protos.get(name)
            scope = scope.outer
        return None

    def truth(self, name: str) -> bool | None:
        """The value of a constant condition."""
        scope: Names | None = self
        while scope is not None:
            if name in scope.kinds:
                return scope.fixed.get(name)
            scope = scope.outer
        return None


@dataclass(frozen=True)
class Around:
    """What a node has around it, apart from names."""

    versions: Mapping[str, int]
    token: tuple[Any, ...]
    path: str = ""
    attrs: Mapping[str, AttributeProto] = field(default_factory=dict)
    calls: frozenset[Any] = frozenset()
    found: list[tuple[Site, Lack]] = field(default_factory=list)
    dead: bool = False
    expanded: bool = False


def lacks(proto: ModelProto) -> list[tuple[Site, Lack]]:
    """Every node of the model that the runtime lacks something for, with what it lacks."""
    versions = _versions(proto.opset_import)
    around = Around(versions, tuple(sorted(versions.items())))
    _run(_Walk(proto).scope(proto.graph, None, None, around))
    return list({id(site.node): (site, lack) for site, lack in reversed(around.found)}.values())[::-1]


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in imports}


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
        self.functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in proto.functions if f.domain not in _ONNX}
        self.judged: dict[Any, _Judged] = {}

    # ---- scopes ----------------------------------------------------------------------------------------------------------

    def scope(self, scope: GraphProto | FunctionProto, inputs: Kinds | None, outer: Names | None, around: Around) -> _Task:
        """Walk a graph or function whose inputs are of these types; returns the types of its outputs."""
        names = _named(scope, inputs, outer)
        declared = {i.name: i.type for i in getattr(scope, "value_info", ())}
        if isinstance(scope, GraphProto):
            declared |= {o.name: o.type for o in scope.output}
        for node in scope.node:
            kinds = tuple(names.kind(name) if name else "" for name in node.input)
            shape = tuple(bool(name) for name in node.output)
            key = _key(node, kinds, shape, around, names)
            found = self.judged.get(key) if key else None
            if found is None:
                found = yield self.node(_linked(node, around.attrs), kinds, names, around, scope)
                if key:
                    self.judged[key] = found
            lack, outputs = found
            if lack is not None and not (around.dead and lack.kind.startswith("no kernel")):
                around.found.append((Site(node, scope, around.path), lack))
            for place, name in enumerate(node.output):
                if name:
                    kind = outputs[place] if place < len(outputs) else None
                    names.kinds[name] = kind or (kind_of(declared[name]) if name in declared else None)
                    if name in declared:
                        names.protos[name] = declared[name]
            if _is_constant(node):
                _note_truth(names, node)
        ends = scope.output if isinstance(scope, FunctionProto) else [info.name for info in scope.output]
        return [names.kind(name) for name in ends]

    def node(self, node: NodeProto, kinds: Kinds, names: Names, around: Around, scope: Any) -> _Task:
        """Judge one node; returns what it lacks, or None, and the types of its outputs."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        own = _of_registry(node, domain)
        if own is not None:
            return None, own
        version = around.versions.get(domain)
        if domain in schema_domains() and version is None:
            version = newest_version(domain)
        limit = newest_version(domain)
        operator = operator_at(domain, node.op_type, min(version or 1, limit or 1)) if limit else None
        if limit and version and version > limit:
            newer = _since(domain, node.op_type, version)
            if newer and newer > limit:
                reason = f"{full_name(node)} changed in version {newer}; the runtime takes {domain or 'ai.onnx'} up to {limit}"
                return Lack("opset too new", reason, newer), self.inferred(node, kinds, names, around, version)
        if operator is None:
            function = self.functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
            if function is not None and version is not None:
                return (yield self.call(node, function, kinds, names, around))
            lack = _unknown(node, domain, version, self.functions)
            return lack, self.inferred(node, kinds, names, around, version or 1)
        inner = yield self.inner(node, operator, kinds, names, around)
        outputs = inner or self.outputs(node, operator, kinds, names, around)
        lack = _misfit(node, operator, kinds, outputs)
        if lack is not None:
            return lack, outputs
        if _is_constant(node) or has_kernel(operator, kinds, outputs):
            return None, outputs
        if "tensor(float16)" in kinds and has_kernel(operator, widened(kinds), widened(outputs)):
            return None, outputs
        why = lacking(operator, kinds, outputs)
        about = f"{full_name(node)}-{operator.since}"
        expanded = yield self.expansion(node, operator, kinds, names, around)
        if expanded is None:
            lack = Lack("no kernel for dtype", why, operator.since) if why else Lack("no kernel", f"for no dtype of {about}", operator.since)
            return lack, outputs
        needs, ends = expanded
        if needs:
            kind = "no kernel for dtype" if why else needs[0].kind
            reason = f"{why or 'no kernel'}, and its function needs {needs[0].reason}"
            return Lack(kind, reason, operator.since), outputs
        return None, [kind or end for kind, end in zip(outputs, [*ends, *[None] * len(outputs)], strict=False)]

    # ---- what stands inside ----------------------------------------------------------------------------------------------

    def inner(self, node: NodeProto, operator: Operator, kinds: Kinds, names: Names, around: Around) -> _Task:
        """Walk the bodies of the runtime's control flow; returns the types of the node's outputs, or None for other nodes."""
        if operator.domain or node.op_type not in ("If", "Loop", "Scan"):
            return None
        bodies = {a.name: a.g for a in node.attribute if a.HasField("g")}
        if node.op_type == "If":
            truth = names.truth(node.input[0]) if node.input else None
            ends = {}
            for name, body in bodies.items():
                unused = truth is not None and name == ("else_branch" if truth else "then_branch")
                inside = replace(around, path=_into(node, name, around.path), dead=around.dead or unused)
                ends[name] = yield self.scope(body, None, names, inside)
            first, second = ends.get("then_branch", []), ends.get("else_branch", [])
            return [a or b for a, b in zip(first, second, strict=False)] or None
        body = bodies.get("body")
        if body is None:
            return None
        inside = replace(around, path=_into(node, "body", around.path))
        if node.op_type == "Loop":
            ends = yield self.scope(body, ["tensor(int64)", "tensor(bool)", *kinds[2:]], names, inside)
            return ends[1:]
        return (yield self.scope(body, kinds[1:] if operator.since < 9 else kinds, names, inside))

    def call(self, node: NodeProto, function: FunctionProto, kinds: Kinds, names: Names, around: Around) -> _Task:
        """Walk a local function with the types and attrs of a call; returns what `node` returns."""
        key = (function.domain, function.name, getattr(function, "overload", ""))
        if key in around.calls:
            raise ModelError(
                f"function {shown(function.domain)}::{shown(function.name)}",
                expected="an end of its calls",
                got="a function that calls itself",
            )
        path = f"function {shown(function.domain)}::{shown(function.name)}"
        attrs = {a.name: a for a in function.attribute_proto} | {a.name: a for a in node.attribute}
        # The runtime puts the function's nodes into the graph, where the versions of the model hold.
        versions = _versions(function.opset_import) | dict(around.versions)
        inside = replace(
            around, versions=versions, token=tuple(sorted(versions.items())), path=path, attrs=attrs, calls=around.calls | {key}
        )
        return None, (yield self.scope(function, kinds, None, inside))

    def expansion(self, node: NodeProto, operator: Operator, kinds: Kinds, names: Names, around: Around) -> _Task:
        """Walk the function that ONNX gives for an operator; returns what its nodes lack and the types of its outputs, or None."""
        body = _body(node, operator, [self.proto(names, n, k) for n, k in zip(node.input, kinds, strict=True)], around)
        if body is None:
            return None
        attrs = {a.name: a for a in _defaults(node, operator)} | {a.name: a for a in body.attribute_proto}
        attrs |= {a.name: a for a in node.attribute}
        inside = replace(around, attrs=attrs, found=[], expanded=True)
        ends = yield self.scope(body, kinds, None, inside)
        return [lack for _, lack in inside.found], ends

    # ---- types -----------------------------------------------------------------------------------------------------------

    def outputs(self, node: NodeProto, operator: Operator, kinds: Kinds, names: Names, around: Around) -> Kinds:
        """The types of a node's outputs, from the operator's own declaration where that tells them."""
        if _is_constant(node):
            return [_constant_kind(node)]
        bound: dict[str, str | None] = {}
        for place, kind in enumerate(kinds):
            port = port_at(operator.inputs, place)
            if kind and port and port.homogeneous:
                bound.setdefault(port.type, kind)
        told: list[str | None] = []
        for place, name in enumerate(node.output):
            port = port_at(operator.outputs, place)
            if not name:
                told.append("")
            elif port is None or not port.homogeneous:
                told.append(None)
            else:
                told.append(port.type if "(" in port.type else bound.get(port.type))
        return told if None not in told else self.inferred(node, kinds, names, around, operator.since, told)

    def inferred(
        self, node: NodeProto, kinds: Kinds, names: Names, around: Around, version: int, told: Kinds = ()
    ) -> list[str | None]:
        """The types of a node's outputs as ONNX infers them, one node at a time; None where it cannot."""
        from onnx.shape_inference import InferenceError, infer_node_outputs

        known = [*told, *[None] * (len(node.output) - len(told))]
        try:
            schema = onnx.defs.get_schema(node.op_type, version, "" if node.domain == "ai.onnx" else node.domain)
        except onnx.defs.SchemaError:
            return known
        imports = [onnx.helper.make_opsetid(d, v) for d, v in around.versions.items()]
        for exact in (True, False):
            types = {
                name: (self.proto(names, name, kind) if exact else proto_of(kind or ""))
                for name, kind in zip(node.input, kinds, strict=True)
                if name
            }
            try:
                made = infer_node_outputs(schema, node, types, opset_imports=imports)
            except (InferenceError, TypeError, ValueError, RuntimeError):
                continue
            return [
                kind if kind is not None else kind_of(made[name]) if name in made else None
                for kind, name in zip(known, node.output, strict=True)
            ]
        return known

    @staticmethod
    def proto(names: Names, name: str, kind: str | None) -> TypeProto:
        declared = names.proto(name) if name else None
        return declared if declared is not None and kind_of(declared) == kind else proto_of(kind or "")


# ---- one node ----------------------------------------------------------------------------------------------------------------


def _named(scope: GraphProto | FunctionProto, inputs: Kinds | None, outer: Names | None) -> Names:
    names = Names(outer)
    given = [*(inputs or ())]
    for place, entry in enumerate(scope.input):
        kind = given[place] if place < len(given) else None
        if isinstance(scope, FunctionProto):
            names.kinds[entry] = kind
            continue
        names.kinds[entry.name] = kind or kind_of(entry.type)
        names.protos[entry.name] = entry.type
    if isinstance(scope, GraphProto):
        overridable = set(names.kinds)
        for tensor in scope.initializer:
            names.kinds[tensor.name] = tensor_kind(tensor.data_type)
            if tensor.name not in overridable and tensor.data_type == onnx.TensorProto.BOOL and list(tensor.dims) in ([], [1]):
                names.fixed[tensor.name] = _true(tensor)
        for sparse in scope.sparse_initializer:
            names.kinds[sparse.values.name] = tensor_kind(sparse.values.data_type)
    return names


def _true(tensor: onnx.TensorProto) -> bool:
    return any(tensor.raw_data) or any(tensor.int32_data)


def _note_truth(names: Names, node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.t.data_type == onnx.TensorProto.BOOL and list(attribute.t.dims) in ([], [1]):
            names.fixed[first_output(node)] = _true(attribute.t)


def _key(node: NodeProto, kinds: Kinds, shape: Sequence[bool], around: Around, names: Names) -> Any:
    """What a judgement depends on; None where it has to be made anew."""
    attrs = []
    for attribute in node.attribute:
        if attribute.type in _LARGE or attribute.ref_attr_name:
            return None
        attrs.append(attribute.SerializeToString())
    if node.op_type == "RotaryEmbedding":
        return None
    overload = getattr(node, "overload", "")
    return node.domain, node.op_type, overload, kinds, shape, tuple(attrs), around.token, around.dead, around.expanded


_LARGE = frozenset(
    (
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
    )
)


def _linked(node: NodeProto, attrs: Mapping[str, AttributeProto]) -> NodeProto:
    """The node with the values that the caller of its function gives."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        given = attrs.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is not None:
            made.attribute.add().CopyFrom(given)
            made.attribute[-1].name = attribute.name
    return made


def _of_registry(node: NodeProto, domain: str) -> Kinds | None:
    """The types of the outputs of a node that runs through an op; None for other nodes."""
    if domain.startswith(PREFIX):
        return [None] * len(node.output)
    op = registry.find(domain, node.op_type)
    if op is not None:
        hints = op.current.schema.outputs or ()
        kinds = [tensor_kind(hint.dtype.onnx) if hint.dtype else None for hint in hints]
        return [*kinds, *[None] * len(node.output)][: len(node.output)]
    if node.op_type == "PyOp":
        numbers = next((list(a.ints) for a in node.attribute if a.name == "output_types"), [])
        return [*map(tensor_kind, numbers), *[None] * len(node.output)][: len(node.output)]
    return None


def _since(domain: str, op_type: str, version: int) -> int | None:
    """Since which version ONNX has the operator as it is in that version; None where ONNX does not know it."""
    try:
        return int(onnx.defs.get_schema(op_type, version, domain).since_version)
    except onnx.defs.SchemaError:
        return None


def _unknown(node: NodeProto, domain: str, version: int | None, functions: Iterable[tuple[str, str, str]]) -> Lack:
    if domain not in schema_domains():
        names = sorted({op.name for op in registry} | {f"{d}::{n}" for d, n, _ in functions})
        near = nearest(full_name(node), names) if names else ""
        return Lack("unknown domain", f"the runtime has no operator of domain {shown(domain)}" + (f"; nearest: {near}" if near else ""))
    versions = operators().get((domain, node.op_type))
    if versions:
        first = versions[0].since
        return Lack("unknown op", f"came with version {first} of {domain or 'ai.onnx'}; the model imports {version}", first)
    known = [op_type for place, op_type in operators() if place == domain]
    near = nearest(node.op_type, known) if version else ""
    return Lack("unknown op", f"the runtime knows no {shown(full_name(node))}; nearest: {domain}::{near}")


def _misfit(node: NodeProto, operator: Operator, kinds: Kinds, outputs: Kinds) -> Lack | None:
    if operator.deprecated:
        return Lack("unknown op", f"taken out of {operator.domain or 'ai.onnx'} in version {operator.since}", operator.since)
    newer = _newer_attr(node, operator)
    if newer:
        return newer
    wrong = refused(operator, kinds, outputs)
    if wrong:
        return Lack("no kernel for dtype", wrong, operator.since)
    return None


def _newer_attr(node: NodeProto, operator: Operator) -> Lack | None:
    """What is lacking where the node has an attr that ONNX knows and the runtime does not: its operator is an older one."""
    for attribute in node.attribute:
        if attribute.name not in operator.attributes and operator.domain in _ONNX:
            schema = onnx.defs.get_schema(node.op_type, domain=operator.domain)
            if attribute.name in schema.attributes and schema.since_version > operator.since:
                since = int(schema.since_version)
                reason = f"attr {shown(attribute.name)} came with version {since}; the runtime has version {operator.since}"
                return Lack("opset too new", reason, since)
    return None


def _into(node: NodeProto, attribute: str, path: str) -> str:
    inside = f"{shown(node.op_type)} '{shown(node.name or first_output(node))}', {shown(attribute)}"
    return f"{path}, {inside}" if path else inside


def _is_constant(node: NodeProto) -> bool:
    # The runtime makes initializers of them before it looks for any kernel.
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def _constant_kind(node: NodeProto) -> str | None:
    for attribute in node.attribute:
        if attribute.name == "value":
            return tensor_kind(attribute.t.data_type)
        if attribute.name == "sparse_value":
            return tensor_kind(attribute.sparse_tensor.values.data_type)
        if attribute.name.startswith("value_"):
            word = attribute.name.removeprefix("value_").removesuffix("s")
            return {"int": "tensor(int64)", "float": "tensor(float)", "string": "tensor(string)"}.get(word)
    return None


def _defaults(node: NodeProto, operator: Operator) -> list[AttributeProto]:
    schema = onnx.defs.get_schema(node.op_type, operator.since, operator.domain)
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


def _body(node: NodeProto, operator: Operator, types: Sequence[TypeProto], around: Around) -> FunctionProto | None:
    """The function that ONNX gives for the operator, for a node with these inputs; None where there is none."""
    try:
        schema = onnx.defs.get_schema(node.op_type, operator.since, operator.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.since_version != operator.since:
        return None
    version = around.versions.get(operator.domain, operator.since)
    limit = newest_version(operator.domain)
    version = min(version, limit) if limit else version
    made: Any = None
    if schema.has_context_dependent_function:
        since = max((v for v in schema.context_dependent_function_opset_versions if v <= version), default=None)
        if since is not None:
            made = schema.get_context_dependent_function_with_opset_version(
                since, node.SerializeToString(), [t.SerializeToString() for t in types]
            )
    elif schema.has_function:
        since = max((v for v in schema.function_opset_versions if v <= version), default=None)
        if since is not None:
            made = schema.get_function_with_opset_version(since)
    if not made:
        return None
    body = FunctionProto.FromString(made)
    same = all(operator_at("", n.op_type, since) is operator_at("", n.op_type, version) for n in body.node if not n.domain)
    return body if same else None


_ = (clash, in_notation)
