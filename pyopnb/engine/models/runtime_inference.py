"""Infer the output types of operators that only the runtime knows, by their type variables.

The operators of ``com.microsoft`` are the most common ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import NodeProto, TypeProto

from pyopnb.engine.models.names import LARGEST_VERSION
from pyopnb.engine.models.ort_capabilities import Operator, operator_at, port_at, schema_domains
from pyopnb.engine.models.ort_types import proto_of
from pyopnb.engine.ops.op_names import canonical_domain

__all__ = ["infer_by_variables", "runtime_operator"]


def runtime_operator(node: NodeProto, versions: Mapping[str, int]) -> Operator | None:
    """Return the runtime operator of a node, in the version that is imported of its domain."""
    domain = canonical_domain(node.domain)
    if domain not in schema_domains():
        return None
    return operator_at(domain, node.op_type, versions.get(domain, LARGEST_VERSION))


def infer_by_variables(operator: Operator, context: Any) -> None:
    """Give outputs the element type of inputs with the same type variable.

    Nothing is known of their shapes.
    """
    bound: dict[str, TypeProto] = {}
    for number in range(context.get_num_inputs()):
        port, input_type = port_at(operator.inputs, number), context.get_input_type(number)
        if port is not None and port.homogeneous and input_type is not None:
            bound.setdefault(port.type, input_type)
    for number in range(context.get_num_outputs()):
        port = port_at(operator.outputs, number)
        if port is None or not port.homogeneous:
            continue
        # A port has a type variable, or a type in the runtime notation.
        output_type = proto_of(port.type)
        if port.type in bound:
            output_type.tensor_type.elem_type = bound[port.type].tensor_type.elem_type
        if output_type.tensor_type.elem_type:
            context.set_output_type(number, output_type)
