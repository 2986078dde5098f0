"""Why the runtime refused a model, named in the model itself: ONNX Runtime's own text names neither node nor remedy.

Nothing is looked at before the runtime has refused, so what it takes is never refused here, and a reason that its text does not
mention is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from pyopnb.errors import ModelError, PyopError, UnknownOp
from pyopnb.models.catalog_names import node_entry, node_refusal
from pyopnb.models.index import GraphIndex
from pyopnb.models.markers import PREFIX
from pyopnb.models.nodes import Site, full_name, imported_versions, is_constant, walk
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.op_metadata import kept_names
from pyopnb.models.ort_capabilities import has_op, newest_version, operators, schema_domains
from pyopnb.models.support.ort_types import join_types, proto_of, to_notation
from pyopnb.models.support.type_flow import lacks
from pyopnb.models.support.unsupported import Misfit, Unsupported
from pyopnb.models.text.validate import Meant, is_unknown, wrong_attribute
from pyopnb.models.versions import FILL, new_imports
from pyopnb.ops.coerce import cast_expression
from pyopnb.ops.dtypes import DTYPES, dtype
from pyopnb.ops.messages import closest, plural, sanitize
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.registry import registry

__all__ = ["explain_refusal"]

_OUTPUT_DTYPE = re.compile(
    r"Type Error: Type \((tensor\(\w+\))\) of output arg \((.*)\) of node \(.*\) "
    r"does not match expected type \((tensor\(\w+\))\)"
)

_Candidate = tuple[PyopError, tuple[str, ...]]
"""An error, and the words that the runtime's text has if that is what it refused."""

_OPTION = onnx.defs.OpSchema.FormalParameterOption
_DTYPE_ATTRS = ("to", "dtype")
_DTYPE_NUMBERS = frozenset(row.onnx for row in DTYPES)


def explain_refusal(proto: ModelProto, said: str, *, filled: bool = False) -> PyopError | None:
    """Return the error that says why the runtime refused a model.

    Parameters
    ----------
    proto : ModelProto
    said : str
        The runtime's text.
    filled : bool
        Whether `fill` did what it can, which is not advised then.

    Returns
    -------
    PyopError or None
        None where the text is about something else.
    """
    match = _OUTPUT_DTYPE.search(said)
    if match is not None:
        return _wrong_output(proto, *match.groups())
    try:
        # The first fault that the runtime's own text mentions is the one that it stopped at.
        for error, words in _candidates(proto, filled):
            if all(word in said for word in words):
                return error
    except ModelError as error:
        # A cycle, or a function that calls itself: the types cannot be followed.
        return error
    return None


def _candidates(proto: ModelProto, filled: bool) -> Iterator[_Candidate]:
    functions = {(function.domain, function.name) for function in proto.functions}
    imports, kept = imported_versions(proto), kept_names(proto)
    if not imports:
        next_ = "model.opset_import.add(version=onnx.defs.onnx_opset_version())"
        yield (
            ModelError("model", expected="an import of ONNX's operators", got="none", next=next_),
            ("opset",),
        )
    for site in walk(proto):
        node = site.node
        is_known = (node.domain, node.op_type) in functions or node.domain.startswith(PREFIX)
        if is_known or registry.find(node.domain, node.op_type) is not None:
            continue
        unknown = _unknown_op(site, imports, kept)
        if unknown is not None:
            yield unknown
        else:
            yield from _attributes(site, imports)
            yield from _ports(site, imports)
    for scope in (proto.graph, *proto.functions):
        graph = GraphIndex(scope)
        yield from ((error, (name,)) for name, error in graph.unknown_names())
        graph.refuse_duplicates()
    for site, lack in lacks(proto, new_imports(proto)):
        if not lack.kind.startswith("unknown"):
            yield _lacking(site, lack, filled), (site.node.op_type,)


# ---- operators ---------------------------------------------------------------------------------------------------------------


def _unknown_op(site: Site, imports: dict[str, int], kept: Collection[str]) -> _Candidate | None:
    node, domain = site.node, canonical_domain(site.node.domain)
    # A domain that the runtime does not have is the registry's, or that of a library.
    if domain not in schema_domains():
        error: PyopError = UnknownOp(
            site.where,
            expected="an op that you have defined, or one of a library that the options register",
            got=f"{sanitize(full_name(node))}, which nobody serves",
            next=_catalog_hint(node) or _how_to_define(full_name(node), kept),
        )
        return error, (f"{node.domain}:{node.op_type}",)
    if is_unknown(domain, node.op_type) or not (
        has_op(domain, node.op_type) or onnx.defs.has(node.op_type, domain)
    ):
        error = UnknownOp(
            site.where,
            expected=f"an operator of {domain or 'ONNX'}, or an op of the registry",
            got=sanitize(full_name(node)),
            next=_catalog_hint(node) or _meant_op(node.op_type, domain),
        )
        return error, (node.op_type,)
    version = imports.get(domain)
    if (
        domain in ("", "ai.onnx.ml")
        and version is not None
        and not onnx.defs.has(node.op_type, version, domain)
    ):
        versions = operators().get((domain, node.op_type), ())
        if versions:
            since = versions[0].since
        else:
            since = onnx.defs.get_schema(node.op_type, domain).since_version
        error = ModelError(
            site.where,
            expected=f"version {since} of {domain or 'ai.onnx'} or newer, in which {node.op_type} came",
            got=f"version {version} imported",
            next=f'helper.make_opsetid("{domain}", {since})',
        )
        return error, (node.op_type,)
    return None


