"""Find the functions that define ONNX operators, and make models that call one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import EncodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

__all__ = ["function_of", "model_of_call"]

_DOMAIN = "pyopnb.body"


def function_of(
    schema: Any, node: NodeProto, types: Sequence[TypeProto], version: int
) -> tuple[FunctionProto, int] | None:
    """Return the newest function that defines a node's operator in a version of its domain.

    Parameters
    ----------
    schema : onnx.defs.OpSchema
    types : sequence of TypeProto
        The types of its inputs; empty for one that is omitted or unknown.

    Returns
    -------
    tuple of FunctionProto and int, or None
        The function, and the version that it was written for.
    """
    versions = schema.function_opset_versions
    if schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
    since = max((v for v in versions if v <= version), default=None)
    if since is None:
        return None
    if not schema.has_context_dependent_function:
        return FunctionProto.FromString(schema.get_function_with_opset_version(since)), since
    texts = [proto_type.SerializeToString() for proto_type in types]
    try:
        data = schema.get_context_dependent_function_with_opset_version(
            since, node.SerializeToString(), texts
        )
    except (EncodeError, ValueError, RuntimeError):
        # ONNX has no function for these attrs or types.
        return None
    return (FunctionProto.FromString(bytes(data)), since) if data else None


def model_of_call(
    node: NodeProto,
    schema: Any,
    body: FunctionProto,
    types: Sequence[TypeProto],
    versions: Mapping[str, int],
) -> ModelProto:
    """Return a model that calls a function with a node's attributes, inputs and outputs.

    Parameters
    ----------
    schema : onnx.defs.OpSchema
        Of its operator.
    body : FunctionProto
        It is changed.
    types : sequence of TypeProto
        Of the node's inputs.
    versions : mapping
        Domain to version.
    """
    call = NodeProto()
    call.CopyFrom(node)
    call.domain = body.domain = _DOMAIN
    call.op_type = body.name
    del call.metadata_props[:]
    # An attribute that the node leaves out has the operator's default.
    names = {*body.attribute, *(attribute.name for attribute in body.attribute_proto)}
    present = {attribute.name for attribute in node.attribute}
    for name, attr in schema.attributes.items():
        if name in names - present and attr.default_value.name:
            call.attribute.append(attr.default_value)
    inputs = {}
    for name, proto_type in zip(node.input, types, strict=True):
        if name:
            inputs[name] = ValueInfoProto(name=name, type=proto_type)
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return ModelProto(
        ir_version=10,
        opset_import=[*imports, helper.make_opsetid(_DOMAIN, 1)],
        graph=GraphProto(name="body", node=[call], input=inputs.values(), output=outputs),
        functions=[body],
    )
