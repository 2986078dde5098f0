"""A diff of two models on their graphs, and of two versions of an op in their sources."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from onnx import ModelProto

from pyopnb.common import messages, plural
from pyopnb.diffs import array_diffs, model_diffs
from pyopnb.display.array_diff import headline_html, part_details
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.glossary import glossary
from pyopnb.display.merged import badges, by_output, merge
from pyopnb.display.page.markup import WRAP, details, join, note, pre
from pyopnb.display.svg.boxes import plain_mark
from pyopnb.display.views import View, view
from pyopnb.engine import model_files
from pyopnb.errors import ModelError

__all__ = ["view_model_diff", "view_op_diff"]

# A source's diff is cut after this many lines, and each of them after this many characters.
_MOST_LINES, _LONGEST = 1_000, 500
_BACKGROUNDS = {"+": "rgba(47,143,78,0.22)", "-": "rgba(209,69,59,0.22)"}
# This many lines above the picture describe changes.
_MAX_LINES = 4
# A change names at most this many of its nodes.
_MOST_NAMES = 4


@view.register(model_diffs.ModelDiff)
def view_model_diff(thing: model_diffs.ModelDiff, **options: Any) -> View:
    """Show a diff of two models in one picture, the nodes that only a has beside b's.

    Parameters
    ----------
    **options
        As for `view_model`.
    """
    text = str(thing)
    title = f"diff of two models: {thing.verdict}"
    head = [headline_html(thing)]
    lines = [line for change in thing.changes for line in model_diffs.format_change(change)]
    if lines:
        head.append(pre("\n".join(lines[:_MAX_LINES])))
    # A diff that was read from a file has no models.
    models = [model_files.as_proto(model) for model in thing.models or ()]
    drawn, names = _drawn_models(thing, models)
    tensors = [_tensors(change, models, names) for change in thing.changes]
    tables = [_changes_table(thing, tensors), _worst_weight(thing)]
    tables.append(glossary(*head, *tables))
    if not drawn:
        head.append(note("the models are no longer available, so there is no picture"))
        return View(thing, title, text, join([*head, *tables]))
    notes = _notes(thing, tensors)
    pictures = []
    for model, marks in drawn:
        defaults = {"marks": marks, "notes": notes, "around": next(iter(marks), "")}
        picture = graph_within(model, {**defaults, **options}, head, tables)
        pictures.append(picture)
        # Of two identical models a file gets the graph, and a page does not.
        if thing.changes:
            head.append(picture.body)
    body = join([*head, *tables])
    return View(thing, title, text, body, draw=pictures[0].draw, canvas=pictures[0].canvas)


_Drawn = list[tuple[ModelProto, dict[str, str]]]


def _drawn_models(
    thing: model_diffs.ModelDiff, models: Sequence[ModelProto]
) -> tuple[_Drawn, dict[str, str]]:
    """Return the models to draw with their nodes' badges, and the names of a's tensors in them."""
    if not models:
        return [], {}
    # Additions are marked at nodes of b, removals at nodes of a.
    a, b = models
    of_a = badges(thing.changes, "a")
    of_b = by_output(b, badges(thing.changes, "b"))
    only_a = {place: mark for place, mark in of_a.items() if plain_mark(mark) == "removed"}
    try:
        model, marks, names = merge(a, b, only_a, thing.tensors)
    except ModelError:  # no graph has the nodes of both: two pictures
        return [(b, of_b), (a, by_output(a, of_a))], {}
    return [(model, of_b | marks)], names


def _tensors(
    change: model_diffs.Change, models: Sequence[ModelProto], names: Mapping[str, str]
) -> list[str]:
    """Return the outputs of a change's nodes in the main graph, with a's as they are drawn."""
    if change.path or not models:
        return []
    a, b = models
    outputs = []
    for node in change.b:
        outputs += b.graph.node[node.place].output
    for node in change.a:
        outputs += [names.get(name, name) for name in a.graph.node[node.place].output]
    return list(dict.fromkeys(outputs))


def _notes(thing: model_diffs.ModelDiff, tensors: Sequence[Sequence[str]]) -> dict[str, str]:
    """Describe the changes, by the outputs of the nodes that they concern."""
    notes: dict[str, str] = {}
    for change, names in zip(thing.changes, tensors, strict=True):
        for name in names:
            notes[name] = "\n".join([notes.get(name, ""), *model_diffs.format_change(change)])
    return notes


def _changes_table(thing: model_diffs.ModelDiff, keys: Sequence[Sequence[str]]) -> str:
    if not thing.changes:
        return ""
    rows = []
    for change in thing.changes:
        text = "; ".join(model_diffs.format_change(change))
        rows.append((change.kind, change.path, _names(change.a), _names(change.b), text))
    head = ("kind", "where", "in a", "in b", "change")
    return table_within(plural(len(rows), "change"), head, rows, keys=keys)


def _names(nodes: tuple[model_diffs.NodeAt, ...]) -> str:
    names = []
    for node in nodes[:_MOST_NAMES]:
        name = node.name or next(filter(None, node.outputs), "")
        names.append(f"{node.op} '{name}'")
    if len(nodes) > _MOST_NAMES:
        names.append(f"and {len(nodes) - _MOST_NAMES} more")
    return ", ".join(names)


def _worst_weight(thing: model_diffs.ModelDiff) -> str:
    """Draw the weight with the worst verdict."""
    weights = []
    for change in thing.changes:
        if change.values is not None:
            name = next((fact.a or fact.b for fact in change.facts), "")
            weights.append((array_diffs.VERDICTS.index(change.values.verdict), name, change.values))
    if not weights:
        return ""
    _, name, worst = max(weights, key=itemgetter(0))
    return details(f"weight {name}", part_details(worst.worst))


@view.register(model_diffs.OpDiff)
def view_op_diff(thing: model_diffs.OpDiff, *, verdict: bool = True) -> View:
    """Show a diff of two versions of an op, with or without its verdict."""
    parts = [headline_html(thing)] if verdict else []
    if thing.schema:
        parts.append(pre("\n".join(f"· {change}" for change in thing.schema)))
    if thing.source:
        parts.append(_source_diff(thing.source))
    return View(thing, f"diff of two versions: {thing.verdict}", str(thing), join(parts))


def _source_diff(lines: tuple[str, ...]) -> str:
    """Give lines of a unified diff backgrounds that say the same as their signs."""
    body = ""
    for line in lines[:_MOST_LINES]:
        style = ""
        if line[:1] in _BACKGROUNDS:
            color = _BACKGROUNDS[line[:1]]
            style = f' style="display:inline-block;width:100%;background-color:{color}"'
        body += f"<span{style}>{html.escape(messages.sanitize_source(line)[:_LONGEST])}</span>\n"
    if len(lines) > _MOST_LINES:
        body += f"and {len(lines) - _MOST_LINES:,} more lines"
    style = f"font-family:monospace;margin:6px 0;{WRAP};background:none;color:inherit"
    return f'<pre style="{style}">{body}</pre>'
