"""Limit the attributes by which a small node could take all memory or crash the process.

The onnx reference implementation and ONNX Runtime make lists as long as some attributes say, and
onnx 1.23's inference of LayerNormalization writes out of bounds where ``axis`` has more than 32
bits. Check nodes here before passing them to either.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.engine.models.protos import Site, nodes_in
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.engine.ops.registry import registry
from pyopnb.errors import ModelError

__all__ = ["check_attributes", "check_nodes"]

_LIMITS = {"axis": 2**31 - 1, "num_scan_inputs": 2**16, "num_outputs": 2**16}
"""The largest magnitude of each attribute by which the ONNX operators index or allocate."""


def check_attributes(model: ModelProto) -> None:
    """Refuse a model with an attribute beyond its limit.

    Where a function takes the attribute from its caller, the value in the call is checked.

    Raises
    ------
    ModelError
    """
    nodes: list[NodeProto] = []
    for scope in (model.graph, *model.functions):
        nodes += nodes_in(scope)
    check_nodes(nodes)


def check_nodes(nodes: Iterable[NodeProto]) -> None:
    """Check the attributes of all nodes of a model, as `check_attributes` does.

    Raises
    ------
    ModelError
    """
    nodes = [node for node in nodes if node.attribute]
    limits: dict[str, int] = {}
    for node in nodes:
        for attribute in node.attribute:
            limit = _LIMITS.get(attribute.name)
            if limit is None or not _is_onnx(node):
                continue
            if attribute.ref_attr_name:
                limits[attribute.ref_attr_name] = limit
            else:
                _check(node, attribute.name, attribute.i, limit)
    for node in nodes if limits else ():
        for attribute in node.attribute:
            if attribute.name in limits and not _is_onnx(node):
                _check(node, attribute.name, attribute.i, limits[attribute.name])


def _is_onnx(node: NodeProto) -> bool:
    return not canonical_domain(node.domain) and registry.find(node.domain, node.op_type) is None


def _check(node: NodeProto, name: str, value: int, limit: int) -> None:
    if not -limit - 1 <= value <= limit:
        where = f"{Site(node, GraphProto(), '').where}, attr {name}"
        raise ModelError(where, expected=f"at most {limit:,}", got=f"{value:,}")
