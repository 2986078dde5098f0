"""Copies of models that compute in float64."""

from __future__ import annotations

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

__all__ = ["widen"]

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
# Attributes that name a dtype. Normalizations keep theirs (stash_type), as onnx
# implements one value only.
_DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def widen(model: ModelProto) -> ModelProto:
    """Copy a model with float64 in place of each narrower float type.

    Parameters
    ----------
    model : ModelProto
        With the data of its initializers.

    Returns
    -------
    ModelProto
        For the reference implementation: ONNX Runtime has few kernels in float64.
    """
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        del function.value_info[:]
        for node in function.node:
            _widen_node(node)
    return wide


def _widen_graph(graph: GraphProto) -> None:
    # Declared types of intermediate tensors would contradict their new types.
    del graph.value_info[:]
    for info in (*graph.input, *graph.output):
        _widen_type(info.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        _widen_node(node)


def _widen_type(proto: TypeProto) -> None:
    if proto.HasField("tensor_type"):
        if proto.tensor_type.elem_type in _NARROW:
            proto.tensor_type.elem_type = TensorProto.DOUBLE
    elif proto.HasField("sequence_type"):
        _widen_type(proto.sequence_type.elem_type)
    elif proto.HasField("optional_type"):
        _widen_type(proto.optional_type.elem_type)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _NARROW:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widen_node(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            # A Constant of these would always be float32, also for other readers.
            array = np.asarray(helper.get_attribute_value(attribute), np.float64)
            value = helper.make_attribute("value", numpy_helper.from_array(array))
            attribute.CopyFrom(value)
        elif attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _widen_graph(attribute.g)
        elif attribute.name in _DTYPE_ATTRIBUTES and attribute.i in _NARROW:
            attribute.i = TensorProto.DOUBLE
