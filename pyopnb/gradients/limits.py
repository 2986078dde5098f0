"""Keep constants of a few bytes from becoming tensors that take all memory.

onnx-ad evaluates nodes whose inputs are constants, and ONNX's inference of data writes out each
element of an int64 vector: a ConstantOfShape of 10**12 ends the process in either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import onnx.shape_inference
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)
from onnx_ad import expand, fold
from onnx_ad._graph import all_constants, captures

from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import types_of
from pyopnb.models.nodes import bodies, nodes_in, type_of_proto, walk
from pyopnb.models.op_inference import infer_types

__all__ = ["bound", "check_sizes", "expand_functions", "sizes_at_run_time"]

_MAX_ELEMENTS = 2**28
"""Elements of a tensor that a node makes: 1 GB of float32."""

_MAX_SHAPE = 2**22
"""Elements of a vector of integers, which inference takes for a shape and writes out."""

_MAX_FOLDED = 4096
"""Elements of a constant that onnx-ad evaluates; it throws larger ones away."""

_GROWING = frozenset(
    (
        *("CenterCropPad", "Col2Im", "Concat", "ConstantOfShape", "EyeLike", "Expand", "OneHot"),
        *("Pad", "RandomNormal", "RandomUniform", "Range", "Resize", "Tile", "Upsample"),
    )
)
"""Operators whose outputs can be larger than all their inputs together."""


def bound(function: FunctionType, **names: object) -> FunctionType:
    """Copy a function so that it sees other values under names of its module."""
    scope = {**function.__globals__, **names}
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    return FunctionType(code, scope, function.__name__, defaults, closure)


def check_sizes(model: ModelProto) -> None:
    """Refuse a model in which a node makes a tensor that no memory has room for.

    Parameters
    ----------
    model : ModelProto
        With the types of its tensors, as `with_ranks` gives it.

    Raises
    ------
    ModelError
    """
    _check_declared(model)
    # Sizes that are computed of constants are known only once these are evaluated.
    if _has_growing(model.graph):
        _check_folded(model, inferred=True)


def sizes_at_run_time(model: ModelProto) -> bool:
    """Tell whether a node may make a tensor whose size only a run tells."""
    for site in walk(model):
        # Concat is among the growing operators, and as large as its inputs together.
        if site.node.op_type not in _GROWING or site.node.op_type == "Concat":
            continue
        if not isinstance(site.scope, GraphProto):
            return True
        types = types_of(site.scope)
        if any(_size(types.get(name)) is None for name in site.node.output):
            return True
    return False


def _has_growing(graph: GraphProto) -> bool:
    return any(node.op_type in _GROWING for node in nodes_in(graph))


def _check_folded(model: ModelProto, inferred: bool) -> None:
    """Check a graph whose constant nodes are evaluated, then each body as if it were a model."""
    folded = _fold_constants(model)
    if folded is not model or not inferred:
        _check_declared(infer_types(folded))
    # A body reads constants of the graphs around it by their names, which are distinct.
    constants = all_constants(folded.graph)
    for node in folded.graph.node:
        for body in bodies(node):
            if not _has_growing(body):
                continue
            inner = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
            inner.graph.CopyFrom(body)
            for name in captures(body) & constants.keys():
                inner.graph.initializer.append(numpy_helper.from_array(constants[name], name))
            _check_folded(inner, inferred=False)


def _check_declared(model: ModelProto) -> None:
    """Refuse a node whose output is declared, or inferred, to be too large."""
    types_by_graph: dict[int, Mapping[str, TypeProto]] = {}
    for site in walk(model):
        if not isinstance(site.scope, GraphProto):
            continue
        # A graph has many nodes, and its types are read once.
        if id(site.scope) not in types_by_graph:
            types_by_graph[id(site.scope)] = types_of(site.scope)
        types = types_by_graph[id(site.scope)]
        for name in site.node.output:
            size = _size(types.get(name))
            if size is None:
                continue
            limit = _limit(types[name])
            if size > limit:
                expected = f"an output of at most {limit:,} elements"
                raise ModelError(site.where, expected=expected, got=f"{size:,}")


def _limit(tensor_type: TypeProto) -> int:
    # Inference of data writes out each element of what may be a shape.
    tensor = tensor_type.tensor_type
    is_shape = tensor.elem_type in (TensorProto.INT64, TensorProto.INT32)
    return _MAX_SHAPE if is_shape and len(tensor.shape.dim) == 1 else _MAX_ELEMENTS


def _size(tensor_type: TypeProto | None) -> int | None:
    """Count the elements of a type; None where a dimension is not known."""
    if tensor_type is None or tensor_type.WhichOneof("value") != "tensor_type":
        return None
    shape = type_of_proto(tensor_type).shape
    if shape is None:
        return None
    size = 1
    for dimension in shape:
        if not isinstance(dimension, int):
            return None
        size *= dimension
    return size


def _evaluate(
    evaluator: Any,
    node: NodeProto,
    values: Mapping[str, np.ndarray],
    opset: Sequence[onnx.OperatorSetIdProto],
) -> list[np.ndarray] | None:
    """Evaluate a node of constants as onnx-ad does, unless its output is too large to keep."""
    if node.op_type in ("Loop", "Scan") or not _stays_small(node, values, opset):
        return None
    evaluated: list[np.ndarray] | None = fold._evaluate(evaluator, node, values, opset)
    return evaluated


def _stays_small(
    node: NodeProto, values: Mapping[str, np.ndarray], opset: Sequence[onnx.OperatorSetIdProto]
) -> bool:
    inner = [site.node for site in walk(_model_of(node, {}, opset))]
    if not any(node.op_type in _GROWING for node in inner):
        return True
    # A node in a body: _check_folded has looked into it, and nothing is gained by evaluating it.
    if len(inner) > 1:
        return False
    constants = {name: values[name] for name in node.input if name}
    try:
        typed = onnx.shape_inference.infer_shapes(_model_of(node, constants, opset))
    except onnx.shape_inference.InferenceError:
        return False
    types = types_of(typed.graph)
    for name in filter(None, node.output):
        size = _size(types.get(name))
        if size is None or size > _MAX_FOLDED:
            return False
    return True


def _model_of(
    node: NodeProto,
    constants: Mapping[str, np.ndarray],
    opset: Sequence[onnx.OperatorSetIdProto],
) -> ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", [], outputs, tensors)
    return helper.make_model(graph, opset_imports=list(opset))


_fold_once = bound(fold._fold_once, _evaluate=_evaluate)
_fold_constants = bound(fold.fold_constants, _fold_once=_fold_once)
expand_functions = bound(expand.expand_functions, fold_constants=_fold_constants)
"""onnx-ad's, which evaluates no node whose output is large."""
