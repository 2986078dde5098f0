"""A diff of two models on their graphs, and of two versions of an op in their sources."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx import ModelProto

from pyopnb.diffs.arrays.parts import VERDICTS
from pyopnb.diffs.models.change import Change, NodeAt
from pyopnb.diffs.models.diff import ModelDiff, format_change
from pyopnb.diffs.ops import OpDiff
from pyopnb.display.array_diff import headline_html, part_details
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.glossary import glossary
from pyopnb.display.html import WRAP, details, join, note, pre
from pyopnb.display.merged import badges, merge
from pyopnb.display.svg.marks import plain_mark
from pyopnb.display.view import View, view
from pyopnb.errors import InputError, ModelError
from pyopnb.models.io import as_proto
from pyopnb.ops.messages import sanitize, sanitize_source

__all__ = ["view_model_diff", "view_op_diff"]

_BYTES = 45_000  # of the table
_SOURCE = 100_000  # characters of a source's diff
_BACKGROUNDS = {"+": "rgba(47,143,78,0.22)", "-": "rgba(209,69,59,0.22)"}
_MAX_LINES = 4  # changes above the picture
_SIDES = ("a", "b", "both")


@view.register(ModelDiff)
def view_model_diff(thing: ModelDiff, *, side: str = "both", **options: Any) -> View:
    """The view of a diff of two models.

    Parameters
    ----------
    thing : ModelDiff
    side : str
        Which model is drawn: ``"a"``, ``"b"``, or by default ``"both"`` in one picture, the nodes that only a has beside b's.
    **options
        As of `view_model`.

    Returns
    -------
    View

    Raises
    ------
    InputError
        There is no such side.
    """
    if side not in _SIDES:
        raise InputError(
            "show, side", expected=", ".join(_SIDES), got=sanitize(side), next='side="both"'
        )
    text = str(thing)
    title = f"diff of two models: {thing.verdict}"
    lines = [line for change in thing.changes for line in format_change(change)][:_MAX_LINES]
    summary = [headline_html(thing), *([pre("\n".join(lines))] if lines else [])]
    models = tuple(map(as_proto, thing.models or ()))
    drawn, names = _pictures(thing, models, side)
    tensors = [_tensors(change, models, names) for change in thing.changes]
    tables = [part for part in (_changes_table(thing, tensors), _worst_weight(thing)) if part]
    tables.append(glossary(*summary, *tables))
    if not drawn:
        remark = note("the models are no longer available, so there is no picture")
        return View(thing, title, text, join([*summary, remark, *tables]))
    pictures: list[View] = []
    for model, marks in drawn:
        wanted = {"marks": marks, "notes": _notes(thing, tensors), **options}
        pictures.append(
            graph_within(model, wanted, [*summary, *(view.body for view in pictures)], tables)
        )
    body = join([*summary, *(view.body for view in pictures), *tables])
    return View(thing, title, text, body, pictures[0].draw, canvas=pictures[0].canvas)


def _pictures(
    thing: ModelDiff, models: Sequence[ModelProto], side: str
) -> tuple[list[tuple[ModelProto, dict[int, str]]], dict[str, str]]:
    """The models to draw with the badges of their nodes, and other names of a's tensors in them."""
    if not models:
        return [], {}
    marks: dict[str, dict[int, str]] = {name: badges(thing.changes, name) for name in "ab"}
    if side == "both":
        only_a = {
            place: mark for place, mark in marks["a"].items() if plain_mark(mark) == "removed"
        }
        try:
            merged = merge(models[0], models[1], only_a, thing.tensors)
        except ModelError:  # no graph has the nodes of both: two pictures
            side = "ba"
        else:
            return [(merged.model, marks["b"] | merged.marks)], merged.names
    return [(models["ab".index(name)], marks[name]) for name in side], {}


def _tensors(change: Change, models: Sequence[ModelProto], names: Mapping[str, str]) -> list[str]:
    """The outputs of a change's nodes in the main graph, those of a under their names in the picture."""
    if change.path or not models:
        return []
    a, b = ([name for node in nodes for name in model.graph.node[node.place].output]
            for nodes, model in zip((change.a, change.b), models, strict=True))  # fmt: skip
    return list(dict.fromkeys([*b, *(names.get(name, name) for name in a)]))


def _notes(thing: ModelDiff, tensors: Sequence[Sequence[str]]) -> dict[str, str]:
    """What has changed, by the outputs of the nodes that it concerns."""
    notes: dict[str, str] = {}
    for change, names in zip(thing.changes, tensors, strict=True):
        for name in names:
            notes[name] = "\n".join([notes.get(name, ""), *format_change(change)])
    return notes


def _changes_table(thing: ModelDiff, keys: Sequence[Sequence[str]]) -> str:
    rows = [_row(change) for change in thing.changes]
    title = f"{len(rows)} change{'s' * (len(rows) != 1)}"
    return (
        table_within(title, ("kind", "where", "in a", "in b", "change"), rows, _BYTES, keys=keys)
        if rows
        else ""
    )


def _row(change: Change) -> tuple[str, ...]:
    return (
        change.kind,
        change.path,
        _names(change.a),
        _names(change.b),
        "; ".join(format_change(change)),
    )


def _names(nodes: tuple[NodeAt, ...]) -> str:
    names = [
        f"{node.op} '{node.name or next(filter(None, node.outputs), '')}'" for node in nodes[:4]
    ]
    return ", ".join(names) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")


def _worst_weight(thing: ModelDiff) -> str:
    """The pictures of the weight with the worst verdict."""
    weights = [(change.values, change) for change in thing.changes if change.values is not None]
    if not weights:
        return ""
    values, change = max(weights, key=lambda weight: VERDICTS.index(weight[0].verdict))
    name = change.facts[0].a or change.facts[0].b if change.facts else ""
    return details(f"weight {sanitize(name, 80)}", part_details(values.worst))


@view.register(OpDiff)
def view_op_diff(thing: OpDiff) -> View:
    """The view of a diff of two versions of an op."""
    text = str(thing)
    parts = [headline_html(thing)]
    if thing.schema:
        parts.append(pre("\n".join(f"· {change}" for change in thing.schema)))
    if thing.source:
        parts.append(_source_diff(thing.source))
    return View(thing, f"diff of two versions: {thing.verdict}", text, join(parts))


def _source_diff(lines: tuple[str, ...]) -> str:
    body: list[str] = []
    room = _SOURCE
    for line in _coloured(lines):
        room -= len(line)
        if room < 0:
            break
        body.append(line)
    more = note(f"and {len(lines) - len(body):,} more lines") if len(body) < len(lines) else ""
    style = f"font-family:monospace;margin:6px 0;{WRAP};background:none;color:inherit"
    return f'<pre style="{style}">{chr(10).join(body)}</pre>{more}'


def _coloured(lines: tuple[str, ...]) -> Iterator[str]:
    """Lines of a unified diff with backgrounds that say the same as their signs."""
    for line in lines:
        text = html.escape(sanitize_source(line))
        background = _BACKGROUNDS.get(line[:1])
        if line.startswith("@@"):
            yield f'<span style="opacity:0.6">{text}</span>'
        elif background:
            yield f'<span style="display:inline-block;width:100%;background-color:{background}">{text}</span>'
        else:
            yield f"<span>{text}</span>"
