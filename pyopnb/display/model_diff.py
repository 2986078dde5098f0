"""A diff of two models on their graphs, and of two versions of an op in their sources."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from pyopnb.diffs.arrays.parts import VERDICTS
from pyopnb.diffs.models.changes import Change, NodeAt
from pyopnb.diffs.models.diff import ModelDiff, format_change
from pyopnb.diffs.ops import OpDiff
from pyopnb.display.array_diff import headline_html, part_details
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.glossary import glossary
from pyopnb.display.html import details, join, note, pre
from pyopnb.display.view import View
from pyopnb.ops.errors import FeedError, sanitize, sanitize_source

__all__ = ["view_model_diff", "view_op_diff"]

_BYTES = 45_000  # of the table
_SOURCE = 100_000  # characters of a source's diff
_BACKGROUNDS = {"+": "rgba(47,143,78,0.22)", "-": "rgba(209,69,59,0.22)"}
_IN_A = ("removed", "fused", "split", "exchanged", "folded")  # changes that b does not show
_MAX_LINES = 4  # changes above the picture
_SIDES = ("a", "b", "both")


def view_model_diff(thing: ModelDiff, *, side: str | None = None, **options: Any) -> View:
    """The view of a diff of two models.

    Parameters
    ----------
    thing : ModelDiff
    side : str, optional
        Which model is drawn: ``"a"``, ``"b"`` or ``"both"``. By default b, and a as well if nodes of it are missing in b.
    **options
        As of `view_model`.

    Returns
    -------
    View

    Raises
    ------
    FeedError
        There is no such side.
    """
    if side is not None and side not in _SIDES:
        raise FeedError("show, side", expected=", ".join(_SIDES), got=sanitize(side), next='side="both"')
    text = str(thing)
    title = f"diff of two models: {thing.verdict}"
    lines = [line for change in thing.changes for line in format_change(change)][:_MAX_LINES]
    summary = [headline_html(thing), *([pre("\n".join(lines))] if lines else [])]
    tables = [part for part in (_changes_table(thing), _worst_weight(thing)) if part]
    tables.append(glossary(*summary, *tables))
    if thing.models is None:
        remark = note("the models are no longer available, so there is no picture")
        return View(thing, title, text, join([*summary, remark, *tables]))
    if side is None:
        side = "both" if any(change.kind in _IN_A and change.a for change in thing.changes) else "b"
    views: list[View] = []
    pictures: list[str] = []
    for name in ("b", "a") if side == "both" else (side,):
        model = thing.models[name == "b"]
        view = graph_within(model, {"marks": _marks(thing, name), **options}, [*summary, *(v.body for v in views)], tables)
        views.append(view)
        pictures.append(details(name, view.body, open=True))
    return View(thing, title, text, join([*summary, *pictures, *tables]), views[0].draw)


def _marks(thing: ModelDiff, side: str) -> dict[int | str, str]:
    """The badges of the main graph's nodes; changes in bodies and functions are in the table."""
    marks: dict[int | str, str] = {}
    for change in thing.changes:
        if not change.path:
            for node in getattr(change, side):
                marks.setdefault(node.place, "changed" if change.kind == "weight" else change.kind)
    return marks


def _changes_table(thing: ModelDiff) -> str:
    rows = [_row(change) for change in thing.changes]
    title = f"{len(rows)} change{'s' * (len(rows) != 1)}"
    return table_within(title, ("kind", "where", "in a", "in b", "change"), rows, _BYTES) if rows else ""


def _row(change: Change) -> tuple[str, ...]:
    return change.kind, change.path, _names(change.a), _names(change.b), "; ".join(format_change(change))


def _names(nodes: tuple[NodeAt, ...]) -> str:
    names = [f"{node.op} '{node.name or next(filter(None, node.outputs), '')}'" for node in nodes[:4]]
    return ", ".join(names) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")


def _worst_weight(thing: ModelDiff) -> str:
    """The pictures of the weight with the worst verdict."""
    weights = [(change.values, change) for change in thing.changes if change.values is not None]
    if not weights:
        return ""
    values, change = max(weights, key=lambda weight: VERDICTS.index(weight[0].verdict))
    name = change.facts[0].a or change.facts[0].b if change.facts else ""
    return details(f"weight {sanitize(name, 80)}", part_details(values.worst))


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
    style = "font-family:monospace;margin:6px 0;white-space:pre-wrap;background:none;color:inherit"
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
