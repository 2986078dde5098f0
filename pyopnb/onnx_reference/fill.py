"""A copy of a model in which ONNX's reference implementation stands in for what the installed ONNX Runtime lacks."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto, TypeProto, helper

from pyopnb.models.edit.replace import open_for_edit, put_ops
from pyopnb.models.edit.select import Where, select_sites
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import ModelSource, to_model
from pyopnb.models.nodes import Site, bodies, full_name, imported_versions, nodes_in, walk
from pyopnb.models.ort_capabilities import newest_ir_version, newest_version
from pyopnb.models.support.missing import missing
from pyopnb.models.types import Types
from pyopnb.onnx_reference.operator import has_reference, schema_of_op, standing_in
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import ModelError, hide_internal_frames, sanitize
from pyopnb.ops.registry import canonical_domain, registry, split_name

__all__ = ["DOMAIN", "Filled", "FilledNode", "fill", "fill_source"]

DOMAIN = "onnx.reference"
"""Domain of the stand-ins of ONNX's own operators; those of other domains have the domain behind it."""

_OUTPUTS = "reference_outputs"
_SHOWN = 10


@dataclass(frozen=True)
class FilledNode:
    """A node that `fill` looked at because the runtime lacks it.

    Attributes
    ----------
    where : str
        The node as messages name it, by what it was.
    op : str
        The stand-in; empty where the node was left as it was.
    reason : str
        What the runtime lacks; of a node that was left, also why nothing stands in.
    """

    where: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Filled(UserWarning):
    """What `fill` put in, and what it could not.

    Attributes
    ----------
    nodes : tuple of FilledNode
    """

    def __init__(self, nodes: Iterable[FilledNode]) -> None:
        self.nodes = tuple(nodes)
        super().__init__(_told(self.nodes))

    def __reduce__(self) -> tuple[Any, ...]:
        return Filled, (self.nodes,)


def _told(nodes: Sequence[FilledNode]) -> str:
    lines: list[str] = []
    for head, same in (
        ("by ONNX's reference implementation, in Python", [node for node in nodes if node.op]),
        ("left as it was, so that the model does not load", [node for node in nodes if not node.op]),
    ):
        lines += [f"{len(same)} node{'s' * (len(same) > 1)} {head}:"] if same else []
        lines += [f"  {node}" for node in same[:_SHOWN]]
        lines += [f"  … and {len(same) - _SHOWN} more"] if len(same) > _SHOWN else []
    return "\n".join(lines)


