"""The part of a model between some of its tensors, as a model that runs by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onnx import GraphProto, ModelProto, ValueInfoProto, helper

from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.errors import InputError
from pyopnb.models.io import ModelSource, read_model, to_model
from pyopnb.models.nodes import type_proto
from pyopnb.models.types import Types
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import closest, hide_internal_frames, sanitize
from pyopnb.ops.types import type_of
from pyopnb.traces.trace import Trace, model_with_weights

__all__ = ["ModelCut", "cut_out", "extract"]


class ModelCut(NamedTuple):
    """A part of a model, and its feeds in a trace.

    Attributes
    ----------
    model : ModelProto
    feeds : dict
        Arrays by the names of its inputs; empty if it was not cut from a trace.
    """

    model: ModelProto
    feeds: dict[str, Any]


@hide_internal_frames
@check_arguments
def extract(
    model: Any,
    inputs: str | Sequence[str] | None = None,
    outputs: str | Sequence[str] | None = None,
) -> ModelCut:
    """Cut out the nodes between some tensors, as a model of its own.

    Parameters
    ----------
    model : ModelProto, bytes, path, Session or Trace
        From a trace, the cut gets its feeds as well.
    inputs : str or sequence of str, optional
        Tensors that become inputs; any that the outputs do not depend on are left out. If the nodes
        also read inputs of the model itself, these stay inputs.
    outputs : str or sequence of str, optional
        Tensors that become outputs; by default, the model's own outputs.

    Returns
    -------
    ModelCut
        ``model`` and ``feeds``, so that ``pyopnb.run(*extract(trace, "a", "y"))`` runs it.

    Raises
    ------
    InputError
        There is no such tensor, no node makes it, its type is unknown without a trace, or the
        trace does not have it.
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
    return cut_out(read_model(model), None, inputs, outputs)


def cut_out(
    source: ModelSource,
    values: Mapping[str, Any] | Trace | None,
    inputs: str | Sequence[str] | None,
    outputs: str | Sequence[str] | None,
) -> ModelCut:
    """Cut out the nodes between some tensors of a model that it may modify; see `extract`.

    Parameters
    ----------
    source : ModelSource
    values : mapping or Trace, optional
        The tensors' values in a run, which become the feeds of the cut.
    inputs, outputs : str or sequence of str, optional
    """
    proto = source.proto.graph
    graph = TraceGraph(source.proto)
    types = Types(source.proto)
    cuts = _checked("inputs", inputs, [*graph.inputs, *graph.producer], graph.inputs)
    results = _checked("outputs", outputs, list(graph.producer), graph.outputs)
    segment = graph.between(results, cuts)
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
    nodes = [graph.nodes[position] for position in segment.nodes]
    made_names = {name for node in nodes for name in node.output}
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
        value_info=[info for info in proto.value_info if info.name in made_names],
        sparse_initializer=sparse_weights,
    )
    proto.CopyFrom(part)
    return ModelCut(to_model(source), feeds)


def _checked(
    parameter: str, names: str | Sequence[str] | None, known: list[str], default: Sequence[str]
) -> list[str]:
    """List the names of an argument, each of which must be known."""
    if names is None:
        return list(default)
    if isinstance(names, str):
        names = [names]
    for name in names:
        if name not in known:
            advice = closest(str(name), known)
            got = sanitize(repr(name), 80)
            expected = "the name of a tensor that a node makes"
            raise InputError(
                f"extract, {parameter}", expected=expected, got=got, next=advice and repr(advice)
            )
    if not names:
        raise InputError(f"extract, {parameter}", expected="at least one name", got="none")
    return list(dict.fromkeys(names))


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
        info.type.CopyFrom(type_proto(type_of(feeds[name])))
    return info
