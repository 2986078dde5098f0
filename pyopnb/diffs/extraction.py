"""The part of a model between some of its tensors, as a model that runs by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from pyopnb.common import messages, sanitize
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.engine import (
    ModelSource,
    check_arguments,
    model_files,
    op_names,
    protos,
    to_model,
    type_of,
)
from pyopnb.errors import InputError
from pyopnb.models import Types
from pyopnb.traces import Trace, model_with_weights

__all__ = ["ModelCut", "cut_out", "extract"]


class ModelCut(NamedTuple):
    """A part of a model, and its feeds in a trace.

    Attributes
    ----------
    model : ModelProto
        The part; its inputs and outputs are the places of the cuts.
    feeds : dict
        Arrays by the names of its inputs; empty if it was not cut from a trace.
    """

    model: ModelProto
    feeds: dict[str, Any]


@check_arguments
def extract(
    model: Any,
    inputs: str | Sequence[str] | None = None,
    outputs: str | Sequence[str] | None = None,
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> ModelCut:
    """Cut out the nodes between some tensors, as a model of its own.

    Parameters
    ----------
    model : ModelProto, bytes, path, Session or Trace
        From a trace, the cut also gets its feeds.
    inputs : str or sequence of str, optional
        Tensors that become inputs; any that the outputs do not depend on are left out. If the nodes
        also read inputs of the model itself, these stay inputs.
    outputs : str or sequence of str, optional
        Tensors that become outputs; by default, the model's own outputs.
    base_dir : path, optional
        The folder of the external data of a model in memory.

    Returns
    -------
    ModelCut
        ``model`` and ``feeds``, so that ``pyopnb.run(*extract(trace, "a", "y"))`` runs it.

    Raises
    ------
    InputError
        There is no such tensor, no node makes it, its type is unknown without a trace, the trace
        does not have it, or inputs and outputs are in each other's place.
    ModelError
        The model cannot be used.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  b = Neg(a)  y = Exp(b) }")
    >>> cut, feeds = extract(pyopnb.trace(model, x=np.float32([-1, 2])), "a", "b")
    >>> [node.op_type for node in cut.graph.node], feeds
    (['Neg'], {'a': array([1., 2.], dtype=float32)})
    """
    if isinstance(model, Trace):
        return cut_out(ModelSource(model_with_weights(model)), model, inputs, outputs)
    return cut_out(model_files.read_model(model, base_dir), None, inputs, outputs)


def cut_out(
    source: ModelSource,
    values: Mapping[str, Any] | Trace | None,
    inputs: str | Sequence[str] | None,
    outputs: str | Sequence[str] | None,
) -> ModelCut:
    """Cut out the nodes between some tensors of a model that it may modify; see `extract`.

    Parameters
    ----------
    values : mapping or Trace, optional
        The tensors' values in a run, which become the feeds of the cut.
    """
    proto = source.proto.graph
    graph = TraceGraph(source.proto)
    types = Types(source.proto)
    known = [*graph.inputs, *graph.producer]
    cuts = _checked("inputs", inputs, known, graph.inputs, proto)
    results = _checked("outputs", outputs, list(graph.producer), graph.outputs, proto)
    segment = graph.between(results, cuts)
    if inputs is not None and set(cuts).isdisjoint(segment.ends):
        _refuse_reversed(graph, cuts, results)
    # In the order in which they were asked for.
    names = [name for name in cuts if name in segment.ends]
    names += [name for name in segment.ends if name not in cuts]
    feeds = {}
    if values is not None:
        for name in names:
            feeds[name] = _recorded(values, name)
    inputs_infos = [_info(proto, types, name, feeds) for name in names]
    # An exporter declares few types of tensors between nodes, and no session takes
    # an input without one.
    for info in inputs_infos:
        if not info.HasField("type"):
            advice = "pyopnb.extract(pyopnb.trace(model, x), inputs, outputs)"
            got = f"{sanitize(info.name, 60)}, of unknown type"
            raise InputError("extract, inputs", expected="typed tensors", got=got, next=advice)
    taken = {*graph.inputs, *graph.producer, *graph.weights}
    unread = {
        name: op_names.fresh_name(f"{name}_unread", taken) for name in names if name not in results
    }
    nodes = [_renamed(graph.nodes[position], unread) for position in segment.nodes]
    made_names = {name for node in nodes for name in node.output}.difference(results)
    # ONNX Runtime cannot infer all types, and the model may declare them for its outputs only.
    declared = [info for info in (*proto.value_info, *proto.output) if info.name in made_names]
    weights = [tensor for tensor in proto.initializer if tensor.name in segment.weights]
    sparse_weights = [
        tensor for tensor in proto.sparse_initializer if tensor.values.name in segment.weights
    ]
    part = helper.make_graph(
        nodes,
        proto.name,
        inputs_infos,
        [_info(proto, types, name, {}) for name in results],
        initializer=weights,
        value_info=declared,
        sparse_initializer=sparse_weights,
    )
    proto.CopyFrom(part)
    return ModelCut(to_model(source), feeds)


def _checked(
    parameter: str,
    names: str | Sequence[str] | None,
    known: list[str],
    default: Sequence[str],
    graph: GraphProto,
) -> list[str]:
    """List the names of an argument, each of which must be known."""
    if names is None:
        return list(default)
    if isinstance(names, str):
        names = [names]
    for name in names:
        if name not in known:
            holder = _holder(graph, str(name))
            advice = holder or messages.closest(str(name), known)
            got = sanitize(repr(name), 80)
            expected = "the name of a tensor that a node makes"
            if holder:
                expected = "a tensor of the main graph"
                got = f"{got}, in a body of the node of output '{sanitize(holder)}'"
            raise InputError(
                f"extract, {parameter}", expected=expected, got=got, next=advice and repr(advice)
            )
    if not names:
        advice = 'extract(trace, None, "y")'
        raise InputError(
            f"extract, {parameter}", expected="at least one name", got="none", next=advice
        )
    return list(dict.fromkeys(names))


def _refuse_reversed(graph: TraceGraph, cuts: list[str], results: list[str]) -> None:
    """Raise if the inputs depend on the outputs, which were typed in their place."""
    made = [name for name in cuts if name in graph.producer]
    if set(graph.between(made, results).ends).isdisjoint(results):
        return
    raise InputError(
        "extract, inputs",
        expected=f"tensors that {', '.join(results)} depends on",
        got=", ".join(cuts),
        next=f"extract(model, inputs={results}, outputs={cuts})",
    )


def _holder(graph: GraphProto, name: str) -> str:
    """Return the first output of the node in whose bodies a tensor is; empty if in none."""
    # In a trace, it is called "loop/body/t[0]".
    inner_name = name.rpartition("/")[2].partition("[")[0]
    for node in graph.node:
        for body in protos.bodies(node):
            if any(inner_name in inner.output for inner in protos.nodes_in(body)):
                return protos.first_output(node)
    return ""


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """Copy a node with other names for outputs that are inputs of the cut.

    A node that gives one of them can be needed for another of its outputs.
    """
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [names.get(name, name) for name in node.output]
    return copy


def _recorded(values: Mapping[str, Any] | Trace, name: str) -> Any:
    if name not in values:
        got = f"no {sanitize(name, 60)}"
        advice = "pyopnb.trace(model, x)"
        raise InputError("extract", expected="a trace with it", got=got, next=advice)
    return values[name]


def _info(graph: GraphProto, types: Types, name: str, feeds: dict[str, Any]) -> ValueInfoProto:
    """Declare a tensor with its known type, or else with its recorded one."""
    info = ValueInfoProto(name=name)
    declared = types.find(graph, name)
    if declared is not None and declared.WhichOneof("value") is not None:
        info.type.CopyFrom(declared)
    elif name in feeds:
        info.type.CopyFrom(protos.type_proto(type_of(feeds[name])))
    return info
