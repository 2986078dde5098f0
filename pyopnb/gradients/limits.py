"""Keep onnx-ad from evaluating constants of a few bytes whose results would take all memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import onnx.shape_inference
from onnx import NodeProto, OperatorSetIdProto, helper, numpy_helper
from onnx_ad import expand, fold
from onnx_ad._graph import subgraphs

from pyopnb.engine.models.nodes import type_of_proto
from pyopnb.gradients.ranks import types_of

__all__ = ["bound", "expand_functions"]

_MAX_FOLDED = 4096
"""Elements of a constant that onnx-ad evaluates; it throws larger ones away."""

_NAMES = "CenterCropPad Col2Im ConstantOfShape EyeLike Expand OneHot Pad Range Resize Tile Upsample"
_GROWING = frozenset(_NAMES.split())
"""Operators whose outputs can be larger than all their inputs together."""


def bound(function: FunctionType, **names: object) -> FunctionType:
    """Copy a function so that it sees other values under names of its module."""
    scope = {**function.__globals__, **names}
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    return FunctionType(code, scope, function.__name__, defaults, closure)


def _evaluate(
    evaluator: Any,
    node: NodeProto,
    values: Mapping[str, np.ndarray],
    opset: Sequence[OperatorSetIdProto],
) -> list[np.ndarray] | None:
    """Evaluate a node of constants as onnx-ad does, unless its output may be too large to keep."""
    if subgraphs(node):
        return None
    if node.op_type in _GROWING and not _is_small(node, values, opset):
        return None
    evaluated: list[np.ndarray] | None = fold._evaluate(evaluator, node, values, opset)
    return evaluated


def _is_small(
    node: NodeProto, values: Mapping[str, np.ndarray], opset: Sequence[OperatorSetIdProto]
) -> bool:
    tensors = [numpy_helper.from_array(values[name], name) for name in node.input if name]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "node", [], outputs, tensors)
    model = helper.make_model(graph, opset_imports=list(opset))
    typed = onnx.shape_inference.infer_shapes(model)
    size = 1
    for dim in type_of_proto(types_of(typed.graph)[node.output[0]]).shape or (None,):
        if not isinstance(dim, int):
            return False
        size *= dim
    return size <= _MAX_FOLDED


_fold_once = bound(fold._fold_once, _evaluate=_evaluate)
_fold_constants = bound(fold.fold_constants, _fold_once=_fold_once)
expand_functions = bound(expand.expand_functions, fold_constants=_fold_constants)
"""onnx-ad's `expand_functions`, which here evaluates no node with a large output."""
