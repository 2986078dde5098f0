"""What ONNX knows of a node beyond the runtime's lists: the types of its outputs, and the function that defines it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, FunctionProto, NodeProto, SparseTensorProto, TypeProto

from pyopnb.errors import ModelError
from pyopnb.models.attribute_limits import check_nodes, with_inner
from pyopnb.models.names import LARGEST_VERSION
from pyopnb.models.nodes import constant_value, is_constant
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.ort_capabilities import Operator, operator_at
from pyopnb.models.support.kernels import Kinds, port_at
from pyopnb.models.support.ort_types import kind_of, proto_of, tensor_kind

__all__ = ["declared_outputs", "defaults_of", "function_of", "infer_node"]


def declared_outputs(node: NodeProto, operator: Operator, kinds: Kinds) -> list[str | None]:
    """Return the types of a node's outputs as far as they follow from the operator's type variables."""
    if is_constant(node):
        # The runtime makes an initializer of it before it looks for any kernel.
        value = constant_value(node)
        if value is None:
            return [None]
        tensor = value.values if isinstance(value, SparseTensorProto) else value
        return [tensor_kind(tensor.data_type)]
    # Inputs bind the type variables, and outputs of the same variable have that type.
    bound: dict[str, str] = {}
    for number, type_text in enumerate(kinds):
        port = port_at(operator.inputs, number)
        if type_text and port and port.homogeneous:
            bound.setdefault(port.type, type_text)
    outputs: list[str | None] = []
    for number, name in enumerate(node.output):
        port = port_at(operator.outputs, number)
        if not name or port is None or not port.homogeneous:
            outputs.append("" if not name else None)
        else:
            outputs.append(port.type if "(" in port.type else bound.get(port.type))
    return outputs


def infer_node(
    schema: Any, node: NodeProto, types: Mapping[str, TypeProto], versions: Mapping[str, int]
) -> list[str | None]:
    """Return the types of a node's outputs as ONNX infers them for this node alone; None where it cannot.

    The whole model never goes through ONNX's inference here: that copies every weight, fails above 2 GB and at nested
    functions, and one wrong shape would end it for all nodes.
    """
    from onnx.shape_inference import InferenceError, infer_node_outputs

    try:
        check_nodes(with_inner(node))
    except ModelError:
        return [None] * len(node.output)
    imports = [
        onnx.helper.make_opsetid(domain, min(version, LARGEST_VERSION))
        for domain, version in versions.items()
    ]
    # The declared shapes make some types known, as of a sequence's items, and can contradict each
    # other.
    for exact in (True, False):
        input_types = dict(types)
        if not exact:
            for name, proto_type in types.items():
                input_types[name] = proto_of(kind_of(proto_type) or "")
        try:
            outputs = infer_node_outputs(schema, node, input_types, opset_imports=imports)
        except (
            InferenceError,
            onnx.checker.ValidationError,
            EncodeError,
            ValueError,
            RuntimeError,
        ):
            # Contradictory shapes: try again with the dtypes alone.
            continue
        kinds = {name: kind_of(proto_type) for name, proto_type in outputs.items()}
        return [kinds.get(name) for name in node.output]
    return [None] * len(node.output)


def function_of(
    node: NodeProto, operator: Operator, types: Sequence[TypeProto], version: int
) -> FunctionProto | None:
    """Return the function by which ONNX defines an operator, as the runtime would inline it; None where there is none.

    Parameters
    ----------
    node : NodeProto
    operator : Operator
    types : sequence of TypeProto
        Of the node's inputs.
    version : int
        Of the operator's domain, as the model imports it.
    """
    schema = find_schema(operator.domain, node.op_type, operator.since)
    if schema is None or schema.since_version != operator.since:
        # The installed onnx is older than the runtime and has another operator under this name.
        return None
    if schema.has_context_dependent_function:
        since = _newest(schema.context_dependent_function_opset_versions, version)
        if since is None:
            return None
        return _context_dependent(schema, since, node, types)
    since = _newest(schema.function_opset_versions, version)
    if since is None or not schema.has_function:
        return None
    body: FunctionProto = FunctionProto.FromString(schema.get_function_with_opset_version(since))
    # As in the runtime: a function written for one version is valid in a later one while none of its operators changed.
    same = all(
        operator_at("", n.op_type, since) is operator_at("", n.op_type, version)
        for n in body.node
        if not n.domain
    )
    return body if same else None


def _newest(versions: Sequence[int], version: int) -> int | None:
    return max((v for v in versions if v <= version), default=None)


def _context_dependent(
    schema: Any, since: int, node: NodeProto, types: Sequence[TypeProto]
) -> FunctionProto | None:
    try:
        function = schema.get_context_dependent_function_with_opset_version(
            since,
            node.SerializeToString(),
            [proto_type.SerializeToString() for proto_type in types],
        )
    except (EncodeError, ValueError, RuntimeError):
        # ONNX has no function for these attrs, and the runtime gets none either.
        return None
    body: FunctionProto = FunctionProto.FromString(bytes(function))
    return body if function else None


def defaults_of(operator: Operator) -> list[AttributeProto]:
    """Return the default attrs of the operator, for a node that leaves them out."""
    schema = find_schema(operator.domain, operator.op_type, operator.since)
    if schema:
        return [a.default_value for a in schema.attributes.values() if a.default_value.name]
    return []
