"""The results of a map as a table."""

from __future__ import annotations

from pyopnb.batches import Batches
from pyopnb.display.page.markup import details, join, note
from pyopnb.display.views import View, view

__all__ = ["view_batches"]

_OPEN_ROWS = 12


@view.register(Batches)
def view_batches(thing: Batches) -> View:
    """Show the table of a map."""
    title = f"{len(thing.runs):,} of {thing.total:,} batches"
    table = thing.table()._repr_html_()
    folded = details(title, table, open=len(thing.runs) <= _OPEN_ROWS)
    return View(thing, title, repr(thing), join([folded, *map(note, thing.remarks())]))
