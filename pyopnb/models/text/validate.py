"""What no graph may have: names that are defined twice or not at all, unknown operators, negative sizes, wrong values."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from pyopnb.models.names import LARGEST_VERSION
from pyopnb.models.nodes import bodies, imported_versions
from pyopnb.models.ort_capabilities import has_op
from pyopnb.ops.attr_kinds import noun_of
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.messages import closest, sanitize, suggest
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.registry import registry

__all__ = [
    "GraphFault",
    "Meant",
    "find_faults",
    "is_unknown",
    "known_ops",
    "tensor_fault",
    "wrong_attribute",
]

_DATA = ("int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")
_MOST_SUGGESTIONS = 1000
"""Names among which the nearest is looked for."""

_OWN = (
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "ai.onnx.preview",
    "ai.onnx.preview.training",
    "ai.onnx.training",
)


@dataclass(frozen=True)
class GraphFault:
    """What is wrong and where.

    Attributes
    ----------
    what, expected, got, next : str
        As in `PyopError`; ``what`` comes after the position.
    scope : int
        Number of the graph or function: 0 for the main graph, then the graphs inside its nodes, then the functions.
    node : int or None
        Number of the node, each before the nodes inside it; None for the head of the graph.
    part : str
        ``op``, ``output``, ``input``, ``attribute`` of the node, or ``head`` or ``result`` of the graph.
    name : str
        The name in question.
    """

    what: str
    expected: str
    got: str
    next: str | None
    scope: int
    node: int | None
    part: str
    name: str


def find_faults(model: ModelProto) -> Iterator[GraphFault]:
    """Find the faults of a model.

    Parameters
    ----------
    model : ModelProto

    Yields
    ------
    GraphFault
        In the order of the graphs and nodes, the main graph's first.
    """
    checker = _Checker({(function.domain, function.name) for function in model.functions})
    yield from checker.scope_faults(model.graph, [], _versions(model))
    for function in model.functions:
        yield from checker.scope_faults(function, [], _versions(model, function))


def _versions(*scopes: ModelProto | FunctionProto) -> dict[str, int]:
    """Return the imported versions, as far as onnx.defs can be asked for them: in an int32."""
    return {
        domain: min(version, LARGEST_VERSION)
        for domain, version in imported_versions(*scopes).items()
    }


class _Checker:
    """Walk the graphs and functions of a model in the order of the text, and count them for the lines of errors."""

    def __init__(self, functions: set[tuple[str, str]]) -> None:
        self._functions = functions
        self._scopes = 0
        self._nodes = 0

    def scope_faults(
        self,
        scope: GraphProto | FunctionProto,
        outer: list[Mapping[str, str]],
        imports: Mapping[str, int],
    ) -> Iterator[GraphFault]:
        """Find the faults of a graph or function; `outer` has the names around it, each with what it is."""
        number = self._scopes
        self._scopes += 1
        owners: dict[str, str] = {}
        yield from _head_faults(scope, number, owners, outer)
        visible = [*outer, owners]
        node_names: set[str] = set()
        for place, node in enumerate(scope.node):
            site = _NodeSite(scope, place, number, self._nodes)
            self._nodes += 1
            # The runtime refuses two nodes of one name in words that name neither.
            if node.name and node.name in node_names:
                got, remedy = "two nodes of that name", "rename one of them, or take the name away"
                yield site.fault(
                    f"node {sanitize(node.name)}", "a name of its own", got, remedy, "op", node.name
                )
            node_names.add(node.name)
            yield from self._node_faults(node, site, visible, imports)
            for body in bodies(node):
                yield from self.scope_faults(body, visible, imports)
            for name in filter(None, node.output):
                yield from _duplicate(
                    name, f"an output of {node.op_type}", visible, (number, site.node, "output")
                )
                owners[name] = f"an output of {node.op_type}"
        for result in scope.output:
            name = result if isinstance(result, str) else result.name
            if not _is_visible(name, visible):
                yield _undefined_output(name, owners, number)

    def _node_faults(
        self,
        node: NodeProto,
        site: _NodeSite,
        visible: list[Mapping[str, str]],
        imports: Mapping[str, int],
    ) -> Iterator[GraphFault]:
        """Find the faults of a node, apart from those of its bodies."""
        yield from _op_faults(node, site.number, site.node, imports, self._functions)
        for name in node.input:
            if name and not _is_visible(name, visible):
                yield _undefined(site, name, visible)
        for attribute in node.attribute:
            yield from _attribute_faults(attribute, site.number, site.node)
        wrong = wrong_attribute(node, imports, self._functions)
        if wrong is not None:
            name, expected, got, meant = wrong
            remedy = json.dumps(meant.value) if isinstance(meant, Meant) else meant
            yield site.fault(f"attr {sanitize(name)}", expected, got, remedy, "attribute", name)


@dataclass(frozen=True)
class _NodeSite:
    """Say where a node is: its scope, its place there, and the numbers of the scope and the node in the text."""

    scope: GraphProto | FunctionProto
    place: int
    number: int
    node: int

    def fault(
        self, where: str, expected: str, got: str, remedy: str | None, part: str, name: str
    ) -> GraphFault:
        """Make a fault of this node."""
        return GraphFault(where, expected, got, remedy, self.number, self.node, part, name)


def _is_visible(name: str, visible: Sequence[Mapping[str, str]]) -> bool:
    return any(name in names for names in visible)


def _undefined_output(name: str, owners: Mapping[str, str], number: int) -> GraphFault:
    # Looking for the nearest of very many names takes long and helps nobody.
    remedy = suggest(name, owners) if 0 < len(owners) < _MOST_SUGGESTIONS else None
    expected = "the name of a value of this graph"
    return GraphFault(
        f"output {sanitize(name)}",
        expected,
        sanitize(name) or "nothing",
        remedy,
        number,
        None,
        "result",
        name,
    )


def _duplicate(
    name: str, role: str, visible: Sequence[Mapping[str, str]], place: tuple[int, int | None, str]
) -> Iterator[GraphFault]:
    for names in visible:
        if name in names:
            got = f"{names[name]} and {role}"
            yield GraphFault(
                f"name {sanitize(name)}",
                "one meaning",
                sanitize(got),
                "rename one of them",
                *place,
                name,
            )
            return


def _head_faults(
    scope: GraphProto | FunctionProto,
    number: int,
    owners: dict[str, str],
    outer: list[Mapping[str, str]],
) -> Iterator[GraphFault]:
    head = (number, None, "head")
    for item in scope.input:
        name = item if isinstance(item, str) else item.name
        yield from _duplicate(name, "an input", [*outer, owners], head)
        owners[name] = "an input"
    inputs = dict(owners)
    if isinstance(scope, GraphProto):
        sparse = [item.values for item in scope.sparse_initializer]
        for tensor in [*scope.initializer, *sparse]:
            # One that has an input's name is that input's default.
            if inputs.pop(tensor.name, None) is None:
                yield from _duplicate(tensor.name, "an initializer", [*outer, owners], head)
            owners[tensor.name] = "an initializer"
        for tensor in scope.initializer:
            if wrong := tensor_fault(tensor):
                yield GraphFault(f"initializer {sanitize(tensor.name)}", *wrong, *head, tensor.name)
        for part, infos in (("head", scope.input), ("result", scope.output)):
            for info in infos:
                yield from _size_faults(info, number, part)
    for info in scope.value_info:
        yield from _size_faults(info, number, "head")


def _size_faults(info: Any, number: int, part: str) -> Iterator[GraphFault]:
    ahead = [info.type]
    while ahead:  # a sequence of optionals of tensors …
        kind: Any = getattr(ahead[-1], ahead.pop().WhichOneof("value") or "", None)
        inner = (getattr(kind, name, None) for name in ("elem_type", "value_type"))
        ahead += [other for other in inner if hasattr(other, "WhichOneof")]
        for dim in kind.shape.dim if hasattr(kind, "shape") else ():
            if dim.HasField("dim_value") and dim.dim_value < 0:
                expected = "sizes from 0 to 2**63 - 1, symbols or ?"
                yield GraphFault(
                    f"type of {sanitize(info.name)}",
                    expected,
                    str(dim.dim_value),
                    None,
                    number,
                    None,
                    part,
                    info.name,
                )


# ---- undefined names ---------------------------------------------------------------------------------------------------------


def _undefined(site: _NodeSite, name: str, visible: Sequence[Mapping[str, str]]) -> GraphFault:
    """Make the fault of an input that is not made above its node."""
    where = f"input {sanitize(name)}"
    makers = {
        output: n for n, node in enumerate(site.scope.node) for output in node.output if output
    }
    if name in makers:
        expected = "a value made above"
        cycle = _cycle(site.scope, site.place, makers[name], makers)
        if cycle:
            got = f"a cycle: {' → '.join(sanitize(step, 40) for step in cycle)}"
            return site.fault(where, expected, got, "break the cycle", "input", name)
        got = f"{sanitize(name)}, which is made further down"
        return site.fault(where, expected, got, "move its node up", "input", name)
    candidates = [other for names in visible for other in names]
    remedy = suggest(name, candidates) if len(candidates) < _MOST_SUGGESTIONS else None
    expected = "an input, an initializer or a value made above"
    return site.fault(where, expected, sanitize(name), remedy, "input", name)


def _cycle(
    scope: GraphProto | FunctionProto, first: int, last: int, makers: Mapping[str, int]
) -> list[str]:
    """Return the names on a cycle through the edge from node ``last`` to node ``first``; none if there is no such cycle."""
    came: dict[int, tuple[int, str]] = {}
    ahead = [last]
    while ahead:
        at = ahead.pop()
        if at == first:
            way, step = [], at
            while step != last:
                step, name = came[step]
                way.append(name)
            closing = next(name for name in scope.node[first].input if makers.get(name) == last)
            return [closing, *way, closing]
        for name in scope.node[at].input:
            maker = makers.get(name)
            if maker is not None and maker not in came and maker != last:
                came[maker] = (at, name)
                ahead.append(maker)
    return []


# ---- ops ---------------------------------------------------------------------------------------------------------------------


def is_unknown(domain: str, op_type: str) -> bool:
    """Tell whether a domain is ONNX's own and neither onnx, the runtime nor the registry has that op in it.

    Parameters
    ----------
    domain, op_type : str

    Returns
    -------
    bool
    """
    if domain not in _OWN or registry.find(domain, op_type) is not None:
        return False
    own = canonical_domain(domain)
    return not (onnx.defs.has(op_type, own) or has_op(own, op_type))


@dataclass(frozen=True)
class Meant:
    """The value that an attribute was most likely meant to have, and how it is written in Python."""

    value: Any
    written: str


def wrong_attribute(
    node: NodeProto,
    imports: Mapping[str, int],
    functions: Container[tuple[str, str]] = (),
    *,
    exact: bool = False,
) -> tuple[str, str, str, str | Meant | None] | None:
    """Return an attribute that ONNX's own operator does not have, or of another kind than the operator takes.

    An int stands for a float, and ints stand for floats: `ints_to_floats` converts them.

    Parameters
    ----------
    node : NodeProto
    imports : mapping
        Domain to version.
    functions : container of (str, str)
        Domains and names of local functions.
    exact : bool
        Whether an int for a float is wrong as well, as it is for the runtime.

    Returns
    -------
    tuple of str, str, str and (str, Meant or None), or None
        Its name, what was expected, what came, and the name or the value that was most likely meant.
    """
    domain = canonical_domain(node.domain)
    version = imports.get(domain, 0)
    if (
        domain not in _OWN
        or (node.domain, node.op_type) in functions
        or registry.find(domain, node.op_type) is not None
    ):
        return None
    if version < 1 or not onnx.defs.has(node.op_type, version, domain):
        return None
    known: Any = onnx.defs.get_schema(node.op_type, version, domain).attributes
    for attribute in node.attribute:
        name = attribute.name
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else f"no attrs of {node.op_type}"
            return name, expected, sanitize(name), closest(name, known)
        kind = AttributeProto.AttributeType.Name(known[name].type.value)
        if not _fits(attribute, kind, exact):
            value = onnx.helper.get_attribute_value(attribute)
            value = value.decode(errors="replace") if isinstance(value, bytes) else value
            got = f"{sanitize(name)} = {sanitize(repr(value), 60)}"
            return (
                name,
                f"{noun_of(known[name].type.value)}, as {node.op_type} takes",
                got,
                _meant(name, value, kind, known[name].default_value),
            )
    return None


_SPATIAL = {"kernel_shape": 2, "strides": 2, "dilations": 2, "pads": 4}
"""Values of a list for two spatial axes, as pictures have."""


def _fits(attribute: AttributeProto, kind: str, exact: bool) -> bool:
    got = AttributeProto.AttributeType.Name(attribute.type)
    if got == kind or attribute.ref_attr_name or got == "UNDEFINED":
        return True
    if got in ("INTS", "FLOATS", "STRINGS") and not (
        attribute.ints or attribute.floats or attribute.strings
    ):
        return kind.endswith("S")  # an empty list says nothing about its items
    return not exact and (got, kind) in (("INT", "FLOAT"), ("INTS", "FLOATS"))


def _meant(name: str, value: Any, kind: str, default: AttributeProto) -> Meant | None:
    row = next((row for row in DTYPES if row.name == value), None) if kind == "INT" else None
    if row is not None:  # float32 for the number that ONNX gives it
        return Meant(
            int(row.onnx), f"{name}=onnx.TensorProto.{TensorProto.DataType.Name(row.onnx)}"
        )
    try:
        if kind == "INTS" and isinstance(value, int):
            made: Any = [value] * _SPATIAL.get(name, 1)
        elif kind == "FLOATS" and isinstance(value, list):
            made = [float(item) for item in value]
        elif kind in ("INT", "FLOAT"):
            made = (int if kind == "INT" else float)(
                value[0] if isinstance(value, list) and len(value) == 1 else value
            )
        else:
            raise ValueError
    except (TypeError, ValueError):
        if not default.name:
            return None
        made = onnx.helper.get_attribute_value(default)
        made = (
            round(made, 7)
            if isinstance(made, float)
            else made.decode()
            if isinstance(made, bytes)
            else made
        )
    return Meant(made, f"{name}={made!r}")


def known_ops(functions: Iterable[tuple[str, str]] = ()) -> dict[str, tuple[str, str]]:
    """Return the operators that a mistyped one may mean.

    Parameters
    ----------
    functions : iterable of (str, str)
        Domains and names of local functions.

    Returns
    -------
    dict of str to (str, str)
        Op type to domain and op type; the registry goes before functions, functions before ONNX.
    """
    own = {
        schema.name: (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas()
        if not schema.deprecated
    }
    return (
        own
        | {name: (domain, name) for domain, name in functions}
        | {op.op_type: (op.domain, op.op_type) for op in registry}
    )


def _op_faults(
    node: NodeProto,
    number: int,
    here: int,
    imports: Mapping[str, int],
    functions: set[tuple[str, str]],
) -> Iterator[GraphFault]:
    domain = canonical_domain(node.domain)
    at = (number, here, "op")
    if (node.domain, node.op_type) in functions:
        return
    if is_unknown(domain, node.op_type):
        known = known_ops(functions)
        close = suggest(node.op_type, known)
        remedy = (
            ".".join(filter(None, known[close]))
            if close in known
            else "demo.NAME for an op of your own"
        )
        yield GraphFault(
            f"op {sanitize(node.op_type)}",
            "an op of ONNX",
            sanitize(node.op_type) or "nothing",
            remedy,
            *at,
            node.op_type,
        )
    elif (
        domain in _OWN
        and onnx.defs.has(node.op_type, domain)
        and registry.find(domain, node.op_type) is None
    ):
        version = imports.get(domain, 0)
        if version > 0 and not onnx.defs.has(node.op_type, version, domain):
            history = onnx.defs.get_all_schemas_with_history()
            since = min(
                s.since_version for s in history if (s.domain, s.name) == (domain, node.op_type)
            )
            remedy = f'<opset_import: ["{domain}" : {since}]> before the graph'
            got = f"version {version} imported"
            yield GraphFault(
                f"op {sanitize(node.op_type)}",
                f"version {since} of ONNX's operators or newer",
                got,
                remedy,
                *at,
                node.op_type,
            )


# ---- values ------------------------------------------------------------------------------------------------------------------


def _attribute_faults(attribute: AttributeProto, number: int, here: int) -> Iterator[GraphFault]:
    place: tuple[int, int, str, str] = (number, here, "attribute", attribute.name)
    lists = [field for field in ("ints", "floats", "strings") if len(getattr(attribute, field))]
    if len(lists) > 1 or (
        attribute.type == AttributeProto.UNDEFINED and not attribute.ref_attr_name
    ):
        expected = "one value, or a list of numbers or of strings"
        got = (
            "a list of ints and floats" if len(lists) > 1 else "a list of tensors, graphs or types"
        )
        remedy = f"{sanitize(attribute.name)}: floats = […]" if len(lists) > 1 else None
        yield GraphFault(f"attr {sanitize(attribute.name)}", expected, got, remedy, *place)
    for tensor in [attribute.t] if attribute.HasField("t") else attribute.tensors:
        if wrong := tensor_fault(tensor):
            expected, got, remedy = wrong
            yield GraphFault(f"attr {sanitize(attribute.name)}", expected, got, remedy, *place)


def tensor_fault(tensor: TensorProto) -> tuple[str, str, str | None] | None:
    """What was expected, what is there, and a remedy, if the values of a tensor do not fit its type.

    The parser stores one value an element, even of dtypes that are packed.

    Parameters
    ----------
    tensor : TensorProto

    Returns
    -------
    tuple of str, str and (str or None), or None
    """
    if any(size < 0 for size in tensor.dims):
        return "sizes from 0 to 2**63 - 1", str(min(tensor.dims)), None
    if tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("raw_data"):
        return None
    count = math.prod(tensor.dims)
    count_stored = max(len(getattr(tensor, field)) for field in _DATA)
    row = next((row for row in DTYPES if row.onnx == tensor.data_type), None)
    if row is not None and row.name.startswith("complex"):
        count *= 2
    if count_stored != count:
        return f"{count} values", str(count_stored), None
    outside = [v for v in _integers(tensor) if not _is_in_range(v, row)] if row is not None else []
    return (
        (f"values that {row} can hold", str(outside[0]), None)
        if outside and row is not None
        else None
    )


def _integers(tensor: TensorProto) -> Iterable[int]:
    return [*tensor.int32_data, *tensor.uint64_data]


def _is_in_range(value: int, row: Any) -> bool:
    if row.numpy.kind == "b":
        return value in (0, 1)
    signed = row.name.startswith("int")
    bits = row.bits or 64
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if signed else 0 <= value < 1 << bits
