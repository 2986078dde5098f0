"""Changes to models that onnxruntime-extensions offers: a hook before a node, nodes before an input, a model around a graph."""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from pyopnb.errors import ModelError
from pyopnb.models.ort_capabilities import newest_opset
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.ortx.definitions import Opdef, default_opset_domain

__all__ = ["expand_onnx_inputs", "hook_model_op", "make_onnx_model"]


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
    nodes = list(model.graph.node)
    place = next((n for n, node in enumerate(nodes) if node.name == node_name), None)
    if place is None:
        names = [sanitize(node.name) for node in nodes if node.name]
        next_ = suggest(str(node_name), names) if names else "give the node a name"
        raise ModelError(
            "hook_model_op",
            expected="the name of a node",
            got=sanitize(repr(node_name)),
            next=next_,
        )
    node = nodes[place]
    given = list(dict.fromkeys(name for name in node.input if name))
    if len(given) != len(input_types):
        expected, got = f"{plural(len(given), 'dtype')}, one an input", str(len(input_types))
        raise ModelError(f"hook_model_op, node '{sanitize(node_name)}'", expected=expected, got=got)
    op_type = _hook_type(hook_func, node_name)
    Opdef.create(hook_func, op_type=op_type, inputs=list(input_types), outputs=list(input_types))
    hooked = {name: f"{name}_hkd" for name in given}
    hook = helper.make_node(
        op_type, given, list(hooked.values()), f"{node_name}_hkd", domain=default_opset_domain()
    )
    changed = NodeProto()
    changed.CopyFrom(node)
    changed.input[:] = [hooked.get(name, name) for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:place], hook, changed, *nodes[place + 1 :]])
    return _importing(model)


def _hook_type(hook_func: Callable[..., Any], node_name: str) -> str:
    name = f"op_{getattr(hook_func, '__name__', type(hook_func).__name__)}_{node_name}"
    plain = re.sub(r"\W", "_", name)
    # Names that differ only in what no op type can have are two ops.
    return plain if plain == name else f"{plain}_{zlib.crc32(name.encode()):08x}"


def expand_onnx_inputs(
    model: ModelProto,
    target_input: str,
    extra_nodes: Sequence[NodeProto],
    new_inputs: Sequence[ValueInfoProto],
) -> ModelProto:
    """Put nodes before a model that compute one of its inputs from new ones.

    Parameters
    ----------
    model : ModelProto
        It stays as it is.
    target_input : str
        The input that a node of ``extra_nodes`` computes.
    extra_nodes : sequence of NodeProto
    new_inputs : sequence of ValueInfoProto

    Returns
    -------
    ModelProto

    Raises
    ------
    ModelError
        The model has no input of that name.
    """
    names = [value.name for value in model.graph.input]
    if target_input not in names:
        next_ = suggest(str(target_input), map(sanitize, names))
        raise ModelError(
            "expand_onnx_inputs",
            expected="an input of the model",
            got=sanitize(repr(target_input)),
            next=next_,
        )
    expanded = copy.deepcopy(model)
    inputs = [value for value in model.graph.input if value.name != target_input]
    nodes = list(model.graph.node)
    del expanded.graph.input[:], expanded.graph.node[:]
    expanded.graph.input.extend([*inputs, *new_inputs])
    expanded.graph.node.extend([*extra_nodes, *nodes])
    return _importing(expanded)


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
    opset = opset_version or min(18, newest_opset())
    opsets = [
        helper.make_opsetid("ai.onnx", opset),
        helper.make_opsetid(extra_domain, extra_opset_version),
    ]
    ir_version = helper.find_min_ir_version_for(opsets[:1])
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def _importing(model: ModelProto) -> ModelProto:
    if all(entry.domain != default_opset_domain() for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(default_opset_domain(), 1))
    return model
