"""Lower the versions of models that are too new for the installed ONNX Runtime.

Only numbers change, and only if the model means the same under the older ones. A node that would
have to be rewritten is named instead, and `pyopnb.fill` runs it in its own version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, helper

from pyopnb.common import plural, sanitize
from pyopnb.engine.models.onnx_schemas import find_schema, is_onnx_domain
from pyopnb.engine.models.ort_capabilities import (
    kernels,
    newest_ir_version,
    newest_loaded_ir,
    newest_opset,
    newest_version,
    schema_domains,
)
from pyopnb.engine.models.protos import Site, imported_versions, nodes_in, walk
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.engine.ops.registry import registry
from pyopnb.errors import ModelError

__all__ = [
    "FILL",
    "NewImport",
    "changed_in",
    "import_domains",
    "lower_versions",
    "new_imports",
    "version_numbers",
]


FILL = "pyopnb.Session(model, fill=True)"
"""The advice of errors where the ONNX reference implementation can run what the runtime lacks.

Callers without a session replace it, as the command line does.
"""


# ---- operators -----------------------------------------------------------------------------------


_REWORDED = {
    ("", "Range", 27),
    ("", "BitShift", 28),
    ("", "QuantizeLinear", 28),
    ("", "SpaceToDepth", 28),
}
"""Versions of operators that have another text than the version before and mean the same.

They may take more types and attrs; for the earlier types and attrs, nothing changed.
"""


def changed_in(domain: str, op_type: str, version: int, older: int) -> int | None:
    """Return the version after an older one in which an operator came or changed its meaning.

    A version that only allows more types, or more attrs, means the same for the others: the runtime
    refuses the new ones.

    Returns
    -------
    int or None
        None where it means the same in both, or where the installed onnx does not know it.
    """
    # Walk back through the versions of the operator, from the newer one to the older one.
    now, changed = find_schema(domain, op_type, version), None
    while now is not None and now.since_version > older:
        before = find_schema(domain, op_type, now.since_version - 1)
        reworded = (domain, op_type, now.since_version) in _REWORDED
        if before is None or not (reworded or _definition(now) == _definition(before)):
            changed = int(now.since_version)
        now = before
    return changed


def _definition(schema: Any) -> tuple[Any, ...]:
    attrs = [
        (
            a.name,
            a.type,
            a.required,
            a.description,
            a.default_value.SerializeToString(deterministic=True),
        )
        for _, a in sorted(schema.attributes.items())
    ]
    ports = [
        (p.name, p.type_str, p.option, p.is_homogeneous, p.min_arity, p.description)
        for p in (*schema.inputs, *schema.outputs)
    ]
    return schema.deprecated, schema.doc, attrs, len(schema.inputs), ports


def _known_version(domain: str) -> int:
    """Return the newest version of an ONNX domain that the installed onnx knows; 0 for others.

    ``onnx.defs`` lists other domains once an op was registered there, and keeps listing them.
    """
    if is_onnx_domain(domain):
        return int(onnx.defs.C.schema_version_map().get(domain, (0, 0))[1])
    return 0


_TAKEN = {"": 24, "ai.onnx.ml": 5}
"""Versions that every supported runtime takes.

