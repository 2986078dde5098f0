"""A diff of two runs: the graph in the colours of the error, and its origins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx import ModelProto, ValueInfoProto
from onnx.defs import onnx_opset_version
from onnx.helper import make_node, make_opsetid, make_tensor_value_info

from pyopnb.diffs.arrays.report import format_number, summarize
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.steps import Step, Tensor
from pyopnb.display.array_diff import headline_html, part_details, verdict_text
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.glossary import glossary
from pyopnb.display.html import details, join, note, pre
from pyopnb.display.merged import merge
from pyopnb.display.view import View
from pyopnb.errors import InputError, ModelError
from pyopnb.models.io import as_proto
from pyopnb.models.nodes import is_constant
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import tensor_type

__all__ = ["view_trace_diff"]

_MOST_ORIGINS = 4  # shown with their pictures
_BYTES = 45_000  # of each table
_VERDICTS = {
    "origin": "✗ origin",
    "amplifies": "▲ amplifies",
    "propagates": "→ propagates",
    "hides": "▽ hides",
    "same": "✓ unaffected",
}


def view_trace_diff(thing: TraceDiff, *, model: Any = None, **options: Any) -> View:
    """The view of a diff of two runs.

    Parameters
    ----------
    thing : TraceDiff
    model : ModelProto, bytes or path, optional
        The model of b, to be drawn as it is. By default the nodes of both runs are drawn in one picture, as far as they are
        known: of a diff that was read from JSON those that were compared.
    **options
        As of `view_model`.

    Returns
    -------
    View
    """
    text = str(thing)
    title = f"diff of two runs: {thing.verdict}"
    summary = [
        headline_html(thing),
        *(
            [pre("\n".join(thing.origin.changes))]
            if thing.origin is not None and thing.origin.changes
            else []
        ),
    ]
    tables = [*_origins(thing), *_tables(thing)]
    tables.append(glossary(*summary, *tables))
    if not thing.steps and model is None:
        return View(thing, title, text, join([*summary, *tables]))
    proto, marks = _both(thing) if model is None else (as_proto(model), {})
    wanted = _colours(thing, proto)
    graph = graph_within(
        proto, {**wanted, "marks": marks | wanted["marks"], **options}, summary, tables
    )
    return View(
        thing, title, text, join([*summary, graph.body, *tables]), graph.draw, canvas=graph.canvas
    )


def _both(thing: TraceDiff) -> tuple[ModelProto, dict[int, str]]:
    """The nodes of b, and beside them those that only a has, with the badges of what one side lacks."""
    if thing.models is None or thing.runs is not None:
        return _compared_nodes(thing), {}
    a, b = thing.models
    with_partner = [set(thing.partners), set(thing.partners.values())]
    lone = [
        {
            n: mark
            for n, node in enumerate(model.graph.node)
            if not paired.intersection(node.output) and not is_constant(node)
        }
        for model, paired, mark in zip(
            (a, b), with_partner, ("-only in a", "+only in b"), strict=True
        )
    ]
    try:
        merged = merge(a, b, lone[0], thing.partners)
    except ModelError:  # no graph has the nodes of both
        return b, lone[1]
    return merged.model, lone[1] | merged.marks


def _colours(thing: TraceDiff, model: ModelProto) -> dict[str, Any]:
    """The options of a model's view that show the errors; a node without an error has no colour."""
    names = {name for node in model.graph.node for name in node.output if name}
    errors = {tensor.b: step.accumulated for step in thing.steps for tensor in step.outputs}
    origins = (tensor.b for step in thing.origins for tensor in step.outputs[:1])
    return {
        "colours": {name: error for name, error in errors.items() if error and name in names},
        "legend": "largest |a-b|",
        "log": True,
        "marks": {name: "origin" for name in origins if name in names},
        "notes": _notes(thing),
    }


def _notes(thing: TraceDiff) -> dict[str, str]:
    """How each tensor differs, and what its node does to the difference."""
    notes = {tensor.b: f"\n{_pair_text(tensor)}" for tensor in (*thing.feeds, *thing.tensors)}
    for step in thing.steps:
        alone = "" if step.isolated is None else f"; in isolation {_error(step.isolated)}"
        name = step.outputs[0].b
        source = f"\nfrom {step.source}" if step.source else ""
        notes[name] = (
            f"{notes.get(name, '')}\n{_VERDICTS[step.verdict]}: {_error(step.accumulated)}{alone}{source}"
        )
    return notes