def _how_to_define(name: str, kept: Collection[str]) -> str:
    if name in kept:
        return f"pyopnb.load shows its source, which the model keeps; then pyopnb.load(…, ops=[{sanitize(repr(name))}]).model"
    if name.startswith(_MADE):
        return "where the model was made, pyopnb.save(model, path), which writes such ops as well; then pyopnb.load here"
    close = closest(name, [op.name for op in registry])
    if close:
        return f"define it: %%pyop, or write {close}"
    return "%pyop skeleton MODEL NODE, which writes the cell to define it in"


def _catalog_hint(node: NodeProto) -> str:
    """Say what the catalogue does about an operator; empty if it does not know it."""
    if node_entry(node):
        return "fill=True, which runs it by pyopnb's catalogue"
    return _refusal_hint(node)


def _refusal_hint(node: NodeProto) -> str:
    refusal = node_refusal(node)
    if refusal is None:
        return ""
    return f"{refusal.instead}; pyopnb's catalogue cannot run it, because {refusal.reason}"


_MADE = ("torch.", "sklearn::")
"""What names begin with that the doors give to ops of their own."""


def _meant_op(op_type: str, domain: str) -> str:
    """Suggest the domain that was forgotten, or the nearest name."""
    domains = [op.domain for op in registry if op.op_type == op_type]
    domains += [
        op_domain for op_domain, name in operators() if name == op_type and op_domain != domain
    ]
    if domains:
        return f'domain="{sanitize(domains[0])}"'
    names = sorted({name for place, name in operators() if place == domain})
    return sanitize(closest(op_type, names) or f"define it: %%pyop -d demo {op_type}")


# ---- attributes --------------------------------------------------------------------------------------------------------------


def _attributes(site: Site, imports: dict[str, int]) -> Iterator[_Candidate]:
    node = site.node
    wrong = wrong_attribute(node, imports, exact=True)
    if wrong is not None:
        name, expected, got, meant = wrong
        next_ = meant.written if isinstance(meant, Meant) else meant
        yield (
            ModelError(
                f"{site.where}, attr {sanitize(name)}", expected=expected, got=got, next=next_
            ),
            (node.op_type, name),
        )
    for attribute in node.attribute:
        if (
            attribute.name in _DTYPE_ATTRS
            and attribute.type == AttributeProto.INT
            and attribute.i not in _DTYPE_NUMBERS
        ):
            expected, next_ = (
                "the number of one of ONNX's dtypes",
                f"{attribute.name}=onnx.TensorProto.FLOAT",
            )
            where = f"{site.where}, attr {attribute.name}"
            yield (
                ModelError(where, expected=expected, got=str(attribute.i), next=next_),
                (node.op_type, attribute.name),
            )
    schema = find_schema(
        canonical_domain(node.domain), node.op_type, imports.get(canonical_domain(node.domain))
    )
    attr_names = {attribute.name for attribute in node.attribute}
    for name, attribute in sorted(schema.attributes.items()) if schema is not None else ():
        if attribute.required and name not in attr_names:
            type_name = AttributeProto.AttributeType.Name(attribute.type.value)
            if name not in _DTYPE_ATTRS:
                value = _EXAMPLES.get(type_name)
            else:
                value = "onnx.TensorProto.FLOAT"
            where, expected = (
                f"{site.where}, attr {name}",
                f"{_ARTICLES.get(type_name, type_name.lower())}, which {node.op_type} needs",
            )
            yield (
                ModelError(
                    where, expected=expected, got="nothing", next=value and f"{name}={value}"
                ),
                (node.op_type, name),
            )


_EXAMPLES = {"INT": "0", "FLOAT": "1.0", "INTS": "[1, 1]", "FLOATS": "[1.0]"}
_ARTICLES = {
    "INT": "an int",
    "FLOAT": "a float",
    "INTS": "a list of ints",
    "FLOATS": "a list of floats",
    "STRING": "a text",
}


# ---- inputs and outputs ------------------------------------------------------------------------------------------------------