Asking the runtime takes 70 ms, which sessions of such models save.
"""


@dataclass(frozen=True)
class NewImport:
    """An import of a newer version than the runtime takes, or has kernels for.

    Attributes
    ----------
    entry : OperatorSetIdProto
        Of the model or of a function.
    newest : int
        The newest version that the runtime takes, or that it has kernels for.
    sites : list of Site
        The nodes that it is for, without nodes that run through ops.
    """

    entry: OperatorSetIdProto
    newest: int
    sites: list[Site]

    @property
    def domain(self) -> str:
        return canonical_domain(self.entry.domain)

    @property
    def known(self) -> bool:
        """Tell whether the installed onnx can say what changed."""
        return not self.sites or self.entry.version <= _known_version(self.domain)

    def changed(self) -> list[tuple[Site, int]]:
        """Return the nodes that mean something else in the older version.

        Each comes with the version in which its operator changed.
        """
        types = {site.node.op_type for site in self.sites}
        since = {
            name: changed_in(self.domain, name, self.entry.version, self.newest) for name in types
        }
        return [
            (site, version)
            for site in self.sites
            if (version := since[site.node.op_type]) is not None
        ]


def new_imports(proto: ModelProto) -> Iterator[NewImport]:
    """Yield the imports of a model and its functions that are too new for the runtime.

    A runtime may take a version of the ONNX operators before it has kernels for all that came with
    it. Such an import is too new if every node of it means the same in an older version for
    which there are kernels.
    """
    sites: dict[int, Site] | None = None
    for scope in (proto, *proto.functions):
        for entry in scope.opset_import:
            # bytes: protobuf's way to say that it is no UTF-8.
            if not isinstance(
                entry.domain,
                str,
            ):
                continue
            domain = canonical_domain(entry.domain)
            # Most models end here, without asking the runtime.
            if entry.version <= _TAKEN.get(domain, 1):
                continue
            if isinstance(scope, ModelProto):
                graph = scope.graph
            else:
                graph = scope
            used = {(node.domain, node.op_type) for node in nodes_in(graph)}
            theirs = {
                name
                for d, name in used
                if canonical_domain(d) == domain and registry.find(domain, name) is None
            }
            is_served = not domain and entry.version <= newest_opset()
            newest = newest_version(domain)
            if is_served:
                newest = _served_version(theirs, entry.version)
            if newest is None or entry.version <= newest:
                continue
            mine = [
                node
                for node in nodes_in(graph)
                if canonical_domain(node.domain) == domain and node.op_type in theirs
            ]
            # The walk over the whole model is made once, and only for a model that is too new.
            if sites is None:
                sites = {id(site.node): site for site in walk(proto)}
            new = NewImport(entry, newest, [sites[id(node)] for node in mine])
            if not is_served or not new.changed():
                yield new


def _served_version(op_types: set[str], version: int) -> int:
    """Return the newest version up to this one in which none of the operators lost its kernel."""
    newest_served = version
    # The runtime may list a version before it has kernels for all that changed in it.
    for op_type in op_types:
        schema = find_schema("", op_type, version)
        if schema is None or schema.since_version <= _TAKEN.get("", 0) or _has_kernel(schema):
            continue
        before = find_schema("", op_type, schema.since_version - 1)
        if before is not None and _has_kernel(before):
            newest_served = min(newest_served, int(schema.since_version) - 1)
    return newest_served


def _has_kernel(schema: Any) -> bool:
    """Tell whether the runtime can run an operator by a kernel for some dtype, or by a function."""
    rows = kernels().get(("", schema.name), ())
    return (
        schema.has_function
        or schema.has_context_dependent_function
        or any(row.serves(schema.since_version) for row in rows)
    )


# ---- the IR version ------------------------------------------------------------------------------

_LISTED_IR = 13
"""An IR version that every supported runtime takes; the field numbers below are from its format."""

_LISTED_FIELDS = 119
"""The number of fields in all messages; version 14 has no more."""

_LISTED_DTYPES = range(27)
"""The dtypes, up to int2; version 14 added float6e2m3 and float6e3m2."""

_DTYPE_FIELDS = ("data_type", "elem_type", "key_type")
_DATA_TYPE = TensorProto.DESCRIPTOR.fields_by_name["data_type"]


def _newer_content(proto: ModelProto) -> str | None:
    """Name a field or dtype that may be newer than the listed IR version; None if there is none."""
    # A field could mean anything that the installed onnx, or this module, does not know.
    messages = TensorProto.DESCRIPTOR.file.message_types_by_name.values()
    if sum(len(message.fields) for message in messages) > _LISTED_FIELDS:
        return "perhaps a field of a newer version"
    waiting: list[Message] = [proto]
    while waiting:
        message = waiting.pop()
        if len(UnknownFieldSet(message)):
            return (
                f"a field of a {message.DESCRIPTOR.name} "
                "that the installed onnx does not know either"
            )
        # The other fields of a tensor hold its data, which would be copied.
        is_tensor = isinstance(message, TensorProto)
        fields = [(_DATA_TYPE, message.data_type)] if is_tensor else message.ListFields()
        for field, value in fields:
            if field.message_type is not None:
                waiting += [value] if isinstance(value, Message) else value
            elif field.name in _DTYPE_FIELDS and value not in _LISTED_DTYPES:
                return f"the dtype {value}"
    return None


# ---- lowering ------------------------------------------------------------------------------------


def lower_versions(proto: ModelProto, *, filled: bool = False) -> tuple[str, ...]:
    """Lower the versions that are too new for the runtime to numbers that mean the same.

    Parameters
    ----------
    proto : ModelProto
        It is changed.
    filled : bool
        Whether `fill` was applied already, so that another remedy is advised.

    Returns
    -------
    tuple of str
        What was lowered: ``("IR version 14 → 13", "opset 28 → 26")``.

    Raises
    ------
    ModelError
        An operator differs between the versions, or the IR version is needed.
    """
    lowered = version_numbers(proto)
    if proto.ir_version > _LISTED_IR:
        newest_ir = newest_loaded_ir()
    else:
        newest_ir = proto.ir_version
    if proto.ir_version > newest_ir:
        _refuse_newer_content(proto, newest_ir)
        proto.ir_version = newest_ir
    for new in new_imports(proto):
        _refuse_changed(new, "pyopnb.replace(model, …, op)" if filled else FILL)
        new.entry.version = new.newest
    return lowered()


def version_numbers(proto: ModelProto) -> Callable[[], tuple[str, ...]]:
    """Remember a model's versions, and return a function that lists those lowered since then."""
    ir_version = proto.ir_version
    scopes = (proto, *proto.functions)
    entries = [(entry, entry.version) for scope in scopes for entry in scope.opset_import]

    def lowered() -> tuple[str, ...]:
        sentences = []
        if proto.ir_version < ir_version and ir_version > max(_LISTED_IR, newest_loaded_ir()):
            sentences.append(f"IR version {ir_version} → {proto.ir_version}")
        for entry, version in entries:
            domain = canonical_domain(entry.domain)
            name = f"opset of {sanitize(domain)}" if domain else "opset"
            if entry.version < version:
                sentences.append(f"{name} {version} → {entry.version}")
        return tuple(dict.fromkeys(sentences))

    return lowered


