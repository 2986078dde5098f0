"""How a node of one model differs from its partner in another: op, attributes, weights, lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.models.attributes import Defaults, differing_attributes, format_attribute
from pyopnb.diffs.models.hashing import Contents, Numbers
from pyopnb.diffs.ops import diff_versions
from pyopnb.diffs.traces.segments import Segment, TraceGraph
from pyopnb.diffs.traces.steps import same_values
from pyopnb.models.nodes import attribute_value, full_name, named_bodies
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
    nodes = [graph.nodes[graph.producer[name]] for graph, name in zip(graphs, names, strict=True)]
    ops = [
        " + ".join(_ops(graph, segment)) for graph, segment in zip(graphs, segments, strict=True)
    ]
    if ops[0] != ops[1]:
        yield f"op {ops[0]} → {ops[1]}"
    if full_name(nodes[0]) == full_name(nodes[1]):
        yield from _attribute_causes(nodes[0], nodes[1], (traces[0].model, traces[1].model))
    yield from _weight_causes(traces, graphs, segments)
    for name in dict.fromkeys(full_name(graphs[1].nodes[place]) for place in segments[1].nodes):
        old, new = (trace.versions.get(name) for trace in traces)
        if old is None and new is not None and not traces[0].by_model:
            yield f"{name}, version {new.number}, where {traces[0].runtime} ran its own"
        yield from _source_causes(old, new)


def _ops(graph: TraceGraph, segment: Segment) -> list[str]:
    return [
        sanitize(full_name(graph.nodes[p]).removeprefix("::"), 80)
        for p in segment.nodes
        if p not in graph.constants
    ]


# ---- attributes ------------------------------------------------------------------------------------------------------------


def _attribute_causes(
    a: NodeProto, b: NodeProto, models: tuple[ModelProto, ModelProto]
) -> Iterator[str]:
    content = Contents(Numbers()).of
    defaults = Defaults.of_model(models[0]), Defaults.of_model(models[1])
    for name, *values in differing_attributes((a, b), defaults, (content, content)):
        one, other = ("none" if value is None else format_attribute(value) for value in values)
        yield f"attr {sanitize(name, 80)}: {one} → {other}"
    for (name, one_body), (_, other_body) in zip(named_bodies(a), named_bodies(b), strict=False):
        if one_body != other_body:
            sizes = plural(len(one_body.node), "node"), plural(len(other_body.node), "node")
            yield f"body {sanitize(name, 80)}: {sizes[0]} → {sizes[1]}"


# ---- weights ---------------------------------------------------------------------------------------------------------------


def _weight_causes(
    traces: tuple[Trace, Trace],
    graphs: tuple[TraceGraph, TraceGraph],
    segments: tuple[Segment, Segment],
) -> Iterator[str]:
    """Compare the weights that the nodes read, those of Constant nodes among them, if they are equally many."""
    ours, theirs = (dict(_arrays(*side)) for side in zip(traces, graphs, segments, strict=True))
    if len(ours) != len(theirs):
        counts = [
            plural(len(weights), "weight") if weights else "no weights"
            for weights in (ours, theirs)
        ]
        yield f"a reads {counts[0]}, b reads {counts[1]}"
        return
    for (name, array), (other, other_array) in zip(ours.items(), theirs.items(), strict=True):
        if array is None or other_array is None:
            continue
        diff = compared(array, other_array, 0.0, 0.0)
        if not same_values(diff):
            names = dict.fromkeys(sanitize(text, 80) for text in (name, other))
            yield f"weight {' → '.join(names)}: {summarize(diff.worst)}"


def _arrays(trace: Trace, graph: TraceGraph, segment: Segment) -> Iterator[tuple[str, Any]]:
    for name in segment.weights:
        yield name, trace.initializers.get(name)
    for place in segment.nodes:
        if place in graph.constants:
            node = graph.nodes[place]
            value = (
                attribute_value(node.attribute[0], trace.model) if node.attribute[0].type else None
            )
            yield (
                node.output[0],
                None if isinstance(value, (bytes, str)) or value is None else np.asarray(value),
            )


# ---- source ----------------------------------------------------------------------------------------------------------------


def _source_causes(old: Version | None, new: Version | None) -> Iterator[str]:
    """Yield how two versions of an op differ: schemas in words, lines of source."""
    if old is None or new is None or old is new:
        return
    diff = diff_versions(old, new)
    yield from diff.schema
    lines = [line for line in diff.source if line[:1] in "+-" and line[1:].strip()]
    yield from (f"{line[0]} {line[1:].strip()}" for line in lines)
    if not lines:
        source = "an unknown source" if diff.same_code is None else "the same source"
        yield f"{new.op}, version {old.number} → {new.number}, with {source}"


def op_versions(traces: tuple[Trace, Trace], node: NodeProto) -> tuple[int | None, int | None]:
    """Return the versions' numbers of a node's op in both traces; None where the registry had no such op."""
    first, second = (trace.versions.get(full_name(node)) for trace in traces)
    return None if first is None else first.number, None if second is None else second.number