def _pair_text(tensor: Tensor) -> str:
    other = f"against {tensor.a} of a: " if tensor.a != tensor.b else ""
    return f"{other}{verdict_text(tensor.diff.worst.verdict)}, {summarize(tensor.diff.worst)}"


def _compared_nodes(thing: TraceDiff) -> ModelProto:
    """The nodes that were compared as a model; nodes between them are not in it."""
    model = ModelProto()
    graph = model.graph
    graph.name = "b"
    for step in thing.steps:
        domain, _, op = step.op.rpartition("::")
        inputs, outputs = (
            [tensor.b for tensor in tensors] for tensors in (step.inputs, step.outputs)
        )
        graph.node.append(
            make_node(op or step.op, inputs, outputs, name=_node_name(step), domain=domain)
        )
    domains = sorted({node.domain for node in graph.node})
    model.opset_import.extend(
        make_opsetid(domain, 1 if domain else onnx_opset_version()) for domain in domains
    )
    read = {name for node in graph.node for name in node.input}
    written = {name for node in graph.node for name in node.output}
    types = {
        tensor.b: tensor.diff.worst.b
        for tensor in (*thing.feeds, *thing.tensors)
        if len(tensor.diff.parts) == 1
    }
    graph.input.extend(_value_info(name, types.get(name)) for name in sorted(read - written))
    graph.output.extend(
        _value_info(name, types.get(name)) for name in thing.outputs if name in written
    )
    inner = (name for name in types if name in written and name not in thing.outputs)
    graph.value_info.extend(_value_info(name, types[name]) for name in inner)
    return model


def _node_name(step: Step) -> str:
    return step.name.removesuffix(f" ({step.op.removeprefix('::')})")


def _value_info(name: str, notation: str | None) -> ValueInfoProto:
    info = ValueInfoProto(name=name)
    try:
        kind = None if notation is None else tensor_type(notation)
    except InputError:  # of an array that no model has, such as dates
        return info
    return (
        info
        if kind is None or kind.dtype is None
        else make_tensor_value_info(name, kind.dtype.onnx, kind.shape)
    )


def _origins(thing: TraceDiff) -> Iterator[str]:
    """The nodes where the difference originates."""
    steps = list(thing.origins) or ([] if thing.origin is None else [thing.origin])
    for number, step in enumerate(steps[:_MOST_ORIGINS]):
        tensor = step.worst
        changes = pre("\n".join(step.changes)) if step.changes and number else ""
        title = f"{_VERDICTS[step.verdict]}: {sanitize(step.name, 80)} → {sanitize(tensor.b, 60)}"
        yield details(title, changes + part_details(tensor.diff.worst))
    if len(steps) > _MOST_ORIGINS:
        yield note(f"and {len(steps) - _MOST_ORIGINS} more origins")


def _tables(thing: TraceDiff) -> Iterator[str]:
    if lines := thing.details():
        yield details("summary", pre("\n".join(lines)))
    rows = [_step_row(step) for step in thing.steps]
    columns = ("node", "effect", "|a-b|", "in isolation", "× its inputs", "versions")
    keys = [[tensor.b for tensor in step.outputs] for step in thing.steps]
    yield table_within(
        f"{len(rows)} nodes in the order of b's graph", columns, rows, _BYTES, keys=keys
    )
    pairs = [_pair_row(tensor) for tensor in (*thing.feeds, *thing.tensors)]
    names = [(tensor.b,) for tensor in (*thing.feeds, *thing.tensors)]
    yield table_within(
        f"{len(pairs)} tensors",
        ("b", "a", "verdict", "result", "paired by"),
        pairs,
        _BYTES,
        keys=names,
    )


def _step_row(step: Step) -> tuple[str, ...]:
    versions = (
        ""
        if step.versions == (None, None)
        else " → ".join("?" if v is None else str(v) for v in step.versions)
    )
    alone = "not run" if step.isolated is None else _error(step.isolated)
    factor = "" if step.amplification is None else format_number(step.amplification)
    return step.name, _VERDICTS[step.verdict], _error(step.accumulated), alone, factor, versions


def _error(error: float) -> str:
    return "not a number" if math.isinf(error) else format_number(error)


def _pair_row(tensor: Tensor) -> tuple[str, ...]:
    part = tensor.diff.worst
    return tensor.b, tensor.a, verdict_text(part.verdict), summarize(part), tensor.by
