"""Replace nodes that ONNX Runtime lacks by the ONNX reference implementation or the catalog."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Collection, Iterable
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from pyopnb.common import sanitize
from pyopnb.engine import (
    FilledNode,
    GraphIndex,
    ModelSource,
    check_arguments,
    dtype,
    op_names,
    opset_versions,
    ort_capabilities,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import Filled, ModelError
from pyopnb.models import Types, catalog_names, missing, node_edits
from pyopnb.onnx_reference.catalog_ops import (
    define_catalog_op,
    is_catalog_domain,
    is_for_version,
    redefine_catalog_op,
)
from pyopnb.onnx_reference.operator import (
    has_reference,
    lack_of_reference,
    schema_of_op,
    stand_in_class,
)

__all__ = ["DOMAIN", "fill", "fill_source"]

DOMAIN = "onnx.reference"
"""Domain of the stand-ins for the ONNX operators; for other domains, theirs is appended."""

_OUTPUTS = "reference_outputs"
_COMPARISONS = frozenset({"And", "Equal", "Greater", "Less", "Or", "Xor"})
_UINT8, _INT8 = TensorProto.UINT8, TensorProto.INT8


@check_arguments
def fill(
    model: ModelProto | bytes | str | os.PathLike[str],
    nodes: node_edits.Where = (),
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """Return a copy of a model in which Python ops run every node that the runtime lacks.

    The stand-in is the ONNX reference implementation, such as ``onnx.reference::Celu_12`` for
    version 12 of Celu. For operators that ONNX does not define, it is an operator of the catalog,
    such as ``pyopnb.catalog.TRT::EfficientNMS_TRT``. If you have an op with the node's own name, it
    comes first. If the model's opset is too new for the runtime, it is lowered: a node whose
    operator has not changed since, or only in its allowed types, still runs in the runtime; any
    other runs in the reference, in its own version.

    Parameters
    ----------
    model : ModelProto, bytes or path
        It is not changed. External data stays in its files.
    nodes : as for `replace`, optional
        Nodes to run in the reference although the runtime has a kernel, for example because the
        kernel refuses their attrs.
    base_dir : path, optional
        The folder of the external data of a model in memory.

    Returns
    -------
    ModelProto
        Pass it to a `Session`. If you save it, load it with ``Session(path, fill=True)``, which
        defines the stand-ins again.

    Warns
    -----
    Filled
        Lists the filled nodes, the nodes that could not be filled, and why; ``nodes`` lists every
        node. Without this warning, nothing was missing.

    Examples
    --------
    >>> import warnings, numpy as np, pyopnb
    >>> celu = pyopnb.model(
    ...     pyopnb.node("Celu", "x", "y"), {"x": "float64[N]"}, {"y": "float64[N]"}, opset=12
    ... )
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     filled = pyopnb.fill(celu)
    >>> pyopnb.Session(filled)(x=np.float64([-1, 2]))["y"]
    array([-0.63212056,  2.        ])
    """
    source = node_edits.open_for_edit(model, base_dir)
    done = fill_source(source, nodes, model)
    if done:
        warnings.warn(Filled(done), stacklevel=4)
    return to_model(source)


def fill_source(
    source: ModelSource, nodes: node_edits.Where = (), original: object = None
) -> list[FilledNode]:
    """Fill a model in place and return a record for each node."""
    proto = source.proto
    proto.ir_version = min(proto.ir_version, ort_capabilities.newest_ir_version())
    _redefine_stand_ins(proto)
    selected = []
    if not _is_empty(nodes):
        selected = node_edits.select_sites(proto, nodes, original)
    if not selected and not any(opset_versions.new_imports(proto)) and not missing(proto):
        return []
    filling = _Filling(proto)
    filling.lower_versions()
    filling.fill_nodes([(site, "asked for") for site in selected])
    lacking = []
    for row in missing(proto):
        if row.site is None:
            continue
        if row.is_misuse:
            # Inputs of two types where the operator takes one, or an attribute that it does not
            # have: no implementation gives that a meaning.
            filling.leave(row.site, row.reason)
        else:
            lacking.append((row.site, row.reason))
    filling.fill_nodes(lacking)
    return filling.done


def _is_empty(nodes: node_edits.Where) -> bool:
    return isinstance(nodes, Collection) and not isinstance(nodes, str) and len(nodes) == 0


class _Filling:
    """A model that is being filled."""

    def __init__(self, proto: ModelProto) -> None:
        self.proto = proto
        self.done: list[FilledNode] = []
        self._types = Types(proto)
        # protobuf makes a new Python object for a node at each access, so code that uses the ids
        # of these objects has to keep them.
        self._alive: list[Any] = []
        self._versions = self._versions_in_file()
        # Ids of nodes that are filled or cannot be.
        self._settled: set[int] = set()

    def _versions_in_file(self) -> dict[int, int | None]:
        """Return the version of its domain that each node has in the file, by node id."""
        versions: dict[int, int | None] = {}
        for scope in (self.proto, *self.proto.functions):
            imported = protos.imported_versions(scope)
            graph = scope
            if isinstance(scope, ModelProto):
                graph = scope.graph
            for node in protos.nodes_in(graph):
                self._alive.append(node)
                versions[id(node)] = imported.get(op_names.canonical_domain(node.domain))
        return versions

    def _version(self, node: NodeProto) -> int | None:
        if id(node) in self._versions:
            return self._versions[id(node)]
        return protos.imported_versions(self.proto).get(op_names.canonical_domain(node.domain))

    def lower_versions(self) -> None:
        """Import the versions that the runtime takes, and replace nodes that have changed since.

        A domain keeps its version if one of its changed nodes cannot be replaced.
        """
        for new in opset_versions.new_imports(self.proto):
            if not new.known:
                continue
            changed = [site for site, _ in new.changed()]
            reason = (
                f"changed after version {new.newest}, "
                f"the newest of {new.domain or 'ai.onnx'} that the runtime takes"
            )
            self.fill_nodes([(site, reason) for site in changed])
            # Where one could not be replaced, the model keeps its version, and
            # the runtime says why.
            if all(
                op_names.canonical_domain(site.node.domain).startswith(DOMAIN) for site in changed
            ):
                new.entry.version = new.newest

    # ---- stand-ins -------------------------------------------------------------------------------

    def fill_nodes(self, lacking: Iterable[tuple[protos.Site, str]]) -> None:
        """Replace each node that has a stand-in."""
        changes: list[tuple[protos.Site, str]] = []
        # A stand-in also replaces the bodies of its node.
        # So these come first, and the nodes inside are settled with them.
        for site, reason in sorted(lacking, key=lambda pair: not protos.bodies(pair[0].node)):
            if id(site.node) in self._settled:
                continue
            inner: list[NodeProto] = []
            for body in protos.bodies(site.node):
                inner += protos.nodes_in(body)
            self._alive += [site, inner]
            self._settled.add(id(site.node))
            obstacle = self._obstacle(site)
            if obstacle:
                self.done.append(FilledNode(site.where, "", f"{reason}; {obstacle}"))
                continue
            self._settled.update(map(id, inner))
            op = self._define(site)
            changes.append((site, op))
            reason += _declare_flags(site)
            self.done.append(FilledNode(site.where, op, reason))
        node_edits.put_ops(self.proto, changes)
        # The reference is asked for a number of outputs, which compute has no way to know.
        for site, _ in changes:
            if len(site.node.output) != 1 and not is_catalog_domain(site.node.domain):
                site.node.attribute.append(helper.make_attribute(_OUTPUTS, len(site.node.output)))

    def leave(self, site: protos.Site, reason: str) -> None:
        """Note a node that nothing can replace."""
        if id(site.node) not in self._settled:
            self._alive.append(site)
            self._settled.add(id(site.node))
            self.done.append(FilledNode(site.where, "", reason))

    def _obstacle(self, site: protos.Site) -> str:
        """Say why no stand-in can replace the node; return nothing where one can."""
        node = site.node
        version = self._version(node)
        if self._needs_catalog(node, version):
            problem = catalog_names.misuse(node, version)
            if problem:
                return problem
            if catalog_names.node_entry(node, version) is None:
                lack = lack_of_reference(node, version) if version is not None else ""
                reason = f": {lack}" if lack else ""
                return f"neither the ONNX reference implementation nor the catalog has it{reason}"
        for end, names in (("input", node.input), ("output", node.output)):
            for name in filter(None, names):
                uncarried = self._types.uncarried(site.scope, name)
                if uncarried:
                    return (
                        f"its {end} {sanitize(name)} is {uncarried}, "
                        "which ONNX Runtime gives to no custom op"
                    )
        # The stand-in gets its bodies as attributes, which see nothing of the graph around them.
        for body in protos.bodies(node):
            for name in GraphIndex(body).free:
                return f"its body reads {sanitize(name)} from outside"
            for inner in protos.nodes_in(body):
                if self._has_changed(inner):
                    return (
                        f"its body holds {sanitize(protos.full_name(inner))} "
                        "of a newer version than the runtime takes"
                    )
        return ""

    def _has_changed(self, node: NodeProto) -> bool:
        """Tell whether a node means something else in the newest version that the runtime takes."""
        domain, version = op_names.canonical_domain(node.domain), self._version(node)
        limit = ort_capabilities.newest_version(domain)
        if version is None or limit is None:
            return False
        return opset_versions.changed_in(domain, node.op_type, version, limit) is not None

    def _needs_catalog(self, node: NodeProto, version: int | None) -> bool:
        if version is None or is_for_version(node, version):
            return True
        return not has_reference(node, version)

    def _define(self, site: protos.Site) -> str:
        version = self._version(site.node)
        if self._needs_catalog(site.node, version):
            return define_catalog_op(site.node, version)
        schema = schema_of_op(
            op_names.canonical_domain(site.node.domain), site.node.op_type, version
        )
        return _define_stand_in(schema.domain, schema.name, schema.since_version)


def _declare_flags(site: protos.Site) -> str:
    """Declare the output of a comparison as bool, and say so; return nothing where the file does.

    PyTorch had no bool before 1.2: it declared its own uint8, or int8, also in the ONNX test data.
    """
    is_comparison = site.node.op_type in _COMPARISONS and not op_names.canonical_domain(
        site.node.domain
    )
    if not is_comparison or not isinstance(site.scope, GraphProto):
        return ""
    for info in (*site.scope.output, *site.scope.value_info):
        tensor = info.type.tensor_type
        if info.name == site.node.output[0] and tensor.elem_type in (_UINT8, _INT8):
            declared = dtype(tensor.elem_type).name
            tensor.elem_type = TensorProto.BOOL
            return f"; the file declares its output as {declared}, and it is bool"
    return ""


def _define_stand_in(domain: str, op_type: str, version: int) -> str:
    """Define an operator's stand-in on first use, and return its name.

    Defining it again would make a new version.
    """
    suffix = f".{domain}" if domain else ""
    name = f"{DOMAIN}{suffix}::{op_type}_{version}"
    if registry.find(*op_names.split_name(name)) is None:
        registry.define(stand_in_class(domain, op_type, version), name)
    return name


def _redefine_stand_ins(proto: ModelProto) -> None:
    """Define the stand-ins of a model that was filled before, perhaps in another process."""
    for site in protos.walk(proto):
        domain = site.node.domain
        op_type, _, version = site.node.op_type.rpartition("_")
        if is_catalog_domain(domain):
            redefine_catalog_op(site.node)
        is_stand_in = domain == DOMAIN or domain.startswith(f"{DOMAIN}.")
        if not is_stand_in or not version.isdecimal():
            continue
        own_domain = domain.removeprefix(DOMAIN).removeprefix(".")
        # A name that no operator has is not a stand-in's.
        with contextlib.suppress(ModelError):
            schema = schema_of_op(own_domain, op_type, int(version[:6]))
            _define_stand_in(schema.domain, schema.name, schema.since_version)
