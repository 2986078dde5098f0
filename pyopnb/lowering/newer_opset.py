"""Convert models to the newer opset that one of their functions needs."""

from __future__ import annotations

import onnx.version_converter
from onnx import ModelProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import op_names, opset_versions, protos
from pyopnb.errors import NotLowered

__all__ = ["raise_opset"]


def raise_opset(proto: ModelProto, opset: int) -> ModelProto:
    """Return a model of at least this opset.

    ONNX Runtime runs no function of a newer opset than its model's.

    Parameters
    ----------
    proto : ModelProto
        With its weights. It is changed in place if only its opset number has to change.

    Returns
    -------
    ModelProto
        The model itself, or if an operator has changed its meaning, the result of onnx's
        converter.

    Raises
    ------
    NotLowered
        onnx cannot convert it.
    """
    version = protos.imported_versions(proto).get("", 0)
    if not version or version >= opset:
        return proto
    op_types = {
        site.node.op_type
        for site in protos.walk(proto)
        if not op_names.canonical_domain(site.node.domain)
    }
    if all(opset_versions.changed_in("", op_type, opset, version) is None for op_type in op_types):
        for scope in (proto, *proto.functions):
            for entry in scope.opset_import:
                if not op_names.canonical_domain(entry.domain):
                    entry.version = max(entry.version, opset)
        return proto
    try:
        converted = onnx.version_converter.convert_version(proto, opset)
    except Exception as error:  # the converter raises RuntimeError, and the onnx checker its own
        raise NotLowered(
            "lower of a model",
            expected=f"opset {opset}, which a form of its ops needs",
            got=f"opset {version}, which the onnx converter refuses: "
            f"{messages.one_line(sanitize(error, 300))}",
            next=f"export the model with opset {opset}",
        ) from None
    # The converter also infers types of the tensors that it adds, and some are wrong.
    known = {info.name for info in proto.graph.value_info}
    infos = [info for info in converted.graph.value_info if info.name in known]
    del converted.graph.value_info[:]
    converted.graph.value_info.extend(infos)
    converted.functions.extend(proto.functions)
    return converted
