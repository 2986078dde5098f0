"""Tell how a node differs from its partner: by op, attributes, weights or lines of source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from pyopnb.common import plural, sanitize
from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.models.attributes import Defaults, differing_attributes
from pyopnb.diffs.models.diff import diff_models, format_change
from pyopnb.diffs.models.hashing import Contents, Numbers
from pyopnb.diffs.ops import diff_versions
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.diffs.traces.segments import Segment, Side, TraceGraph
from pyopnb.diffs.traces.steps import same_values
from pyopnb.engine import Version, protos

__all__ = ["find_causes", "format_ops", "op_versions"]


def find_causes(
    a: Side,
    b: Side,
    segments: tuple[Segment, Segment],
    names: tuple[str, str],
) -> Iterator[str]:
    """Describe how the nodes differ that make two corresponding tensors.

    Parameters
    ----------
    segments : tuple of Segment
        The nodes.
    names : tuple of str
        The tensors.

    Yields
    ------
    str
        A line for each difference.
    """
    node_a = a.graph.nodes[a.graph.producer[names[0]]]
    node_b = b.graph.nodes[b.graph.producer[names[1]]]
    ops_a = format_ops(a.graph, segments[0])
    ops_b = format_ops(b.graph, segments[1])
    # Attributes of other ops have nothing to be compared with.
    if ops_a != ops_b:
        yield f"op {ops_a} → {ops_b}"
    if protos.full_name(node_a) == protos.full_name(node_b):
        yield from _attribute_causes(node_a, node_b, (a.trace.model, b.trace.model))
        if protos.bodies(node_a):
            yield from _body_causes(_alone(a, names[0]), _alone(b, names[1]))
    yield from _weight_causes(_weights(a, segments[0]), _weights(b, segments[1]))
    for name in dict.fromkeys(protos.full_name(b.graph.nodes[p]) for p in segments[1].nodes):
        old = a.trace.versions.get(name)
        new = b.trace.versions.get(name)
        if old is None and new is not None and not a.trace.by_model:
            yield f"{name}, version {new.number}, where {a.trace.runtime} ran its own"
        yield from _source_causes(old, new)


def format_ops(graph: TraceGraph, segment: Segment) -> str:
    """Name the ops of the nodes of a segment."""
    nodes = [graph.nodes[p] for p in segment.nodes if p not in graph.constants]
    return " + ".join(sanitize(protos.full_name(node).removeprefix("::"), 80) for node in nodes)


# ---- attributes ----------------------------------------------------------------------------------


def _attribute_causes(
    a: NodeProto, b: NodeProto, models: tuple[ModelProto, ModelProto]
) -> Iterator[str]:
    content = Contents(Numbers()).of
    defaults = Defaults.of_model(models[0]), Defaults.of_model(models[1])
    for name, old, new in differing_attributes((a, b), defaults, (content, content)):
        yield f"attr {sanitize(name, 80)}: {old or 'none'} → {new or 'none'}"


# ---- bodies


def _body_causes(a: ModelProto, b: ModelProto) -> Iterator[str]:
    """Yield how the nodes in the bodies of two nodes differ."""
    for change in diff_models(a, b).changes:
        if change.path:
            yield from format_change(change)


def _alone(side: Side, name: str) -> ModelProto:
    """Return a model of the one node that makes a tensor."""
    graph = side.graph
    position = graph.producer[name]
    alone = GraphProto(
        node=[graph.nodes[position]],
        input=[ValueInfoProto(name=read) for read in graph.reads[position]],
        output=[ValueInfoProto(name=name)],
    )
    return ModelProto(graph=alone, opset_import=side.trace.model.opset_import)


# ---- weights


def _weight_causes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """Compare the weights that two nodes read, including Constants, if both read equally many."""
    # After a fusion, weights have no order in which they correspond.
    if len(a) != len(b):
        yield f"a reads {plural(len(a), 'weight')}, b reads {plural(len(b), 'weight')}"
        return
    for name_a, name_b in zip(a, b, strict=True):
        diff = compared(a[name_a], b[name_b], Tolerances(0.0, 0.0))
        if not same_values(diff):
            names = dict.fromkeys((sanitize(name_a, 80), sanitize(name_b, 80)))
            yield f"weight {' → '.join(names)}: {summarize(diff.worst)}"


def _weights(side: Side, segment: Segment) -> dict[str, Any]:
    """Return the weights that a segment reads, including Constant nodes."""
    constants = side.graph.constants.intersection(segment.nodes)
    names = [side.graph.nodes[position].output[0] for position in sorted(constants)]
    return {name: side.weight(name) for name in (*segment.weights, *names)}


# ---- source --------------------------------------------------------------------------------------


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
        yield f"{new.op}, version {old.number} → {new.number}"


def op_versions(a: Side, b: Side, node: NodeProto) -> tuple[int | None, int | None]:
    """Return the versions of a node's op in both traces; None where the registry had no such op."""
    numbers: list[int | None] = [None, None]
    for place, side in enumerate((a, b)):
        version = side.trace.versions.get(protos.full_name(node))
        if version is not None:
            numbers[place] = version.number
    return numbers[0], numbers[1]
