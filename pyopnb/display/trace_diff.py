"""The difference of two runs: the graph in the colours of the error, and its origins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx import ModelProto, ValueInfoProto
from onnx.defs import onnx_opset_version as newest
from onnx.helper import make_node, make_opsetid, make_tensor_value_info

from pyopnb.diffs.arrays.report import format_number, summarize
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.steps import Step, Tensor
from pyopnb.display.array_diff import badge, charts, described, sign
from pyopnb.display.budget import graph, within
from pyopnb.display.html import details, image, note, page, pre
from pyopnb.display.svg.chart import card
from pyopnb.display.view import View
from pyopnb.ops.errors import NotationError, sanitize
from pyopnb.ops.types import tensor_type

__all__ = ["runs"]

_ORIGINS = 4  # that are shown with their pictures
_BYTES = 45_000  # of each table
_WORDS = {
    "origin": "✗ origin",
    "amplifies": "▲ amplifies",
    "propagates": "→ propagates",
    "hides": "▽ hides",
    "same": "✓ unaffected",
}


def runs(thing: TraceDiff, *, model: Any = None, **options: Any) -> View:
    """The drawing of what sets two runs apart.

    Parameters
    ----------
    thing : TraceDiff
    model : ModelProto, bytes or path, optional
        The model of b, to be drawn as it is. Without it the nodes are drawn that were held against each other.
    **options
        What the drawing of a model takes.
    """
    text = str(thing)
    title = f"diff of two runs: {thing.verdict}"
    head = [badge(thing.verdict), pre(text.removeprefix(f"{thing.verdict}: "))]
    opened = list(_opened(thing))
    tables = [*opened, *_tables(thing)]
    drawn = _drawn(thing, model, options, head, tables)
    if drawn is None:
        return View(thing, title, text, page([*head, *tables]))
    return View(thing, title, text, page([*head, drawn.body, *tables]), drawn.svg)


def _drawn(thing: TraceDiff, model: Any, options: dict[str, Any], head: list[str], tables: list[str]) -> View | None:
    if not thing.steps and model is None:
        return None
    colours = {tensor.b: step.accumulated for step in thing.steps for tensor in step.outputs}
    marks = {tensor.b: "origin" for step in thing.origins for tensor in step.outputs[:1]}
    known = _names(model) if model is not None else set(colours)
    colours = {name: error for name, error in colours.items() if error}  # what is exact has no colour
    wanted = {
        "colours": {name: error for name, error in colours.items() if name in known},
        "legend": "largest |a-b|",
        "log": True,
        "marks": {name: mark for name, mark in marks.items() if name in known},
    }
    return graph(_model(thing) if model is None else model, {**wanted, **options}, head, tables)


def _names(model: Any) -> set[str]:
    from pyopnb.models.io import as_proto  # here: only who gives a model pays for reading it

    return {name for node in as_proto(model).graph.node for name in node.output if name}


def _model(thing: TraceDiff) -> ModelProto:
    """The nodes that were held against each other as a model: what stands between two of them is not in it."""
    model = ModelProto()
    model.graph.name = "b"
    made = {tensor.b for step in thing.steps for tensor in step.outputs}
    for step in thing.steps:
        domain, _, op = step.op.rpartition("::")
        outputs = [tensor.b for tensor in step.outputs]
        model.graph.node.append(make_node(op or step.op, [t.b for t in step.inputs], outputs, name=_bare(step), domain=domain))
    used = {tensor.b for step in thing.steps for tensor in step.inputs}
    domains = {node.domain for node in model.graph.node}
    model.opset_import.extend(make_opsetid(domain, newest() if not domain else 1) for domain in sorted(domains))
    types = {tensor.b: tensor.diff.worst.b for tensor in (*thing.feeds, *thing.tensors) if len(tensor.diff.parts) == 1}
    graph = model.graph
    for where, names in ((graph.input, sorted(used - made)), (graph.output, [name for name in thing.outputs if name in made])):
        where.extend(_info(name, types.get(name)) for name in names)
    graph.value_info.extend(_info(name, types[name]) for name in types if name in made and name not in thing.outputs)
    return model


def _bare(step: Step) -> str:
    return step.name.removesuffix(f" ({step.op.removeprefix('::')})")


def _info(name: str, kind: str | None) -> ValueInfoProto:
    info = ValueInfoProto(name=name)
    try:
        known = None if kind is None else tensor_type(kind)
    except NotationError:  # of an array that no model has: a date, a record
        return info
    return info if known is None or known.dtype is None else make_tensor_value_info(name, known.dtype.onnx, known.shape)


def _opened(thing: TraceDiff) -> Iterator[str]:
    """The origins of the difference, the first one unfolded."""
    first = [thing.origin] if thing.origin is not None else []
    steps = list(thing.origins) or first
    for place, step in enumerate(steps[:_ORIGINS]):
        tensor = step.worst
        part = tensor.diff.worst
        drawn = charts(part)
        held = [pre("\n".join(step.changes))] if step.changes else []
        if drawn:
            held.append(f'<div style="margin:6px 0">{image(card(drawn, step.name), described(part))}</div>')
        held.append(pre(str(tensor.diff)))
        yield details(
            f"{_WORDS[step.verdict]}: {sanitize(step.name, 80)} → {sanitize(tensor.b, 60)}", "".join(held), open=place == 0
        )
    if len(steps) > _ORIGINS:
        yield note(f"and {len(steps) - _ORIGINS} more origins")


def _tables(thing: TraceDiff) -> Iterator[str]:
    rows = [_row(step) for step in thing.steps]
    heads = ("node", "effect", "|a-b|", "in isolation", "× its inputs", "versions")
    yield within(f"{len(rows)} nodes in the order of b's graph", heads, rows, _BYTES)
    pairs = [_pair(tensor) for tensor in (*thing.feeds, *thing.tensors)]
    yield within(f"{len(pairs)} tensors", ("b", "a", "verdict", "what", "paired by"), pairs, _BYTES)


def _row(step: Step) -> tuple[str, ...]:
    versions = "" if step.versions == (None, None) else " → ".join("?" if one is None else str(one) for one in step.versions)
    alone = "not run" if step.isolated is None else _said(step.isolated)
    times = "" if step.amplification is None else format_number(step.amplification)
    return step.name, _WORDS[step.verdict], _said(step.accumulated), alone, times, versions


def _said(error: float) -> str:
    return "no number" if math.isinf(error) else format_number(error)


def _pair(tensor: Tensor) -> tuple[str, ...]:
    part = tensor.diff.worst
    return tensor.b, tensor.a, sign(part.verdict), summarize(part), tensor.by