def _refuse_newer_content(proto: ModelProto, newest: int) -> None:
    content = _newer_content(proto)
    if content is not None:
        raise ModelError(
            "model",
            expected=f"IR version {newest} at most, which the installed onnxruntime takes",
            got=(
                f"IR version {proto.ir_version} with something that version {_LISTED_IR} lacks: "
                f"{content}"
            ),
            next="pip install -U onnxruntime, if there is one that takes it",
        )


def _refuse_changed(new: NewImport, remedy: str) -> None:
    name = new.domain or "ai.onnx"
    expected = f"{name} up to version {new.newest}, which the installed onnxruntime takes"
    if not new.known:
        newest_known = _known_version(new.domain)
        if newest_known:
            about = f"the installed onnx knows it up to {newest_known}"
        else:
            about = "the installed onnx does not know the domain"
        raise ModelError(
            f"model, import of {name}",
            expected=expected,
            got=f"version {new.entry.version}; {about}, and cannot say what changed",
            next="pip install -U onnx onnxruntime"
            if newest_known
            else f"import version {new.newest}",
        )
    changed = new.changed()
    if changed:
        site, since = changed[0]
        came = find_schema(new.domain, site.node.op_type, since - 1) is None
        if len(changed) > 1:
            also = f" ({plural(len(changed) - 1, 'more node')}: pyopnb.missing(model))"
        else:
            also = ""
        raise ModelError(
            site.where,
            expected=expected,
            got=(
                f"version {new.entry.version}, and {site.node.op_type} "
                f"{'came' if came else 'changed'} in {since}{also}"
            ),
            next=remedy,
        )


# ---- imports that a model lacks --------------------------------------------------------------


def import_domains(model: ModelProto) -> None:
    """Add the IR version and the opset imports that a model lacks.

    The ONNX operators are imported in the newest version that the installed onnxruntime takes,
    domains of onnxruntime in their newest version, and other domains in the first version that has
    all their ops that occur.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    model.ir_version = model.ir_version or newest_ir_version()
    # Existing imports stay as they are, even if there are newer versions.
    imported = imported_versions(model).keys()
    versions = dict.fromkeys(imported, 0) | _needed_versions(site.node for site in walk(model))
    if not imported:
        versions.setdefault("", newest_opset())
    for domain in sorted(versions.keys() - imported):
        model.opset_import.append(helper.make_opsetid(domain, versions[domain]))
    # onnx looks up a function's operators in the function's own imports.
    for function in model.functions:
        used = {canonical_domain(node.domain) for node in nodes_in(function)} - imported_versions(
            function
        ).keys()
        function.opset_import.extend(
            e for e in model.opset_import if canonical_domain(e.domain) in used
        )


def _needed_versions(nodes: Iterable[NodeProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for node in nodes:
        domain = canonical_domain(node.domain)
        op = registry.find(domain, node.op_type)
        if not domain:
            least = newest_opset()
        else:
            least = schema_domains().get(domain, 1)
        versions[domain] = max(versions.get(domain, 1), least, op.current.opset if op else 1)
    return versions
