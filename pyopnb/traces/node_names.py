"""Names by which a profile lists the nodes of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import ModelProto, NodeProto

from pyopnb.models.nodes import bodies, first_output, nodes_in, walk
from pyopnb.ops.names import fresh_name

__all__ = ["name_nodes"]

# onnxruntime 1.25 writes these into a profile as they are, which is no JSON.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def name_nodes(proto: ModelProto) -> list[str]:
    """Give every node of the main graph and of its bodies a unique name, where it has none that a profile can hold.

    A node in a body without a name gets one from ONNX Runtime, which can be that of a node of the main graph.

    Parameters
    ----------
    proto : ModelProto
        It is changed.

    Returns
    -------
    list of str
        Names for the reader of the main graph's nodes: those that they had, or their first outputs.
    """
    labels = [node.name or first_output(node) for node in proto.graph.node]
    names = {site.node.name for site in walk(proto)}
    used: set[str] = set()
    for number, node in enumerate(
        [*proto.graph.node, *(inner for outer in proto.graph.node for inner in _inside(outer))]
    ):
        if not node.name or node.name in used or _ESCAPED.search(node.name):
            node.name = fresh_name(f"{node.op_type}_{number}", names)
            names.add(node.name)
        used.add(node.name)
    return labels


def _inside(node: NodeProto) -> Iterator[NodeProto]:
    for body in bodies(node):
        yield from nodes_in(body)
