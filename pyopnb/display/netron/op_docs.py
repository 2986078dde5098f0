"""The documentation of a model's ops in Netron's sidebar: Netron's own of ONNX's operators, and ours from the classes."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from onnx import ModelProto

from pyopnb.models.nodes import imported_versions, walk
from pyopnb.ops.op import Op
from pyopnb.ops.registry import registry
from pyopnb.ops.schema import REQUIRED, Attr, Port
from pyopnb.ops.types import ANY, TensorType

__all__ = ["document_ops"]

# Netron calls the default domain so.
_ONNX = "ai.onnx"


def document_ops(model: ModelProto, known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Document the ops that a model uses.

    Parameters
    ----------
    model : ModelProto
    known : iterable of dict
        Netron's documentation of ONNX's operators.

    Returns
    -------
    list of dict
        Entries in Netron's format.
    """
    imported = {}
    for domain, version in imported_versions(model, *model.functions).items():
        imported[domain or _ONNX] = version
    used = {(site.node.domain or _ONNX, site.node.op_type) for site in walk(model)}
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in known:
        key = (entry["module"], entry["name"])
        version = entry.get("version", 0)
        # The newest version that is not newer than the model's import is the one that the model means.
        if key in used and version <= imported.get(key[0], 0):
            earlier = entries.get(key)
            if earlier is None or version > earlier.get("version", 0):
                entries[key] = entry
    for domain, op_type in sorted(used):
        op = registry.find(domain, op_type)
        # An op of the registry runs in its current version, whatever the model imports.
        if op is not None:
            entries[domain, op_type] = _entry_of(op, domain, imported.get(domain, 0))
    return list(entries.values())


def _entry_of(op: Op, domain: str, version: int) -> dict[str, Any]:
    schema = op.current.schema
    paragraphs = [f"{op.name}, version {op.current.number} in Python."]
    if schema.doc:
        # Netron renders Markdown, in which < starts a tag.
        paragraphs.insert(0, html.escape(schema.doc, quote=False))
    if schema.open_attrs:
        paragraphs.append("Takes any further attribute.")
    entry: dict[str, Any] = {
        "name": op.op_type,
        "module": domain,
        "version": version,
        "description": "\n\n".join(paragraphs),
        "attributes": [_attr(attr) for attr in schema.attrs],
        "inputs": [_port(port) for port in schema.inputs],
    }
    if schema.outputs is not None:
        entry["outputs"] = []
        for number, port_type in enumerate(schema.outputs):
            entry["outputs"].append({"name": f"output {number}", **_type_entry(port_type)})
    return entry


def _attr(attr: Attr) -> dict[str, Any]:
    is_required = attr.default is REQUIRED
    text = "Required." if is_required else f"Default: {attr.default!r}."
    if attr.choices:
        text += f" One of {', '.join(map(repr, attr.choices))}."
    return {
        "name": attr.name,
        "type": attr.kind,
        "required": is_required,
        "description": html.escape(text, quote=False),
    }


def _port(port: Port) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": port.name, **_type_entry(port.type)}
    if port.variadic:
        entry |= {"list": True, "option": "variadic"}
    elif port.optional:
        entry["option"] = "optional"
    return entry


def _type_entry(port_type: TensorType) -> dict[str, str]:
    return {} if port_type == ANY else {"type": str(port_type)}
