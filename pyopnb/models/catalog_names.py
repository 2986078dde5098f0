"""The operators of the catalogue that nodes of a model mean."""

from __future__ import annotations

from onnx import NodeProto

from pyopnb.catalog.index import Entry, find_entry
from pyopnb.ops.names import canonical_domain

__all__ = ["node_entry", "node_name"]


def node_name(node: NodeProto) -> str:
    """Return the name by which the catalogue knows a node's operator.

    Parameters
    ----------
    node : NodeProto

    Returns
    -------
    str
        ``domain::op``, with an empty domain for ONNX's own.
    """
    return f"{canonical_domain(node.domain)}::{node.op_type}"


def node_entry(node: NodeProto) -> Entry | None:
    """Find the operator of the catalogue that a node means.

    Parameters
    ----------
    node : NodeProto

    Returns
    -------
    Entry or None
        None if the catalogue has none of this name, or one that takes other inputs.
    """
    return find_entry(node_name(node), len(node.input))
