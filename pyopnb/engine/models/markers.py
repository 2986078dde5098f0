"""Numbers and private domains for the nodes of a session's own copy of a model.

ONNX Runtime tells a kernel neither which node of the file it belongs to nor the node's attributes;
an attribute with the node's number does. The node's domain gets the prefix ``pyopnb:``. An op in
place of ``::Relu`` is then no Relu to the runtime optimizer, and ops of other libraries, or of a
bare registration on the same options, cannot collide with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.engine.models.names import check_names
from pyopnb.engine.models.protos import Site, add_imports, bodies, walk
from pyopnb.engine.ops.types import TensorType
from pyopnb.errors import ModelError

__all__ = ["MARKER", "PREFIX", "NumberedNode", "add_markers", "remove_markers"]

MARKER = "pyopnb_node"
PREFIX = "pyopnb:"
_PACKED = "pyopnb_graph:"
_PACKED_TYPES = AttributeProto.STRING, AttributeProto.STRINGS
# Protobuf does not read graphs that are nested deeper either.
_MAX_DEPTH = 32


@dataclass(eq=False)
class NumberedNode:
    """A node of the session's own copy of the model.

    Attributes
    ----------
    site : Site
        Its node has the domain and op type of the file until `add_markers` changes them.
    fixed : tuple of int
        The runtime element types of the outputs whose rank is unknown, 0 for others; they become
        part of the op type.
    """

    site: Site
    domain: str
    op_type: str
    fixed: tuple[int, ...] = ()
    declared: tuple[TensorType, ...] = field(default=())

    @property
    def runtime_name(self) -> tuple[str, str]:
        """Domain and op type of the node in the session's model."""
        # Never the op type of an ONNX operator: in places the runtime looks at op
        # types without domains.
        if any(self.fixed):
            suffix = "".join(f".{n}" for n in self.fixed)
        else:
            suffix = "."
        return PREFIX + self.domain, self.op_type + suffix


def add_markers(proto: ModelProto, nodes: Iterable[NumberedNode]) -> None:
    """Mark the nodes of ops in a session's own copy of a model, and import their private domains.

    Parameters
    ----------
    proto : ModelProto
        It is changed.
    nodes : iterable of NumberedNode
        The number of each is its position.
    """
    domains: dict[str, int] = {}
    for position, entry in enumerate(nodes):
        node = entry.site.node
        # The runtime must not take the node for one of its own operators.
        node.domain, node.op_type = entry.runtime_name
        domains[node.domain] = 1
        _drop_marker(node)
        _pack_graphs(node)
        node.attribute.append(helper.make_attribute(MARKER, position))
    # The bodies of an If in a function see the function's imports, not the model's.
    for scope in (proto, *proto.functions):
        add_imports(scope, domains)


def remove_markers(proto: ModelProto) -> None:
    """Undo `add_markers`, in a session's own copy of a model or in one that ONNX Runtime saved.

    Parameters
    ----------
    proto : ModelProto
        It is changed.

    Raises
    ------
    ModelError
        A packed graph is damaged, or too deep inside others.
    """
    # The key is the id; the graphs are in it to stay alive.
    depths: dict[int, tuple[GraphProto, int]] = {}
    for site in walk(proto):
        if id(site.scope) in depths:
            depth = depths[id(site.scope)][1]
        else:
            depth = 0
        if site.node.domain.startswith(PREFIX):
            site.node.domain = site.node.domain[len(PREFIX) :]
            site.node.op_type = site.node.op_type.partition(".")[0]
            depth += _unpack_graphs(site, depth)
        # A graph inside a packed graph is as deep as both together.
        if depth:
            depths.update((id(body), (body, depth)) for body in bodies(site.node))
        _drop_marker(site.node)
    for scope in (proto, *proto.functions):
        for position in reversed(range(len(scope.opset_import))):
            if scope.opset_import[position].domain.startswith(PREFIX):
                del scope.opset_import[position]


def _drop_marker(node: NodeProto) -> None:
    for position in reversed(range(len(node.attribute))):
        if node.attribute[position].name == MARKER:
            del node.attribute[position]


def _pack_graphs(node: NodeProto) -> None:
    """Serialize graph attributes.

    ONNX Runtime refuses graphs on nodes other than its own control flow operators.
    """
    for attribute in node.attribute:
        single = attribute.type == AttributeProto.GRAPH
        if single:
            graphs = [attribute.g]
        elif attribute.type == AttributeProto.GRAPHS:
            graphs = list(attribute.graphs)
        else:
            graphs = []
        if graphs and not attribute.name.startswith(_PACKED):
            name = _PACKED + attribute.name
            packed = [body.SerializeToString() for body in graphs]
            attribute.CopyFrom(helper.make_attribute(name, packed[0] if single else packed))


def _unpack_graphs(site: Site, depth: int) -> bool:
    """Undo `_pack_graphs`, and tell whether there was anything to undo."""
    packed = [attribute for attribute in site.node.attribute if attribute.name.startswith(_PACKED)]
    if packed and depth >= _MAX_DEPTH:
        # The path of the node would be as long as the nest is deep.
        raise ModelError(
            "model", expected=f"at most {_MAX_DEPTH} graphs packed inside one another", got="more"
        )
    for attribute in packed:
        name = attribute.name.removeprefix(_PACKED)
        single, where = (
            attribute.type == AttributeProto.STRING,
            f"{site.where}, attr {attribute.name}",
        )
        try:
            if attribute.type not in _PACKED_TYPES:
                raise DecodeError
            packed_graphs = [attribute.s] if single else attribute.strings
            graphs = list(map(GraphProto.FromString, packed_graphs))
        except DecodeError:
            raise ModelError(
                where, expected="a graph that pyopnb packed", got="bytes of something else"
            ) from None
        # Bytes from a file come back as a graph, and are checked as a file is.
        for graph in graphs:
            check_names(graph, where)
        if single:
            attribute_type = AttributeProto.GRAPH
        else:
            attribute_type = AttributeProto.GRAPHS
        attribute.CopyFrom(
            helper.make_attribute(name, graphs[0] if single else graphs, attr_type=attribute_type)
        )
    return bool(packed)
