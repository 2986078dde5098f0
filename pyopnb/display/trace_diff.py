"""A diff of two runs: the graph in the colors of the error, and its origins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx import ModelProto

from pyopnb.common import plural
from pyopnb.diffs import array_diffs, trace_diffs
from pyopnb.display.array_diff import headline_html, part_details, verdict_text
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.glossary import glossary
from pyopnb.display.merged import by_output, merge
from pyopnb.display.page.markup import details, join, note, pre
from pyopnb.display.views import View, view
from pyopnb.engine import protos
from pyopnb.errors import ModelError

__all__ = ["view_trace_diff"]

# This many origins are shown with their pictures.
_MOST_ORIGINS = 4
_VERDICTS = {
    "origin": "✗ origin",
    "amplifies": "▲ amplifies",
    "propagates": "→ propagates",
    "hides": "▽ hides",
    "absorbed": "○ absorbed",
    "same": "✓ unaffected",
}


@view.register(trace_diffs.TraceDiff)
def view_trace_diff(thing: trace_diffs.TraceDiff, **options: Any) -> View:
    """Show a diff of two runs: both models in one picture, unless it was read from JSON.

    Parameters
    ----------
    **options
        As for `view_model`.
    """
    text = str(thing)
    title = f"diff of two runs: {thing.verdict}"
    around = _where(thing)
    head = [headline_html(thing, around)]
    if thing.origin is not None and thing.origin.changes:
        head.append(pre("\n".join(thing.origin.changes)))
    tables = [*_origins(thing), *_tables(thing)]
    tables.append(glossary(*head, *tables))
    if thing.models is None:
        return View(thing, title, text, join([*head, *tables]))
    proto, marks = _drawn(thing, *thing.models)
    defaults = _graph_options(thing, proto)
    defaults["marks"] = marks | defaults["marks"]
    defaults["around"] = around
    graph = graph_within(proto, {**defaults, **options}, head, tables)
    # Where all is the same there is nothing to look at; a file gets the graph all the same.
    if thing.verdict not in array_diffs.VERDICTS[:2]:
        head.append(graph.body)
    return View(thing, title, text, join([*head, *tables]), graph.draw, graph.canvas)


def _where(thing: trace_diffs.TraceDiff) -> str:
    """Return the tensor at which the picture opens."""
    if thing.quantization:
        # A weight, or a feed, is where it is read.
        worst = thing.quantization[0].b
        for node in thing.models[1].graph.node if thing.models else ():
            if worst in (*node.output, *node.input):
                return protos.first_output(node)
        return ""
    step = thing.origin or thing.first
    return step.outputs[0].b if step else ""


# ---- the graph


def _drawn(
    thing: trace_diffs.TraceDiff, a: ModelProto, b: ModelProto
) -> tuple[ModelProto, dict[str, str]]:
    """Put the nodes that only a has beside b's nodes, with badges where one side has none."""
    # Nearly all nodes of a quantized model are only in b: marks would say nothing.
    if thing.quantization:
        return b, {}
    only_a = _without_partner(a, set(thing.partners), "-only in a")
    only_b = by_output(b, _without_partner(b, set(thing.partners.values()), "+only in b"))
    try:
        merged, marks, _ = merge(a, b, only_a, thing.partners)
    except ModelError:  # no graph has the nodes of both
        return b, only_b
    return merged, only_b | marks


def _without_partner(model: ModelProto, paired: set[str], mark: str) -> dict[int, str]:
    """Mark the nodes without a compared output."""
    marks = {}
    for number, node in enumerate(model.graph.node):
        if not paired.intersection(node.output) and not protos.is_constant(node):
            marks[number] = mark
    return marks


def _graph_options(thing: trace_diffs.TraceDiff, model: ModelProto) -> dict[str, Any]:
    """Make the options of a view that shows the errors; a node without one has no color."""
    names = {name for node in model.graph.node for name in node.output if name}
    colors = {}
    marks = {}
    if thing.quantization:
        # The more noise, the warmer the color.
        for row in thing.quantization:
            if row.sqnr is not None and math.isfinite(row.sqnr) and row.b in names:
                colors[row.b] = -row.sqnr
    else:
        for step in thing.steps:
            for tensor in step.outputs:
                if step.accumulated and tensor.b in names:
                    colors[tensor.b] = step.accumulated
        origins = [step.outputs[0].b for step in thing.origins]
        marks = {name: "origin" for name in origins if name in names}
    return {
        "colors": colors,
        "legend": "noise in dB (−SQNR)" if thing.quantization else "largest |a-b|",
        "log": not thing.quantization,
        "marks": marks,
        "notes": _notes(thing),
    }


