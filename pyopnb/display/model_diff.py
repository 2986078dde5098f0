"""What changed between two models on their graphs, and between two versions of an op in their sources."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from pyopnb.diffs.arrays.parts import VERDICTS
from pyopnb.diffs.models.changes import Change, NodeAt
from pyopnb.diffs.models.diff import ModelDiff, format_change
from pyopnb.diffs.ops import OpDiff
from pyopnb.display.array_diff import badge, charts, described
from pyopnb.display.budget import graph, within
from pyopnb.display.html import details, image, note, page, pre
from pyopnb.display.svg.chart import card
from pyopnb.display.view import View
from pyopnb.ops.errors import FeedError, sanitize

__all__ = ["models", "versions"]

_BYTES = 45_000  # of the table
_SOURCE = 100_000  # characters of a source's diff
_LINE = "display:inline-block;width:100%"
_GROUNDS = {"+": "rgba(47,143,78,0.22)", "-": "rgba(209,69,59,0.22)"}
_OF_A = ("removed", "fused", "split", "exchanged", "folded")
_SIDES = ("a", "b", "both")


def models(thing: ModelDiff, *, side: str | None = None, **options: Any) -> View:
    """The drawing of what sets two models apart.

    Parameters
    ----------
    thing : ModelDiff
    side : str, optional
        Which model is drawn: ``"a"``, ``"b"`` or ``"both"``. Without it b, and a as well where nodes of it are gone.
    **options
        What the drawing of a model takes.
    """
    if side is not None and side not in _SIDES:
        raise FeedError("show, side", expected=", ".join(_SIDES), got=sanitize(side), next='side="both"')
    text = str(thing)
    title = f"diff of two models: {thing.verdict}"
    head = [badge(thing.verdict), pre(text.removeprefix(f"{thing.verdict}: "))]
    tables = [part for part in (_table(thing), _weight(thing)) if part]
    if thing.models is None:
        parts = [*head, note("the models are not here any more, so there is no picture"), *tables]
        return View(thing, title, text, page(parts))
    gone = any(change.kind in _OF_A and change.a for change in thing.changes)
    drawn = {"a", "b"} if side == "both" or (side is None and gone) else {side or "b"}
    second = graph(thing.models[1], {"marks": _marks(thing, "b"), **options}, head, tables) if "b" in drawn else None
    first = None
    if "a" in drawn:
        before = [*head, second.body] if second else head
        first = graph(thing.models[0], {"marks": _marks(thing, "a"), **options}, before, tables)
    pictures = [details(name, one.body, open=True) for name, one in (("b", second), ("a", first)) if one is not None]
    picture = second or first
    return View(thing, title, text, page([*head, *pictures, *tables]), picture.svg if picture else "")


def _marks(thing: ModelDiff, side: str) -> dict[int | str, str]:
    """The badges of the main graph's nodes: bodies and functions are in the table."""
    marks: dict[int | str, str] = {}
    for change in thing.changes:
        if change.path:
            continue
        for node in getattr(change, side):
            if node.place not in marks:
                marks[node.place] = "changed" if change.kind == "weight" else change.kind
    return marks


def _table(thing: ModelDiff) -> str:
    rows = [_row(change) for change in thing.changes]
    if not rows:
        return ""
    return within(f"{len(rows)} change{'s' * (len(rows) != 1)}", ("kind", "where", "in a", "in b", "what"), rows, _BYTES)


def _row(change: Change) -> tuple[str, ...]:
    return change.kind, change.path, _listed(change.a), _listed(change.b), "; ".join(format_change(change))


def _listed(nodes: tuple[NodeAt, ...]) -> str:
    said = [f"{node.op} '{node.name or next(filter(None, node.outputs), '')}'" for node in nodes[:4]]
    return ", ".join(said) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")


def _weight(thing: ModelDiff) -> str:
    """The pictures of the weight that is farthest apart."""
    held = [(change.values, change) for change in thing.changes if change.values is not None]
    if not held:
        return ""
    values, worst = max(held, key=lambda one: VERDICTS.index(one[0].verdict))
    part = values.worst
    drawn = charts(part)
    picture = f'<div style="margin:6px 0">{image(card(drawn, "weight"), described(part))}</div>' if drawn else ""
    name = worst.facts[0].a or worst.facts[0].b if worst.facts else ""
    return details(f"weight {sanitize(name, 80)}", picture + pre(str(values)))


def versions(thing: OpDiff) -> View:
    """The drawing of what sets two versions of an op apart."""
    text = str(thing)
    head = text.partition("\n")[0].removeprefix(f"{thing.verdict}: ")
    parts = [badge(thing.verdict), pre(head)]
    if thing.schema:
        parts.append(pre("\n".join(f"· {one}" for one in thing.schema)))
    if thing.source:
        parts.append(_source(thing.source))
    return View(thing, f"diff of two versions: {thing.verdict}", text, page(parts))


def _source(lines: tuple[str, ...]) -> str:
    made = list(_coloured(lines))
    body, left = [], _SOURCE
    for line in made:
        left -= len(line)
        if left < 0:
            break
        body.append(line)
    more = note(f"and {len(made) - len(body):,} more lines") if len(body) < len(made) else ""
    style = "font-family:monospace;margin:6px 0;white-space:pre-wrap;background:none;color:inherit"
    return f'<pre style="{style}">{chr(10).join(body)}</pre>{more}'


def _coloured(lines: tuple[str, ...]) -> Iterator[str]:
    """Signs tell what the colours tell."""
    for line in lines:
        text = html.escape("".join(sanitize(line[at : at + 200]) for at in range(0, len(line), 200)).expandtabs(4))
        ground = _GROUNDS.get(line[:1])
        if line.startswith("@@"):
            yield f'<span style="opacity:0.6">{text}</span>'
        else:
            yield f'<span style="{_LINE};background-color:{ground}">{text}</span>' if ground else f"<span>{text}</span>"
