"""Graphs and tables that leave space for each other in one output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyopnb.display.html import MAX_BYTES, details
from pyopnb.display.models import view_model
from pyopnb.display.view import View
from pyopnb.ops.text_table import Table

__all__ = ["graph_within", "table_within"]

_LEAST = 30_000  # bytes of a graph


def graph_within(
    model: Any, options: Mapping[str, Any], head: Sequence[str], tables: Sequence[str]
) -> View:
    """The view of a model, small enough to leave space for the HTML above and below it."""
    room = MAX_BYTES - 2_000 - sum(len(part.encode()) for part in (*head, *tables))
    return view_model(model, **options, room=max(room, _LEAST))


def table_within(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    most: int,
    open: bool = False,
    keys: Sequence[Sequence[str]] = (),
) -> str:
    """A folded table of at most about so many bytes; ``keys`` as of `Table`."""
    while len(rows) > 1 and sum(len(cell.encode()) + 170 for row in rows for cell in row) > most:
        rows = rows[: len(rows) * 3 // 4]
        title = title if title.endswith("…") else f"{title}, the first …"
    return details(title, Table(head, rows, keys=keys[: len(rows)])._repr_html_(), open=open)
