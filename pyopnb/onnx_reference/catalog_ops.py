"""Nodes that an operator of the catalog can run, and the ops that run them."""

from __future__ import annotations

from onnx import NodeProto

from pyopnb.catalog import Entry, entries, entries_named, find_entry
from pyopnb.engine import Op, class_texts, op_names, registry
from pyopnb.models import catalog_names

__all__ = [
    "CATALOG_DOMAIN",
    "define_catalog_op",
    "is_catalog_domain",
    "is_for_version",
    "op_named",
    "redefine_catalog_op",
]

CATALOG_DOMAIN = "pyopnb.catalog"
"""Domain of the ops; the operator's own is appended, because several domains have namesakes."""


def define_catalog_op(node: NodeProto, version: int | None = None) -> str:
    """Define the op that runs a node, unless it is there, and return its name."""
    domain = op_names.canonical_domain(node.domain)
    suffix = f".{domain}" if domain else ""
    entry = catalog_names.node_entry(node, version)
    assert entry is not None  # noqa: S101  # the caller has asked `misuse`
    # The class of an old version has it in its name: Gemm_1 beside Gemm_6.
    op_type = entry.op_class.__name__ if entry.versions else node.op_type
    name = f"{CATALOG_DOMAIN}{suffix}::{op_type}"
    _define(entry, name)
    return name


def redefine_catalog_op(node: NodeProto) -> None:
    """Define the op of a node that was filled before, perhaps in another process."""
    domain = node.domain.removeprefix(CATALOG_DOMAIN).removeprefix(".")
    entry = find_entry(f"{domain}::{node.op_type}", len(node.input))
    if entry is None:
        entry = _old_entry(node.op_type)
    if entry is not None:
        _define(entry, f"{node.domain}::{node.op_type}")


def is_for_version(node: NodeProto, version: int | None) -> bool:
    """Tell whether the catalog has a node's operator in its old version.

    It has the old versions that the ONNX reference runs wrongly.
    """
    entry = catalog_names.node_entry(node, version)
    return entry is not None and bool(entry.versions)


def op_named(name: str, inputs: int | None = None) -> Op | None:
    """Define the op of an operator by its name, unless it is defined, and return it.

    Parameters
    ----------
    name : str
        ``domain::op``, as in model files.
    inputs : int, optional
        How many it gets, where namesakes differ in that; without it, the first of them.

    Returns
    -------
    Op or None
        In the domain of `CATALOG_DOMAIN`, so that plain sessions see no op of that name; None if
        the catalog does not have it, or only versions of it that no new model has.
    """
    domain, op_type = op_names.split_name(name if "::" in name else f"::{name}")
    for entry in entries_named(f"{domain}::{op_type}"):
        if not entry.versions and (inputs is None or entry.takes(inputs)):
            suffix = f".{domain}" if domain else ""
            local = f"{CATALOG_DOMAIN}{suffix}::{op_type}"
            _define(entry, local)
            return registry[local]
    return None


def _old_entry(class_name: str) -> Entry | None:
    for entry in entries():
        if entry.versions and entry.op_class.__name__ == class_name:
            return entry
    return None


def is_catalog_domain(domain: str) -> bool:
    """Tell whether a node of this domain was filled from the catalog."""
    return domain == CATALOG_DOMAIN or domain.startswith(f"{CATALOG_DOMAIN}.")


def _define(entry: Entry, name: str) -> None:
    # A second definition would be a new version.
    if registry.find(*op_names.split_name(name)) is None:
        registry.define(entry.op_class, name, source=class_texts.class_source(entry.op_class))
