"""The documentation of a model's ops in Netron's sidebar: Netron's own of ONNX's operators, and ours from the classes."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import ModelProto

from pyopnb.models.nodes import walk
from pyopnb.ops.op import Op
from pyopnb.ops.registry import registry
from pyopnb.ops.schema import REQUIRED, Attr, Port
from pyopnb.ops.types import ANY, TensorType

__all__ = ["document_ops"]


def document_ops(model: ModelProto, known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The documentation of the ops that a model uses.

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
    used = {(site.node.domain or "ai.onnx", site.node.op_type) for site in walk(model)}
    imported: dict[str, int] = {}
    for opset in (
        *model.opset_import,
        *(opset for function in model.functions for opset in function.opset_import),
    ):
        domain = opset.domain or "ai.onnx"
        imported[domain] = max(imported.get(domain, 0), opset.version)
    ours = {key: op for key in used if (op := registry.find(*key)) is not None}
    # Of several versions Netron shows the newest that is not newer than the model's import. Of ours the current one would run.
    entries: dict[object, dict[str, Any]] = {}
    for entry in known:
        key = (entry.get("module"), entry.get("name"))
        if (
            key in used
            and key not in ours
            and entry.get("version", 0) <= imported.get(str(entry.get("module")), 0)
        ):
            entries[key] = max(
                entries.get(key, entry), entry, key=lambda entry: entry.get("version", 0)
            )
    return [
        *entries.values(),
        *(
            _entry_of(op, domain, imported.get(domain, 0))
            for (domain, _), op in sorted(ours.items())
        ),
    ]


def _entry_of(op: Op, domain: str, version: int) -> dict[str, Any]:
    schema = op.current.schema
    entry: dict[str, Any] = {
        "name": op.op_type,
        "module": domain,
        "version": version,
        "description": "\n\n".join(_paragraphs(op)),
        "attributes": [_attr(attr) for attr in schema.attrs],
        "inputs": [_port(port) for port in schema.inputs],
    }
    if schema.outputs is not None:
        entry["outputs"] = [
            {"name": f"output {place}", **_type_entry(kind)}
            for place, kind in enumerate(schema.outputs)
        ]
    return entry


def _paragraphs(op: Op) -> Iterator[str]:
    schema = op.current.schema
    if schema.doc:
        yield html.escape(
            schema.doc, quote=False
        )  # Netron renders Markdown, in which < starts a tag
    yield f"{op.name}, version {op.current.number} in Python."
    if schema.open_attrs:
        yield "Takes any further attribute."


def _attr(attr: Attr) -> dict[str, Any]:
    sentences = [] if attr.default is REQUIRED else [f"Default: {attr.default!r}."]
    sentences += [f"One of {', '.join(map(repr, attr.choices))}."] if attr.choices else []
    return {
        "name": attr.name,
        "type": attr.kind,
        "required": attr.default is REQUIRED,
        "description": html.escape(" ".join(sentences) or "Required.", quote=False),
    }


def _port(port: Port) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": port.name, **_type_entry(port.type)}
    if port.variadic:
        entry |= {"list": True, "option": "variadic"}
    elif port.optional:
        entry["option"] = "optional"
    return entry


def _type_entry(kind: TensorType) -> dict[str, str]:
    return {} if kind == ANY else {"type": str(kind)}
