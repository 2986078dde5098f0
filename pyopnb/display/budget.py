"""Graphs and tables that leave space for each other in one output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyopnb.common import Table
from pyopnb.display.models import view_model
from pyopnb.display.page.markup import MAX_BYTES, details, join
from pyopnb.display.views import View

__all__ = ["graph_view", "graph_within", "table_within"]

# A graph gets at least this many bytes, however large the tables are.
_LEAST = 30_000
# A table below a graph takes at most this many bytes, because the graph needs twice as much.
_TABLE = 45_000
# A cell of a table takes about this many bytes besides its text.
_CELL = 170


def graph_within(
    model: Any, options: Mapping[str, Any], head: Sequence[str], tables: Sequence[str]
) -> View:
    """Show a model, small enough to leave space for the HTML above and below it."""
    used = sum(len(part.encode()) for part in (*head, *tables))
    return view_model(model, **options, room=max(MAX_BYTES - 2_000 - used, _LEAST))


def graph_view(
    thing: Any,
    title: str,
    text: str,
    model: Any,
    options: Mapping[str, Any],
    head: Sequence[str],
    tables: Sequence[str],
) -> View:
    """Show a thing as a graph with HTML above and below it."""
    graph = graph_within(model, options, head, tables)
    body = join([*head, graph.body, *tables])
    return View(thing, title, text, body, graph.draw, graph.canvas)


def table_within(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    most: int = _TABLE,
    open: bool = False,
    keys: Sequence[Sequence[str]] = (),
) -> str:
    """Fold a table of at most about ``most`` bytes; ``keys`` as for `Table`."""
    size = 0
    for count, row in enumerate(rows):
        size += sum(len(cell.encode()) + _CELL for cell in row)
        if size > most and count:
            rows, title = rows[:count], f"{title}, the first …"
            break
    return details(title, Table(head, rows, keys=keys[: len(rows)])._repr_html_(), open=open)