def _ports(site: Site, imports: dict[str, int]) -> Iterator[_Candidate]:
    node = site.node
    schema = find_schema(
        canonical_domain(node.domain), node.op_type, imports.get(canonical_domain(node.domain))
    )
    if schema is None:
        return
    for side, names, ports, least, most in (
        ("input", node.input, schema.inputs, schema.min_input, schema.max_input),
        ("output", node.output, schema.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            if len(names) > most:
                limit = most
            else:
                limit = least
            port_names = ", ".join(port.name for port in ports[:limit])
            bound = "at most " if len(names) > most else "at least "
            if least == most:
                bound = ""
            expected = f"{bound}{plural(limit, side)} ({port_names})"
            # The names that are too many are cut off, so that the advice can be typed as it is.
            next_ = repr(list(map(sanitize, names[:most]))) if len(names) > most else None
            error = ModelError(site.where, expected=expected, got=str(len(names)), next=next_)
            yield error, (node.op_type,)
        for port, name in zip(ports, names, strict=False):
            if not name and side == "input" and port.option == _OPTION.Single:
                yield (
                    ModelError(
                        f"{site.where}, input {port.name}", expected="a name", got="an empty one"
                    ),
                    (node.op_type,),
                )


# ---- types -------------------------------------------------------------------------------------------------------------------


def _lacking(site: Site, lack: Unsupported, filled: bool) -> ModelError:
    newest = newest_version(canonical_domain(site.node.domain))
    schema = find_schema(canonical_domain(site.node.domain), site.node.op_type)
    newer = schema is not None and newest is not None and schema.since_version > newest
    if lack.misfit is not None and not newer:
        return _misfit(site, lack.misfit)
    is_refused = node_refusal(site.node) is not None
    can_fill = (newer or lack.kernel) and not filled and not is_refused
    return ModelError(
        site.where,
        expected="a node that the installed onnxruntime can run",
        got=lack.reason,
        next=FILL if can_fill else _refusal_hint(site.node) or None,
    )


def _wrong_output(proto: ModelProto, declared: str, name: str, computed: str) -> ModelError:
    """Report a value whose dtype in the file is not the one that its node computes."""
    paths = {}
    for field in ("value_info", "output"):
        for number, info in enumerate(getattr(proto.graph, field)):
            paths[info.name] = f"model.graph.{field}[{number}]"
    notation = to_notation(computed)
    next_ = None
    # The value of a body has another path; there, the name has to do.
    if name in paths:
        element = TensorProto.DataType.Name(dtype(notation).onnx)
        next_ = f"{paths[name]}.type.tensor_type.elem_type = onnx.TensorProto.{element}"
    return ModelError(
        f"value {sanitize(name)}",
        expected=f"a declaration of {notation}, which its node computes",
        got=to_notation(declared),
        next=next_,
    )


def _misfit(site: Site, misfit: Misfit) -> ModelError:
    """Report an input of a wrong dtype; of two that differ the constant one, as that was made by hand."""
    port, partner = misfit.place, misfit.other
    names = site.node.input
    if (
        partner is not None
        and _constant(site, names[partner]) is not None
        and _constant(site, names[port]) is None
    ):
        port, partner = partner, port
    got, expected = (
        misfit.kinds[port] or "",
        misfit.takes if partner is None else (misfit.kinds[partner] or "",),
    )
    name, constant = sanitize(names[port]), _constant(site, names[port])
    if partner is not None:
        as_partner = f", as {sanitize(names[partner])} is"
    else:
        as_partner = ""
    next_ = None
    if constant is not None and (row := _castable(got, expected)) is not None:
        next_ = cast_expression(name if name.isidentifier() else "array", dtype(row))
    return ModelError(
        f"{site.where}, input {name}",
        expected=f"{join_types(expected)}{as_partner}",
        got=f"{to_notation(got)}{constant or ''}",
        next=next_,
    )


def _castable(got: str, wanted: tuple[str, ...]) -> int | None:
    """Return the number of the dtype to cast to: of those that the operator takes, the one of the same kind."""
    kinds = [type_text for type_text in wanted if type_text.startswith("tensor(")]
    if not got.startswith("tensor(") or not kinds:
        return None
    # A cast keeps the kind of number where it can: double becomes float and not int.
    near = [type_text for type_text in kinds if type_text in _NEAR.get(got, ())]
    if near:
        best = near[0]
    elif len(kinds) == 1:
        best = kinds[0]
    else:
        best = None
    if best:
        return int(proto_of(best).tensor_type.elem_type)
    return None


_NEAR = {
    "tensor(double)": ("tensor(float)",),
    "tensor(int32)": ("tensor(int64)",),
    "tensor(int64)": ("tensor(int32)",),
}


def _constant(site: Site, name: str) -> str | None:
    """``" in an initializer"`` or ``" in a Constant"``; None for what is neither, as far as the node's own graph shows."""
    scope = site.scope
    if isinstance(scope, GraphProto) and any(tensor.name == name for tensor in scope.initializer):
        return " in an initializer"
    producer: NodeProto | None = next((node for node in scope.node if name in node.output), None)
    if producer is not None and is_constant(producer):
        return " in a Constant"
    return None
