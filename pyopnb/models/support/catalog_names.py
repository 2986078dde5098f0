"""The operators of the catalog that nodes of a model mean."""

from __future__ import annotations

import inspect

import onnx
from onnx import NodeProto

from pyopnb.catalog import Entry, entries_named, find_entry, find_refusal
from pyopnb.common import plural, sanitize
from pyopnb.engine import op_names, protos

__all__ = ["find_refusal", "misuse", "node_entry"]

_VERSIONS = range(1, 2**31)
"""The versions that onnx can be asked for; a file may claim any number of 64 bits."""


def node_entry(node: NodeProto, version: int | None = None) -> Entry | None:
    """Find the operator of the catalog that a node means.

    Parameters
    ----------
    version : int, optional
        Of its domain. Without it, operators of old versions are not found.

    Returns
    -------
    Entry or None
        None if the catalog has no operator of this name, or only one with other inputs.
    """
    domain = op_names.canonical_domain(node.domain)
    if (
        version is not None
        and version in _VERSIONS
        and onnx.defs.has(node.op_type, version, domain)
    ):
        # A model imports one version for all operators; each has the last one of
        # its own before that.
        version = onnx.defs.get_schema(node.op_type, version, domain).since_version
    return find_entry(protos.full_name(node), len(node.input), version)


def misuse(node: NodeProto, version: int | None = None) -> str:
    """Say which inputs or attrs of a node the catalog's operator does not accept.

    Parameters
    ----------
    version : int, optional
        As `node_entry` takes it.

    Returns
    -------
    str
        Empty if it takes all, or if the catalog does not know the operator.
    """
    refusal = find_refusal(protos.full_name(node))
    if refusal is not None:
        return str(refusal)
    name = sanitize(protos.full_name(node))
    if not entries_named(protos.full_name(node)):
        return ""
    entry = node_entry(node, version)
    if entry is None:
        return f"the catalog's {name} does not take {plural(len(node.input), 'input')}"
    known = []
    for parameter in inspect.signature(entry.op_class).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return ""
        known.append(parameter.name)
    for attribute in node.attribute:
        if attribute.name not in known:
            expected = ", ".join(known) or "no attrs"
            return f"the catalog's {name} takes {expected}, not {sanitize(attribute.name)}"
    return ""
