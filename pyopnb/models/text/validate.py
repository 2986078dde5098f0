"""Find what no graph may have: names that are defined twice or not at all, unknown operators, wrong attrs, sizes and values."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping
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
"""Names among which the nearest is looked for; in longer lists that takes long and helps nobody."""

_ONNX_DOMAINS = (
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
    yield from checker.check_scope(model.graph, [], _versions(model))
    for function in model.functions:
        yield from checker.check_scope(function, [], _versions(model, function))


def _versions(*scopes: ModelProto | FunctionProto) -> dict[str, int]:
    """Return the imported versions, cut to what onnx.defs can be asked for."""
    versions = imported_versions(*scopes)
    return {domain: min(version, LARGEST_VERSION) for domain, version in versions.items()}


class _Checker:
    """Walk the graphs and functions of a model in the order of the text, and count them for the lines of errors."""

    def __init__(self, functions: set[tuple[str, str]]) -> None:
        self.functions = functions
        self.scopes = 0
        self.nodes = 0

    def check_scope(
        self,
        scope: GraphProto | FunctionProto,
        outer: list[dict[str, str]],
        imports: Mapping[str, int],
    ) -> Iterator[GraphFault]:
        """Find the faults of a graph or function; `outer` has the names around it, each with its role."""
        # The numbers follow the order of the text, in which bodies stand inside their node.
        number = self.scopes
        self.scopes += 1
        roles: dict[str, str] = {}
        visible = [*outer, roles]
        yield from _head_faults(scope, number, visible)
        node_names: set[str] = set()
        # A name that is made further down deserves another advice than one that is nowhere.
        later = _later_outputs(scope)
        for node in scope.node:
            at = (number, self.nodes)
            self.nodes += 1
            # The runtime refuses two nodes of one name in words that name neither.
            if node.name and node.name in node_names:
                yield GraphFault(
                    f"node {sanitize(node.name)}",
                    "a name of its own",
                    "two nodes of that name",
                    "rename one of them, or take the name away",
                    *at,
                    "op",
                    node.name,
                )
            node_names.add(node.name)
            yield from _op_faults(node, at, imports, self.functions)
            for name in node.input:
                if name and not _is_visible(name, visible):
                    yield _undefined_input(name, visible, later, at)
            yield from self.check_attributes(node, at, imports)
            for body in bodies(node):
                yield from self.check_scope(body, visible, imports)
            for name in filter(None, node.output):
                role = f"an output of {node.op_type}"
                yield from _duplicate(name, role, visible, (*at, "output"))
                roles[name] = role
        for result in scope.output:
            if isinstance(result, str):
                name = result
            else:
                name = result.name
            if not _is_visible(name, visible):
                yield _undefined_output(name, roles, number)

    def check_attributes(
        self, node: NodeProto, at: tuple[int, int], imports: Mapping[str, int]
    ) -> Iterator[GraphFault]:
        """Find the faults of a node's attributes, apart from those of its bodies."""
        for attribute in node.attribute:
            yield from _attribute_faults(attribute, at)
        wrong = wrong_attribute(node, imports, self.functions)
        if wrong is not None:
            name, expected, got, meant = wrong
            remedy = json.dumps(meant.value) if isinstance(meant, Meant) else meant
            subject = f"attr {sanitize(name)}"
            yield GraphFault(subject, expected, got, remedy, *at, "attribute", name)


# ---- names -----------------------------------------------------------------------------------


def _is_visible(name: str, visible: list[dict[str, str]]) -> bool:
    return any(name in roles for roles in visible)


def _later_outputs(scope: GraphProto | FunctionProto) -> set[str]:
    names: set[str] = set()
    for node in scope.node:
        names.update(node.output)
    return names


def _undefined_input(
    name: str, visible: list[dict[str, str]], later: set[str], at: tuple[int, int]
) -> GraphFault:
    """Report an input that no node above makes."""
    subject = f"input {sanitize(name)}"
    if name in later:
        got = f"{sanitize(name)}, which is made here or further down"
        remedy = "move its node up, or break the cycle"
        return GraphFault(subject, "a value made above", got, remedy, *at, "input", name)
    candidates: list[str] = []
    for roles in visible:
        candidates += roles
    expected = "an input, an initializer or a value made above"
    return GraphFault(
        subject, expected, sanitize(name), _nearest(name, candidates), *at, "input", name
    )


def _undefined_output(name: str, roles: Mapping[str, str], number: int) -> GraphFault:
    expected = "the name of a value of this graph"
    got = sanitize(name) or "nothing"
    remedy = _nearest(name, list(roles))
    return GraphFault(
        f"output {sanitize(name)}", expected, got, remedy, number, None, "result", name
    )


def _nearest(name: str, candidates: list[str]) -> str | None:
    if 0 < len(candidates) < _MOST_SUGGESTIONS:
        return suggest(name, candidates)
    return None


