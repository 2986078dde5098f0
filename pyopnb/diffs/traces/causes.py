"""How a node of one model differs from the node of another that stands for it: op, attributes, weights, lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.models.attributes import Defaults
from pyopnb.diffs.ops import diff_versions
from pyopnb.diffs.traces.segments import Segment, Segments
from pyopnb.models.nodes import attribute_value, full_name
from pyopnb.ops.errors import sanitize
from pyopnb.ops.registry import Version
from pyopnb.runtime.trace.trace import Trace

__all__ = ["find_causes", "op_versions"]

_WIDEST = 60


def find_causes(
    traces: tuple[Trace, Trace], graphs: tuple[Segments, Segments], segments: tuple[Segment, Segment], names: tuple[str, str]
) -> Iterator[str]:
    """What is not the same in the nodes that make a tensor, first of a, then of b.

    Parameters
    ----------
    traces : tuple of Trace
    graphs : tuple of Segments
    segments : tuple of Segment
    names : tuple of str
        The tensor.
    """
    nodes = [graph.nodes[graph.maker[name]] for graph, name in zip(graphs, names, strict=True)]
    ops = [" + ".join(_ops(graph, segment)) for graph, segment in zip(graphs, segments, strict=True)]
    if ops[0] != ops[1]:
        yield f"{ops[0]} → {ops[1]}"
    if full_name(nodes[0]) == full_name(nodes[1]):
        yield from _attributes(nodes, [trace.model for trace in traces])
    yield from _weights(traces, graphs, segments)
    for name in dict.fromkeys(full_name(graphs[1].nodes[place]) for place in segments[1].nodes):
        yield from _source(*(trace.versions.get(name) for trace in traces))


def _ops(graph: Segments, segment: Segment) -> list[str]:
    return [sanitize(full_name(graph.nodes[p]).removeprefix("::"), 80) for p in segment.nodes if p not in graph.constant]


# ---- attributes ------------------------------------------------------------------------------------------------------------


def _attributes(nodes: list[NodeProto], models: list[ModelProto]) -> Iterator[str]:
    first, second = (_values(node, model) for node, model in zip(nodes, models, strict=True))
    for name in dict.fromkeys((*first, *second)):
        one, other = (values.get(name) for values in (first, second))
        if one != other:
            yield f"attr {sanitize(name, 80)}: {one or 'none'} → {other or 'none'}"


def _values(node: NodeProto, model: ModelProto) -> dict[str, str]:
    """The node's attributes as they are printed, with the defaults of those that are not written."""
    defaults = Defaults(
        {entry.domain: entry.version for entry in model.opset_import}, {(f.domain, f.name): f for f in model.functions}
    ).of(node)
    written = {attribute.name: attribute for attribute in node.attribute}
    return {name: _printed(attribute, model) for name, attribute in {**defaults, **written}.items()}


def _printed(attribute: AttributeProto, model: ModelProto) -> str:
    if attribute.ref_attr_name:
        return f"what {sanitize(attribute.ref_attr_name, 80)} is"
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        bodies = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        size, content = sum(len(body.node) for body in bodies), hash(attribute.SerializeToString(deterministic=True))
        return f"a body of {size} nodes, {content & 0xFFFFFFFF:08x}"
    try:
        value = attribute_value(attribute, model)
    except (ValueError, TypeError, KeyError) as error:
        return f"unreadable: {sanitize(str(error), _WIDEST)}"
    if isinstance(value, np.ndarray):
        return sanitize(" ".join(np.array2string(value, threshold=8).split()), _WIDEST)
    if attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):  # with the digits that a float32 has
        many = isinstance(value, list)
        value = [float(str(np.float32(one))) for one in value] if many else float(str(np.float32(value)))
    return sanitize(repr(value), _WIDEST)


# ---- weights ---------------------------------------------------------------------------------------------------------------


def _weights(
    traces: tuple[Trace, Trace], graphs: tuple[Segments, Segments], segments: tuple[Segment, Segment]
) -> Iterator[str]:
    """The weights that the nodes read, those of Constant nodes among them, pair by pair where there are as many."""
    first, second = (dict(_arrays(*one)) for one in zip(traces, graphs, segments, strict=True))
    if len(first) != len(second):
        yield f"{len(first)} weights → {len(second)}"
        return
    for (name, one), (other, two) in zip(first.items(), second.items(), strict=True):
        if one is None or two is None:
            continue
        diff = compared(one, two, 0.0, 0.0)
        if diff.verdict not in ("bit-identical", "value-identical"):
            both = sanitize(name, 80) if name == other else f"{sanitize(name, 80)} → {sanitize(other, 80)}"
            yield f"weight {both}: {summarize(diff.worst)}"


def _arrays(trace: Trace, graph: Segments, segment: Segment) -> Iterator[tuple[str, Any]]:
    for name in segment.weights:
        yield name, trace.initializers.get(name)
    for place in segment.nodes:
        if place in graph.constant:
            node = graph.nodes[place]
            value = attribute_value(node.attribute[0], trace.model) if node.attribute[0].type else None
            yield node.output[0], None if isinstance(value, (bytes, str)) or value is None else np.asarray(value)


# ---- source ----------------------------------------------------------------------------------------------------------------


def _source(old: Version | None, new: Version | None) -> Iterator[str]:
    """What differs between two versions of an op: its schema in words, its lines of source."""
    if old is None or new is None or old is new:
        return
    found = diff_versions(old, new)
    yield from found.schema
    lines = [line for line in found.source if line[:1] in "+-" and line[1:].strip()]
    yield from (f"{line[0]} {line[1:].strip()}" for line in lines)
    if not lines:
        said = "a source that is not known" if found.same_code is None else "the same source"
        yield f"{new.op}, version {old.number} → {new.number}, with {said}"


def op_versions(traces: tuple[Trace, Trace], node: NodeProto) -> tuple[int | None, int | None]:
    """The numbers of the versions of a node's op in both traces."""
    held = [trace.versions.get(full_name(node)) for trace in traces]
    first, second = (None if version is None else version.number for version in held)
    return first, second
