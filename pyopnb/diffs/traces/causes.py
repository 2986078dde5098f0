"""How a node of one model differs from its partner in another: op, attributes, weights, lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.models.attributes import Defaults, differing_attributes
from pyopnb.diffs.models.hashing import Contents, Numbers
from pyopnb.diffs.ops import diff_versions
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.diffs.traces.segments import Segment, TraceGraph
from pyopnb.diffs.traces.steps import same_values
from pyopnb.models.nodes import constant_value, full_name, named_bodies
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.op import Version
from pyopnb.traces.trace import Trace

__all__ = ["find_causes", "op_versions"]


def find_causes(
    traces: tuple[Trace, Trace],
    graphs: tuple[TraceGraph, TraceGraph],
    segments: tuple[Segment, Segment],
    names: tuple[str, str],
) -> Iterator[str]:
    """Describe how the nodes differ that make two corresponding tensors.

    Parameters
    ----------
    traces : tuple of Trace
    graphs : tuple of TraceGraph
    segments : tuple of Segment
        The nodes.
    names : tuple of str
        The tensors.

    Yields
    ------
    str
        A line for each difference.
    """
    node_a, node_b = (
        graph.nodes[graph.producer[name]] for graph, name in zip(graphs, names, strict=True)
    )
    ops_a, ops_b = map(_format_ops, graphs, segments)
    # Attributes of other ops have nothing to be compared with.
    if ops_a != ops_b:
        yield f"op {ops_a} → {ops_b}"
    if full_name(node_a) == full_name(node_b):
        yield from _attribute_causes(node_a, node_b, (traces[0].model, traces[1].model))
    yield from _weight_causes(traces, graphs, segments)
    ops = []
    for position in segments[1].nodes:
        ops.append(full_name(graphs[1].nodes[position]))
    for name in dict.fromkeys(ops):
        old, new = (trace.versions.get(name) for trace in traces)
        if old is None and new is not None and not traces[0].by_model:
            yield f"{name}, version {new.number}, where {traces[0].runtime} ran its own"
        yield from _source_causes(old, new)


def _format_ops(graph: TraceGraph, segment: Segment) -> str:
    nodes = []
    for p in segment.nodes:
        if p not in graph.constants:
            nodes.append(graph.nodes[p])
    return " + ".join(sanitize(full_name(node).removeprefix("::"), 80) for node in nodes)


# ---- attributes ------------------------------------------------------------------------------------------------------------


def _attribute_causes(
    a: NodeProto, b: NodeProto, models: tuple[ModelProto, ModelProto]
) -> Iterator[str]:
    content = Contents(Numbers()).of
    defaults = Defaults.of_model(models[0]), Defaults.of_model(models[1])
    for name, old, new in differing_attributes((a, b), defaults, (content, content)):
        yield f"attr {sanitize(name, 80)}: {old or 'none'} → {new or 'none'}"
    for (name, body_a), (_, body_b) in zip(named_bodies(a), named_bodies(b), strict=False):
        if body_a != body_b:
            sizes = plural(len(body_a.node), "node"), plural(len(body_b.node), "node")
            yield f"body {sanitize(name, 80)}: {sizes[0]} → {sizes[1]}"


# ---- weights


def _weight_causes(
    traces: tuple[Trace, Trace],
    graphs: tuple[TraceGraph, TraceGraph],
    segments: tuple[Segment, Segment],
) -> Iterator[str]:
    """Compare the weights that two nodes read, including Constants, if both read equally many."""
    weights_a, weights_b = map(_weights, traces, graphs, segments)
    # After a fusion, weights have no order in which they correspond.
    if len(weights_a) != len(weights_b):
        yield f"a reads {plural(len(weights_a), 'weight')}, b reads {plural(len(weights_b), 'weight')}"
        return
    for (name_a, array_a), (name_b, array_b) in zip(
        weights_a.items(), weights_b.items(), strict=True
    ):
        diff = compared(array_a, array_b, Tolerances(0.0, 0.0))
        if not same_values(diff):
            names = dict.fromkeys((sanitize(name_a, 80), sanitize(name_b, 80)))
            yield f"weight {' → '.join(names)}: {summarize(diff.worst)}"


def _weights(trace: Trace, graph: TraceGraph, segment: Segment) -> dict[str, Any]:
    """Return the weights that a segment reads, those of Constant nodes included."""
    weights: dict[str, Any] = {name: trace.initializers.get(name) for name in segment.weights}
    for position in segment.nodes:
        node = graph.nodes[position]
        value = constant_value(node)
        if isinstance(value, TensorProto):
            weights[node.output[0]] = numpy_helper.to_array(value)
    return weights


# ---- source ----------------------------------------------------------------------------------------------------------------


def _source_causes(old: Version | None, new: Version | None) -> Iterator[str]:
    """Yield how two versions of an op differ: schemas in words, lines of source."""
    if old is None or new is None or old is new:
        return
    diff = diff_versions(old, new)
    yield from diff.schema
    # Unchanged lines and empty ones say nothing about the cause.
    lines = [line for line in diff.source if line[:1] in "+-" and line[1:].strip()]
    yield from (f"{line[0]} {line[1:].strip()}" for line in lines)
    if not lines:
        source = "the same source"
        if diff.same_code is None:
            source = "an unknown source"
        yield f"{new.op}, version {old.number} → {new.number}, with {source}"


def op_versions(traces: tuple[Trace, Trace], node: NodeProto) -> tuple[int | None, int | None]:
    """Return the version numbers of a node's op in both traces; None if the registry had no such op."""
    first, second = (trace.versions.get(full_name(node)) for trace in traces)
    return None if first is None else first.number, None if second is None else second.number