def _notes(thing: trace_diffs.TraceDiff) -> dict[str, str]:
    """Tell how each tensor differs, and the effect of its node on the difference."""
    notes = {}
    for tensor in (*thing.feeds, *thing.tensors):
        pair = ""
        if tensor.a != tensor.b:
            pair = f"against {tensor.a} of a: "
        part = tensor.diff.worst
        notes[tensor.b] = f"\n{pair}{verdict_text(part.verdict)}, {array_diffs.summarize(part)}"
    for step in thing.steps:
        name = step.outputs[0].b
        text = f"{notes.get(name, '')}\n{_VERDICTS[step.verdict]}: {_error(step.accumulated)}"
        if step.isolated is not None:
            text += f"; in isolation {_error(step.isolated)}"
        if step.source:
            text += f"\nfrom {step.source}"
        notes[name] = text
    return notes


# ---- tables


def _origins(thing: trace_diffs.TraceDiff) -> Iterator[str]:
    """Fold the nodes where the difference originates."""
    steps = list(thing.origins)
    if not steps and thing.origin is not None:
        steps = [thing.origin]
    for number, step in enumerate(steps[:_MOST_ORIGINS]):
        tensor = step.worst
        a, b = (f"version {number}" if number else "" for number in step.versions)
        # Where the same version ran in both, it says nothing of the difference.
        content = part_details(tensor.diff.worst, (a, b) if a != b else ("", ""))
        # The changes of the first are above the picture.
        if step.changes and number:
            content = pre("\n".join(step.changes)) + content
        names = f"{step.name} → {tensor.b}"
        yield details(f"{_VERDICTS[step.verdict]}: {names}", content)
    if len(steps) > _MOST_ORIGINS:
        yield note(f"and {len(steps) - _MOST_ORIGINS} more origins")


def _tables(thing: trace_diffs.TraceDiff) -> Iterator[str]:
    lines = thing.details()
    if lines:
        yield details("summary", pre("\n".join(lines)))
    if thing.quantization:
        yield _quantization_table(thing.quantization)
    rows = [_step_row(step) for step in thing.steps]
    head: tuple[str, ...] = ("node", "effect", "|a-b|", "in isolation", "× its inputs", "versions")
    keys: list[tuple[str, ...]] = []
    for step in thing.steps:
        keys.append(tuple(tensor.b for tensor in step.outputs))
    yield table_within(
        f"{plural(len(rows), 'node')} in the order of b's graph", head, rows, keys=keys
    )
    tensors = (*thing.feeds, *thing.tensors)
    pairs = [_pair_row(tensor) for tensor in tensors]
    keys = [(tensor.b,) for tensor in tensors]
    head = ("b", "a", "verdict", "result", "paired by")
    yield table_within(plural(len(pairs), "tensor"), head, pairs, keys=keys)


def _quantization_table(quantization: tuple[trace_diffs.QuantizedTensor, ...]) -> str:
    rows, keys = [], []
    for row in quantization:
        if row.weight:
            name = f"weight {row.tensor}"
        else:
            name = row.tensor
        ranges = (
            "" if ends is None else " … ".join(map(array_diffs.format_number, ends))
            for ends in (row.range, row.scale_range)
        )
        alone = saturated = bits = ""
        if row.alone is not None:
            alone = array_diffs.format_number(row.alone)
            saturated = f"{100 * (row.saturated or 0.0):.3g} %"
        if row.bits is not None:
            bits = f"{row.bits:.1f}"
        rows.append(
            (name, row.b, array_diffs.format_number(row.sqnr), alone, saturated, *ranges, bits)
        )
        keys.append((row.b,))
    head = ("tensor", "b", "SQNR dB", "by its scale", "saturated", "range", "scale", "bits used")
    title = f"quantization of {len(rows)} tensors, the worst first"
    return table_within(title, head, rows, keys=keys)


def _step_row(step: trace_diffs.ComparedStep) -> tuple[str, ...]:
    versions = ""
    if step.versions != (None, None):
        before, after = ("?" if number is None else str(number) for number in step.versions)
        versions = f"{before} → {after}"
    if step.isolated is None:
        alone = "not run"
    else:
        alone = _error(step.isolated)
    if step.amplification is None:
        factor = ""
    else:
        factor = array_diffs.format_number(step.amplification)
    return step.name, _VERDICTS[step.verdict], _error(step.accumulated), alone, factor, versions


def _error(error: float) -> str:
    if math.isinf(error):
        return "not a number"
    return array_diffs.format_number(error)


def _pair_row(tensor: trace_diffs.ComparedTensor) -> tuple[str, ...]:
    part = tensor.diff.worst
    return tensor.b, tensor.a, verdict_text(part.verdict), array_diffs.summarize(part), tensor.by
