"""Find wrong names, operators, attributes and inputs in a model.

One list serves all. `pyopnb.model` and `pyopnb.parse` refuse the first fault, and the explanation
of a refusal by ONNX Runtime picks the fault that the runtime text mentions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, ModelProto, NodeProto

from pyopnb.common import hand_downs, messages, plural, sanitize
from pyopnb.engine.models.index import GraphIndex
from pyopnb.engine.models.markers import PREFIX
from pyopnb.engine.models.onnx_schemas import find_schema, is_onnx_domain
from pyopnb.engine.models.ort_capabilities import has_op, operator_at, operators, schema_domains
from pyopnb.engine.models.protos import Site, first_output, full_name, imported_versions, walk
from pyopnb.engine.ops.attr_kinds import noun_of
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.engine.ops.registry import registry
from pyopnb.errors import ModelError, PyopError, UnknownName

__all__ = [
    "OP_KEY",
    "ModelFault",
    "catalog_hint",
    "exists",
    "find_faults",
    "nearest_op",
    "node_faults",
]

OP_KEY = "pyopnb.op."
"""Prefix of the metadata keys of the ops that a model keeps."""

_OPTION = onnx.defs.OpSchema.FormalParameterOption
_DTYPE_ATTRS = ("to", "dtype")
_EXAMPLES = {"INT": "0", "FLOAT": "1.0", "INTS": "[1, 1]", "FLOATS": "[1.0]"}


class ModelFault(NamedTuple):
    """One fault of a model, as an error that says where it is.

    Attributes
    ----------
    words : tuple of str
        Words in the runtime text if it refused this. The last one is the name at fault.
    """

    error: PyopError
    node: NodeProto | None
    words: tuple[str, ...]


def find_faults(proto: ModelProto, *, exact: bool = False) -> Iterator[ModelFault]:
    """Find the faults of a model.

    Parameters
    ----------
    exact : bool
        Whether the runtime has refused the model. Then an op may not be defined later, an int is no
        float, and inputs are counted.

    Raises
    ------
    ModelError
        Nodes wait for each other.
    """
    functions = {(function.domain, function.name) for function in proto.functions}
    imports = imported_versions(proto)
    for site in walk(proto):
        node, domain = site.node, canonical_domain(site.node.domain)
        is_known = (node.domain, node.op_type) in functions or domain.startswith(PREFIX)
        if is_known or registry.find(domain, node.op_type) is not None:
            continue
        unknown = _unknown_op(site, imports, proto, exact)
        if unknown is not None:
            yield ModelFault(unknown, node, (node.op_type,))
            continue
        schema = find_schema(domain, node.op_type, imports.get(domain))
        if schema is not None:
            yield from node_faults(site, schema, exact=exact)
    for scope in (proto.graph, *proto.functions):
        graph = GraphIndex(scope)
        for inner in graph.walk():
            for name, error in inner.duplicates():
                yield ModelFault(error, None, (name,))
        for unread, name, error in graph.unknown_names():
            yield ModelFault(error, unread, (name,))
        graph.refuse_cycles()


def node_faults(site: Site, schema: Any, *, exact: bool = True) -> Iterator[ModelFault]:
    """Find the faults of a node of one of the ONNX operators.

    They are in its attributes and, if ``exact``, in its inputs and outputs.
    """
    yield from _attribute_faults(site, schema, exact)
    if exact:
        yield from _port_faults(site, schema)


# ---- operators -----------------------------------------------------------------------------------


def exists(domain: str, op_type: str) -> bool:
    """Tell whether onnx or the runtime has an operator, in any version."""
    return onnx.defs.has(op_type, domain) or has_op(domain, op_type)


def nearest_op(domain: str, op_type: str) -> tuple[str, str] | None:
    """Return the domain and op type that a mistyped operator most likely means.

    The answer is None if no operator is similar.
    """
    names = {}
    if domain in schema_domains():
        names = {name: (op_domain, name) for op_domain, name in operators()}
        # An operator of the same domain is more likely, and a user's op is the most likely.
        names |= {name: (domain, name) for op_domain, name in operators() if op_domain == domain}
    for op in registry:
        # Users never type the names of generated ops.
        if not op.is_generated:
            names[op.op_type] = op.domain, op.op_type
    close = messages.closest(op_type, names)
    return None if close is None else names[close]


def _unknown_op(
    site: Site, imports: Mapping[str, int], proto: ModelProto, exact: bool
) -> PyopError | None:
    """Report an operator that does not exist, or only in a newer version than the imported one."""
    node, domain = site.node, canonical_domain(site.node.domain)
    is_onnx = is_onnx_domain(domain)
    # An op of another domain may be defined later.
    if not exists(domain, node.op_type) and (exact or is_onnx):
        owner = (domain or "ONNX") if is_onnx else "the runtime"
        error_class: type[PyopError] = UnknownName if exact else ModelError
        return error_class(
            site.where,
            expected=f"an operator of {owner}, or an op of the registry",
            got=full_name(node),
            next=_meant_op(node, proto, exact),
        )
    version = imports.get(domain)
    if version is None or not onnx.defs.has(node.op_type, domain):
        return None
    # The runtime has some of the ONNX operators in versions before the ones in ONNX.
    in_runtime = operator_at(domain, node.op_type, version)
    if find_schema(domain, node.op_type, version) is not None or in_runtime is not None:
        return None
    # The import must be at least the first version that has the operator.
    history = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == node.op_type]
    since = min(schema.since_version for schema in history if schema.domain == domain)
    return ModelError(
        site.where,
        expected=f"version {since} of {domain or 'ai.onnx'} or newer, in which {node.op_type} came",
        got=f"version {version} imported",
        next=f'helper.make_opsetid("{domain}", {since})',
    )


def _meant_op(node: NodeProto, proto: ModelProto, exact: bool) -> str:
    """Say what to type for an operator that does not exist.

    After a refusal by the runtime (``exact``) that is for the onnx helper, otherwise for ours.
    """
    name, domain = full_name(node), canonical_domain(node.domain)
    hint = catalog_hint(node) if exact else ""
    if hint:
        return hint
    if any(entry.key == OP_KEY + name for entry in proto.metadata_props):
        return (
            "pyopnb.load shows its source, which the model keeps; "
            f"then pyopnb.load(…, ops=[{sanitize(repr(name))}]).model"
        )
    if name.startswith(("torch.", "sklearn::")):
        # pyopnb.torch and pyopnb.sklearn give such names to their own ops.
        return (
            "where the model was made, pyopnb.save(model, path), which also writes such ops; "
            "then pyopnb.load here"
        )
    nearest = nearest_op(domain, node.op_type)
    if nearest is None and exact:
        return _cell_advice(node)
    if nearest is None:
        return f"a domain of your own for a new op: demo::{node.op_type}"
    near_domain, near_type = nearest
    if near_domain == domain and is_onnx_domain(domain):
        return near_type
    if exact and near_type == node.op_type:
        return f'domain="{near_domain}"'
    return f"{near_domain}::{near_type}"


def catalog_hint(node: NodeProto) -> str:
    """Say what the catalog does about an operator; empty if it does not know it."""
    names = hand_downs.handed_down("catalog_names")
    refusal = names.find_refusal(full_name(node))
    if refusal is not None:
        return f"{refusal.instead}; pyopnb's catalog cannot run it, because {refusal.reason}"
    problem = names.misuse(node)
    if problem:
        return f"{_cell_advice(node)}; {problem}"
    return "fill=True, which runs it by pyopnb's catalog" if names.node_entry(node) else ""


def _cell_advice(node: NodeProto) -> str:
    name = sanitize(repr(node.name or first_output(node)))
    return f"pyopnb.skeleton(model, {name}), the cell to define it in"


# ---- attributes ----------------------------------------------------------------------------------


def _attribute_faults(site: Site, schema: Any, exact: bool) -> Iterator[ModelFault]:
    """Report attributes that the operator does not have, takes in another type, or needs."""
    node, attributes = site.node, schema.attributes
    for attribute in node.attribute:
        name = attribute.name
        if name not in attributes:
            expected = (
                f"one of {', '.join(attributes)}" if attributes else f"no attrs of {node.op_type}"
            )
            advice = messages.closest(name, attributes) or f"leave {name} out"
            yield _attribute_fault(site, name, expected, name, advice)
        elif not _fits(attribute, attributes[name].type.name, exact):
            value = onnx.helper.get_attribute_value(attribute)
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            expected = f"{noun_of(attributes[name].type.value)}, as {node.op_type} takes"
            got = f"{sanitize(name)} = {sanitize(repr(value), 60)}"
            example = _example(attributes[name])
            if attributes[name].type.name == "FLOAT" and isinstance(value, int):
                example = f"{name}={float(value)}"
            yield _attribute_fault(site, name, expected, got, example)
    names = {attribute.name for attribute in node.attribute}
    for name in sorted(attributes) if exact else ():
        if attributes[name].required and name not in names:
            expected = f"{noun_of(attributes[name].type.value)}, which {node.op_type} needs"
            yield _attribute_fault(site, name, expected, "nothing", _example(attributes[name]))


def _attribute_fault(
    site: Site, name: str, expected: str, got: str, advice: str | None
) -> ModelFault:
    where = f"{site.where}, attr {name}"
    error = ModelError(where, expected=expected, got=got, next=advice)
    return ModelFault(error, site.node, (site.node.op_type, name))


def _fits(attribute: AttributeProto, type_name: str, exact: bool) -> bool:
    actual = AttributeProto.AttributeType.Name(attribute.type)
    if actual in (type_name, "UNDEFINED") or attribute.ref_attr_name:
        return True
    is_list = actual in ("INTS", "FLOATS", "STRINGS")
    if is_list and not (attribute.ints or attribute.floats or attribute.strings):
        # An empty list says nothing about its items.
        return type_name.endswith("S")
    # An int passes for a float until `ints_to_floats` has converted it.
    return not exact and (actual, type_name) in (("INT", "FLOAT"), ("INTS", "FLOATS"))


def _example(attribute: Any) -> str | None:
    value = _EXAMPLES.get(attribute.type.name)
    if attribute.name in _DTYPE_ATTRS:
        value = "onnx.TensorProto.FLOAT"
    return None if value is None else f"{attribute.name}={value}"


# ---- inputs and outputs --------------------------------------------------------------------------


def _port_faults(site: Site, schema: Any) -> Iterator[ModelFault]:
    """Report inputs and outputs that are too many or too few, and inputs that must not be empty."""
    node = site.node
    for side, names, ports, least, most in (
        ("input", node.input, schema.inputs, schema.min_input, schema.max_input),
        ("output", node.output, schema.outputs, schema.min_output, schema.max_output),
    ):
        limit, bound, advice = least, "at least ", None
        if len(names) > most:
            # Superfluous names are cut off, so that the advice can be typed as it is.
            limit, bound, advice = most, "at most ", repr(list(names[:most]))
        elif len(names) >= least:
            continue
        if least == most:
            bound = ""
        port_names = ", ".join(port.name for port in ports[:limit])
        expected = f"{bound}{plural(limit, side)} ({port_names})"
        error = ModelError(site.where, expected=expected, got=str(len(names)), next=advice)
        yield ModelFault(error, node, (node.op_type,))
    for port, name in zip(schema.inputs, node.input, strict=False):
        if not name and port.option == _OPTION.Single:
            where = f"{site.where}, input {port.name}"
            error = ModelError(
                where,
                expected="a name",
                got="an empty one",
                next=f"the name of an input, an initializer or an output for {port.name}",
            )
            yield ModelFault(error, node, (node.op_type,))
