"""The operators of the catalogue that nodes of a model mean."""

from __future__ import annotations

import onnx
from onnx import NodeProto

from pyopnb.catalog.index import Entry, EntryRefusal, find_entry, find_refusal
from pyopnb.ops.names import canonical_domain

__all__ = ["node_entry", "node_name", "node_refusal"]


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


def node_entry(node: NodeProto, version: int | None = None) -> Entry | None:
    """Find the operator of the catalogue that a node means.

    Parameters
    ----------
    node : NodeProto
    version : int, optional
        Of its domain. Without it, operators of old versions are not found.

    Returns
    -------
    Entry or None
        None if the catalogue has none of this name, or one that takes other inputs.
    """
    domain = canonical_domain(node.domain)
    if version is not None and onnx.defs.has(node.op_type, version, domain):
        # A model imports one version for all operators; each has the last one of its own before that.
        version = onnx.defs.get_schema(node.op_type, version, domain).since_version
    return find_entry(node_name(node), len(node.input), version)


def node_refusal(node: NodeProto) -> EntryRefusal | None:
    """Return why the catalogue cannot run a node's operator; None if it can, or does not know the operator."""
    return find_refusal(node_name(node))