def _duplicate(
    name: str, role: str, visible: list[dict[str, str]], place: tuple[int, int | None, str]
) -> Iterator[GraphFault]:
    """Report a name that is defined already, here or in a graph around."""
    for roles in visible:
        if name in roles:
            got = sanitize(f"{roles[name]} and {role}")
            subject = f"name {sanitize(name)}"
            yield GraphFault(subject, "one meaning", got, "rename one of them", *place, name)
            return


def _head_faults(
    scope: GraphProto | FunctionProto, number: int, visible: list[dict[str, str]]
) -> Iterator[GraphFault]:
    """Find the faults of what stands before the first node, and record its names."""
    head = (number, None, "head")
    roles = visible[-1]
    for item in scope.input:
        if isinstance(item, str):
            name = item
        else:
            name = item.name
        yield from _duplicate(name, "an input", visible, head)
        roles[name] = "an input"
    if isinstance(scope, GraphProto):
        defaults = set(roles)
        for tensor in scope.initializer:
            # One that has an input's name is that input's default.
            if tensor.name in defaults:
                defaults.remove(tensor.name)
            else:
                yield from _duplicate(tensor.name, "an initializer", visible, head)
            roles[tensor.name] = "an initializer"
            wrong = tensor_fault(tensor)
            if wrong is not None:
                yield GraphFault(f"initializer {sanitize(tensor.name)}", *wrong, *head, tensor.name)
        for info in scope.input:
            yield from _size_faults(info, number, "head")
        for info in scope.output:
            yield from _size_faults(info, number, "result")
    for info in scope.value_info:
        yield from _size_faults(info, number, "head")


def _size_faults(info: Any, number: int, part: str) -> Iterator[GraphFault]:
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_value < 0:
            expected, got = "sizes from 0 to 2**63 - 1, symbols or ?", str(dim.dim_value)
            subject = f"type of {sanitize(info.name)}"
            yield GraphFault(subject, expected, got, None, number, None, part, info.name)


# ---- ops -------------------------------------------------------------------------------------


def is_unknown(domain: str, op_type: str) -> bool:
    """Tell whether a domain is ONNX's own and neither onnx, the runtime nor the registry has that op in it.

    Parameters
    ----------
    domain, op_type : str

    Returns
    -------
    bool
    """
    if domain not in _ONNX_DOMAINS or registry.find(domain, op_type) is not None:
        return False
    domain = canonical_domain(domain)
    return not (onnx.defs.has(op_type, domain) or has_op(domain, op_type))


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
    ops_by_type = {}
    for schema in onnx.defs.get_all_schemas():
        if not schema.deprecated:
            ops_by_type[schema.name] = (schema.domain, schema.name)
    for domain, name in functions:
        ops_by_type[name] = (domain, name)
    for op in registry:
        ops_by_type[op.op_type] = (op.domain, op.op_type)
    return ops_by_type


def _op_faults(
    node: NodeProto,
    at: tuple[int, int],
    imports: Mapping[str, int],
    functions: set[tuple[str, str]],
) -> Iterator[GraphFault]:
    """Report an operator that ONNX does not have, or only in a newer version than the imported one."""
    domain = canonical_domain(node.domain)
    name = node.op_type
    if (node.domain, name) in functions:
        return
    subject = f"op {sanitize(name)}"
    if is_unknown(domain, name):
        candidates = known_ops(functions)
        close = suggest(name, candidates)
        remedy = "demo.NAME for an op of your own"
        if close in candidates:
            remedy = ".".join(filter(None, candidates[close]))
        got = sanitize(name) or "nothing"
        yield GraphFault(subject, "an op of ONNX", got, remedy, *at, "op", name)
        return
    if domain not in _ONNX_DOMAINS or registry.find(domain, name) is not None:
        return
    version = imports.get(domain, 0)
    if version < 1 or not onnx.defs.has(name, domain) or onnx.defs.has(name, version, domain):
        return
    # The first version that has the operator is what the import must be at least.
    since = LARGEST_VERSION
    for schema in onnx.defs.get_all_schemas_with_history():
        if (schema.domain, schema.name) == (domain, name):
            since = min(since, schema.since_version)
    expected = f"version {since} of ONNX's operators or newer"
    remedy = f'<opset_import: ["{domain}" : {since}]> before the graph'
    yield GraphFault(subject, expected, f"version {version} imported", remedy, *at, "op", name)


# ---- attributes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meant:
    """The value that an attribute was most likely meant to have, and how it is written in Python."""

    value: Any
    written: str


_SPATIAL = {"kernel_shape": 2, "strides": 2, "dilations": 2, "pads": 4}
"""Values of a list for two spatial axes, as pictures have."""


