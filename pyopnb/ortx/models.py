"""Put a function before a node of a model, and build a model around a graph."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.ort_capabilities import newest_opset
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.ortx.definitions import Opdef, default_opset_domain

__all__ = ["hook_model_op", "make_onnx_model"]


def hook_model_op(
    model: ModelProto, node_name: str, hook_func: Callable[..., Any], input_types: Sequence[int]
) -> ModelProto:
    """Call a function with the inputs of a node, and give the node what it returns.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    node_name : str
    hook_func : callable
        Gets the inputs as arrays, and returns as many: a single one, or a tuple.
    input_types : sequence of int
        Their dtypes, as `PyCustomOpDef` has them.

    Returns
    -------
    ModelProto
        The same model.

    Raises
    ------
    ModelError
        The graph has no node of that name, or the node another number of inputs.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.model(pyopnb.node("Abs", "x", "y", name="abs"), {"x": "float32[N]"}, "y")
    >>> seen = []
    >>> model = hook_model_op(model, "abs", lambda x: seen.append(x) or x, [1])
    >>> pyopnb.run(model, x=[-1, 2])["y"], seen
    (array([1., 2.], dtype=float32), [array([-1.,  2.], dtype=float32)])
    """
    node = _named_node(model, node_name)
    # A tensor that the node reads twice goes through the hook once.
    inputs = list(dict.fromkeys(filter(None, node.input)))
    if len(inputs) != len(input_types):
        where = f"hook_model_op, node '{sanitize(node_name)}'"
        expected = f"{plural(len(inputs), 'dtype')}, one an input"
        raise ModelError(where, expected=expected, got=str(len(input_types)))
    op_type = _hook_type(hook_func, node_name)
    Opdef.create(hook_func, op_type=op_type, inputs=list(input_types), outputs=list(input_types))
    outputs = [f"{name}_hkd" for name in inputs]
    domain = default_opset_domain()
    hook = helper.make_node(op_type, inputs, outputs, f"{node_name}_hkd", domain=domain)
    hooked = dict(zip(inputs, outputs, strict=True))
    # ONNX wants nodes in order, so the hook goes right before its node.
    position = list(model.graph.node).index(node)
    node.input[:] = [hooked.get(name, name) for name in node.input]
    model.graph.node.insert(position, hook)
    domains = [entry.domain for entry in model.opset_import]
    if domain not in domains:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def _named_node(model: ModelProto, node_name: str) -> NodeProto:
    names = []
    node: NodeProto
    for node in model.graph.node:
        if node.name == node_name:
            return node
        if node.name:
            names.append(sanitize(node.name))
    raise ModelError(
        "hook_model_op",
        expected="the name of a node",
        got=sanitize(repr(node_name)),
        next=suggest(str(node_name), names) if names else "give the node a name",
    )


def _hook_type(hook_func: Callable[..., Any], node_name: str) -> str:
    name = f"op_{getattr(hook_func, '__name__', type(hook_func).__name__)}_{node_name}"
    op_type = re.sub(r"\W", "_", name)
    # Names that differ only in what no op type can have are two ops.
    return op_type if op_type == name else f"{op_type}_{zlib.crc32(name.encode()):08x}"


def make_onnx_model(
    graph: GraphProto,
    opset_version: int = 0,
    extra_domain: str = "ai.onnx.contrib",
    extra_opset_version: int = 1,
) -> ModelProto:
    """Build a model around a graph, in versions that the installed onnxruntime takes.

    Parameters
    ----------
    graph : GraphProto
    opset_version : int
        Of ONNX's own operators; 18 if 0, as onnxruntime-extensions has it.
    extra_domain : str
    extra_opset_version : int

    Returns
    -------
    ModelProto
    """
    # Models of onnxruntime-extensions are written so, whatever onnx is installed.
    opset = opset_version or min(18, newest_opset())
    opsets = [
        helper.make_opsetid("ai.onnx", opset),
        helper.make_opsetid(extra_domain, extra_opset_version),
    ]
    ir_version = helper.find_min_ir_version_for(opsets[:1])
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
