"""Graphs and tables that leave room for each other in one output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyopnb.display.html import LARGEST, details
from pyopnb.display.models import drawn
from pyopnb.display.view import View
from pyopnb.ops.text_table import Table

__all__ = ["graph", "within"]


def graph(model: Any, options: Mapping[str, Any], head: Sequence[str], tables: Sequence[str]) -> View:
    """The picture of a model, so small that what stands above and below it has room."""
    room = LARGEST - 2_000 - sum(len(part.encode()) for part in (*head, *tables))
    options = dict(options)
    for most in (options.pop("most", 4_000), 400, 100, 30):
        picture = drawn(model, **options, most=most)
        if len(picture.body.encode()) <= room:
            break
    return picture


def within(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], room: int, open: bool = False) -> str:
    """A folded table, cut where it would be too large."""
    while len(rows) > 1 and sum(len(cell.encode()) + 170 for row in rows for cell in row) > room:
        rows = rows[: len(rows) * 3 // 4]
        title = title if title.endswith("…") else f"{title}, the first …"
    return details(title, Table(head, rows)._repr_html_(), open=open)