@hide_internal_frames
def fill(
    model: ModelProto | bytes | str | os.PathLike[str],
    nodes: Where = (),
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """A copy of a model in which ONNX's reference implementation stands in for every node that the runtime lacks.

    The stand-ins are ops of the registry, ``onnx.reference::Celu_12`` for version 12 of Celu. A model of a newer opset than the
    runtime takes is brought down: a node whose operator has not changed since, or whose definition differs in the allowed
    types alone, stays the runtime's; any other runs through the reference in its own version.

    Parameters
    ----------
    model : ModelProto, bytes or path
        It is not changed. External data stay where they are.
    nodes : as for `replace`, optional
        Nodes that the reference is to run though the runtime has a kernel for them: kernels refuse some attrs.
    base_dir : path, optional
        The folder of the external data of a model in memory.

    Returns
    -------
    ModelProto
        For `Session`; one that was saved needs ``Session(path, fill=True)``, which defines its stand-ins anew.

    Warns
    -----
    Filled
        Says what was filled, and what could not be and why; its ``nodes`` has each of them. No warning: nothing was missing.

    Examples
    --------
    >>> import warnings, numpy as np, pyopnb
    >>> celu = pyopnb.model(pyopnb.node("Celu", "x", "y"), {"x": "float64[N]"}, {"y": "float64[N]"}, opset=12)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     filled = pyopnb.fill(celu)
    >>> pyopnb.Session(filled)(x=np.float64([-1, 2]))["y"]
    array([-0.63212056,  2.        ])
    """
    source = open_for_edit(model, base_dir)
    done = fill_source(source, nodes, model)
    if done:
        warnings.warn(Filled(done), stacklevel=3)
    return to_model(source)


def fill_source(source: ModelSource, nodes: Where = (), original: object = None) -> list[FilledNode]:
    """Fill a model that belongs to its reader; what was done to each node."""
    proto = source.proto
    proto.ir_version = min(proto.ir_version, newest_ir_version())
    _define_again(proto)
    wanted = [] if _is_nothing(nodes) else select_sites(proto, nodes, original)
    if not wanted and not missing(proto):
        return []
    filling = _Filling(proto)
    filling.bring_down()
    filling.put_in([(site, "asked for") for site in wanted])
    filling.put_in([(row.site, row.reason) for row in missing(proto) if row.site is not None])
    return filling.done


def _is_nothing(nodes: Where) -> bool:
    return not isinstance(nodes, (str, NodeProto)) and not callable(nodes) and not list(nodes)


class _Filling:
    """A model on its way, and what was done to it."""

    def __init__(self, proto: ModelProto) -> None:
        self.proto = proto
        self.done: list[FilledNode] = []
        self._types = Types(proto)
        self._kept: list[Any] = []  # keeps the nodes alive, so that their ids stay theirs
        self._versions: dict[int, int] = {}  # of the domain of a node, as the file has it
        self._over: set[int] = set()  # nodes with which nothing more is to be done

    # ---- versions ------------------------------------------------------------------------------------------------------------

    def bring_down(self) -> None:
        """Import the versions that the runtime takes, where each node still means the same or is replaced."""
        sites = {id(site.node): site for site in walk(self.proto)}
        self._kept.append(sites)
        for scope in [self.proto, *self.proto.functions]:
            inside = [sites[id(node)] for node in nodes_in(scope.graph if isinstance(scope, ModelProto) else scope)]
            for entry in scope.opset_import:
                domain = canonical_domain(entry.domain)
                mine = [site for site in inside if canonical_domain(site.node.domain) == domain]
                for site in mine:
                    self._versions.setdefault(id(site.node), entry.version)
                limit = newest_version(domain)
                if limit is not None and entry.version > limit and self._without_changed(mine, domain, entry.version, limit):
                    entry.version = limit

    def _without_changed(self, sites: Sequence[Site], domain: str, version: int, limit: int) -> bool:
        """Put stand-ins for the nodes that mean something else in the older version; whether no such node is left."""
        others = [site for site in sites if registry.find(domain, site.node.op_type) is None]  # ops of the user's own stay
        changed = [site for site in others if not _same_in(site.node, version, limit)]
        reason = f"changed after version {limit}, the newest of {domain or 'ai.onnx'} that the runtime takes"
        self.put_in([(site, reason) for site in changed])
        return all(canonical_domain(site.node.domain).startswith(DOMAIN) for site in changed)

    # ---- stand-ins -----------------------------------------------------------------------------------------------------------

    def put_in(self, lacking: Iterable[tuple[Site, str]]) -> None:
        """Put stand-ins into the places of these nodes, where there are any."""
        changes: list[tuple[Site, str]] = []
        # What stands inside another node goes with it.
        for site, reason in sorted(lacking, key=lambda pair: not bodies(pair[0].node)):
            if id(site.node) in self._over:
                continue
            inner = [node for graph in bodies(site.node) for node in nodes_in(graph)]
            self._kept += [site, inner]
            self._over.add(id(site.node))
            why_not = self._no_stand_in(site)
            if why_not:
                self.done.append(FilledNode(site.where, "", f"{reason}; {why_not}"))
                continue
            self._over.update(map(id, inner))
            changes.append((site, self._stand_in(site)))
            self.done.append(FilledNode(site.where, changes[-1][1], reason))
        put_ops(self.proto, changes)
        for site, _ in changes:
            if len(site.node.output) != 1:
                site.node.attribute.append(helper.make_attribute(_OUTPUTS, len(site.node.output)))

    def _version(self, node: NodeProto) -> int | None:
        return self._versions.get(id(node), imported_versions(self.proto).get(canonical_domain(node.domain)))

    def _no_stand_in(self, site: Site) -> str:
        """Why the reference cannot run the node in the runtime; empty where it can."""
        node = site.node
        version = self._version(node)
        if version is None or not has_reference(node, version):
            return "ONNX has no reference implementation of it"
        for names, end in ((node.input, "input"), (node.output, "output")):
            for name in filter(None, names):
                kind = self._types.find(site.scope, name)
                if kind is not None and (uncarried := _uncarried(kind)):
                    return f"its {end} {sanitize(name)} is {uncarried}, which ONNX Runtime gives to no custom op"
        if outer := [name for body in bodies(node) for name in GraphIndex(body).free]:
            return f"its body reads {sanitize(outer[0])} from outside"
        changed = [inner for graph in bodies(node) for inner in nodes_in(graph) if self._changed(inner)]
        return f"its body holds {sanitize(full_name(changed[0]))} of a newer version than the runtime takes" if changed else ""

    def _changed(self, node: NodeProto) -> bool:
        version, limit = self._version(node), newest_version(canonical_domain(node.domain))
        return version is not None and limit is not None and version > limit and not _same_in(node, version, limit)

    def _stand_in(self, site: Site) -> str:
        version = self._version(site.node)
        schema = schema_of_op(canonical_domain(site.node.domain), site.node.op_type, version)
        return _defined(schema.domain, schema.name, schema.since_version)


def _same_in(node: NodeProto, version: int, older: int) -> bool:
    """Whether a node means the same in an older version of its domain: its operator's definition differs in types at most."""
    domain = canonical_domain(node.domain)
    try:
        now, then = (schema_of_op(domain, node.op_type, number) for number in (version, older))
    except ModelError:
        return False
    return now.since_version == then.since_version or _words(now) == _words(then)


def _words(schema: Any) -> tuple[Any, ...]:
    attrs = [
        (a.name, a.type, a.required, a.description, a.default_value.SerializeToString(deterministic=True))
        for _, a in sorted(schema.attributes.items())
    ]
    ends = [
        [(p.name, p.type_str, p.option, p.is_homogeneous, p.min_arity, p.description) for p in ports]
        for ports in (schema.inputs, schema.outputs)
    ]
    return schema.doc, attrs, ends


def _uncarried(kind: TypeProto) -> str:
    """What no custom op can have; empty where it can have values of the type."""
    if not kind.HasField("tensor_type"):
        return (kind.WhichOneof("value") or "of no type").removesuffix("_type")
    if not kind.tensor_type.elem_type:
        return ""
    row = dtype(kind.tensor_type.elem_type)
    return "" if row.carried else row.name


def _defined(domain: str, op_type: str, version: int) -> str:
    """The stand-in of an operator, put into the registry once: defining it again would be a new version."""
    name = f"{DOMAIN}{f'.{domain}' if domain else ''}::{op_type}_{version}"
    if registry.find(*split_name(name)) is None:
        registry.define(standing_in(domain, op_type, version), name)
    return name


def _define_again(proto: ModelProto) -> None:
    """The stand-ins of a model that was filled before, maybe in another process."""
    for site in walk(proto):
        domain, (op_type, _, version) = site.node.domain, site.node.op_type.rpartition("_")
        ours = domain == DOMAIN or domain.startswith(f"{DOMAIN}.")
        if not ours or not version.isdecimal():
            continue
        with contextlib.suppress(ModelError):  # then it is none of ours, and a node that nobody has
            schema = schema_of_op(domain.removeprefix(DOMAIN).removeprefix("."), op_type, int(version[:6]))
            _defined(schema.domain, schema.name, schema.since_version)