def wrong_attribute(
    node: NodeProto,
    imports: Mapping[str, int],
    functions: Container[tuple[str, str]] = (),
    *,
    exact: bool = False,
) -> tuple[str, str, str, str | Meant | None] | None:
    """Return an attribute that ONNX's own operator does not have, or of another type than the operator takes.

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
    is_local = (node.domain, node.op_type) in functions
    if domain not in _ONNX_DOMAINS or is_local or registry.find(domain, node.op_type) is not None:
        return None
    if version < 1 or not onnx.defs.has(node.op_type, version, domain):
        return None
    attributes: Any = onnx.defs.get_schema(node.op_type, version, domain).attributes
    for attribute in node.attribute:
        name = attribute.name
        if name not in attributes:
            if attributes:
                expected = f"one of {', '.join(attributes)}"
            else:
                expected = f"no attrs of {node.op_type}"
            return name, expected, sanitize(name), closest(name, attributes)
        type_name = AttributeProto.AttributeType.Name(attributes[name].type.value)
        if not _fits(attribute, type_name, exact):
            value = onnx.helper.get_attribute_value(attribute)
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            expected = f"{noun_of(attributes[name].type.value)}, as {node.op_type} takes"
            got = f"{sanitize(name)} = {sanitize(repr(value), 60)}"
            return name, expected, got, _meant(name, value, type_name)
    return None


def _fits(attribute: AttributeProto, type_name: str, exact: bool) -> bool:
    actual = AttributeProto.AttributeType.Name(attribute.type)
    if actual in (type_name, "UNDEFINED") or attribute.ref_attr_name:
        return True
    is_list = actual in ("INTS", "FLOATS", "STRINGS")
    if is_list and not (attribute.ints or attribute.floats or attribute.strings):
        # An empty list says nothing about its items.
        return type_name.endswith("S")
    return not exact and (actual, type_name) in (("INT", "FLOAT"), ("INTS", "FLOATS"))


def _meant(name: str, value: Any, type_name: str) -> Meant | None:
    """Guess the value that was meant by one of a wrong type; return None without a guess."""
    if type_name == "INT" and isinstance(value, str):
        for row in DTYPES:
            if row.name == value:
                # ONNX gives each dtype a number, as Cast takes it.
                written = f"{name}=onnx.TensorProto.{TensorProto.DataType.Name(row.onnx)}"
                return Meant(int(row.onnx), written)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        if type_name == "INTS" and isinstance(value, int):
            guess: Any = [value] * _SPATIAL.get(name, 1)
        elif type_name == "INT":
            guess = int(value)
        elif type_name == "FLOAT":
            guess = float(value)
        else:
            return None
    except (TypeError, ValueError):
        return None
    return Meant(guess, f"{name}={guess!r}")


def _attribute_faults(attribute: AttributeProto, at: tuple[int, int]) -> Iterator[GraphFault]:
    """Report what the parser takes and ONNX does not have: lists of several types, and tensors of a wrong size."""
    position: tuple[int, int, str, str] = (*at, "attribute", attribute.name)
    subject = f"attr {sanitize(attribute.name)}"
    expected = "one value, or a list of numbers or of strings"
    lists = [field for field in ("ints", "floats", "strings") if len(getattr(attribute, field))]
    if len(lists) > 1:
        remedy = f"{sanitize(attribute.name)}: floats = […]"
        yield GraphFault(subject, expected, "a list of ints and floats", remedy, *position)
    elif attribute.type == AttributeProto.UNDEFINED and not attribute.ref_attr_name:
        yield GraphFault(subject, expected, "a list of tensors, graphs or types", None, *position)
    if attribute.HasField("t"):
        wrong = tensor_fault(attribute.t)
        if wrong is not None:
            expected, got, advice = wrong
            yield GraphFault(subject, expected, got, advice, *position)


def tensor_fault(tensor: TensorProto) -> tuple[str, str, str | None] | None:
    """Compare the values of a tensor with its type.

    The parser stores one value an element, even of dtypes that are packed.

    Parameters
    ----------
    tensor : TensorProto

    Returns
    -------
    tuple of str, str and (str or None), or None
        What was expected, what is there, and a remedy; None if they fit.
    """
    if any(size < 0 for size in tensor.dims):
        return "sizes from 0 to 2**63 - 1", str(min(tensor.dims)), None
    if tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("raw_data"):
        return None
    row = next((row for row in DTYPES if row.onnx == tensor.data_type), None)
    count = math.prod(tensor.dims)
    if row is not None and row.name.startswith("complex"):
        count *= 2
    stored = max(len(getattr(tensor, field)) for field in _DATA)
    if stored != count:
        return f"{count} values", str(stored), None
    if row is None:
        return None
    for value in (*tensor.int32_data, *tensor.uint64_data):
        if not _is_in_range(value, row):
            return f"values that {row} can hold", str(value), None
    return None


def _is_in_range(value: int, row: Any) -> bool:
    if row.numpy.kind == "b":
        return value in (0, 1)
    bits = row.bits or 64
    if row.name.startswith("int"):
        return -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    return 0 <= value < 1 << bits
