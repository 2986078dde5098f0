"""Netron's documentation of a model's operators: their input names, categories and texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnx import ModelProto

from pyopnb.engine import protos

__all__ = ["document_ops"]

# Netron's name for the default domain.
_ONNX = "ai.onnx"


def document_ops(model: ModelProto, known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Select the entries of the operators that a model uses, in the version that it means.

    Parameters
    ----------
    known : iterable of dict
        Netron's entries of the ONNX operators.
    """
    imported = {}
    for domain, version in protos.imported_versions(model, *model.functions).items():
        imported[domain or _ONNX] = version
    used = {(site.node.domain or _ONNX, site.node.op_type) for site in protos.walk(model)}
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in known:
        key = (entry["module"], entry["name"])
        version = entry.get("version", 0)
        # The newest version that is not newer than the model's import is the one
        # that the model means.
        if key in used and version <= imported.get(key[0], 0):
            earlier = entries.get(key)
            if earlier is None or version > earlier.get("version", 0):
                entries[key] = entry
    return list(entries.values())
