"""The IR version of a model, and its opset imports."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, helper

from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset, schema_domains
from pyopnb.engine.models.protos import imported_versions, nodes_in, walk
from pyopnb.engine.ops.names import canonical_domain
from pyopnb.engine.ops.registry import registry

__all__ = ["import_domains"]


def import_domains(model: ModelProto) -> None:
    """Add the IR version and the opset imports that a model lacks.

    The ONNX operators are imported in the newest version that the installed onnxruntime takes,
    domains of onnxruntime in their newest version, and other domains in the first version that has
    all their ops that occur.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    model.ir_version = model.ir_version or newest_ir_version()
    # Existing imports stay as they are, even if there are newer versions.
    imported = imported_versions(model).keys()
    versions = dict.fromkeys(imported, 0) | _versions(site.node for site in walk(model))
    if not imported:
        versions.setdefault("", newest_opset())
    for domain in sorted(versions.keys() - imported):
        model.opset_import.append(helper.make_opsetid(domain, versions[domain]))
    # onnx looks up a function's operators in the function's own imports.
    for function in model.functions:
        used = {canonical_domain(node.domain) for node in nodes_in(function)} - imported_versions(
            function
        ).keys()
        function.opset_import.extend(
            e for e in model.opset_import if canonical_domain(e.domain) in used
        )


def _versions(nodes: Iterable[NodeProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for node in nodes:
        domain = canonical_domain(node.domain)
        op = registry.find(domain, node.op_type)
        if not domain:
            least = newest_opset()
        else:
            least = schema_domains().get(domain, 1)
        versions[domain] = max(versions.get(domain, 1), least, op.current.opset if op else 1)
    return versions
