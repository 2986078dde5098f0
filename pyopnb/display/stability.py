"""How steady the numbers of a model are, as a table."""

from __future__ import annotations

from pyopnb.common import plural
from pyopnb.diffs import findings
from pyopnb.display.budget import table_within
from pyopnb.display.page.markup import escape, join, note, paragraph
from pyopnb.display.views import View, view

__all__ = ["view_stability"]

# The table takes at most this many bytes.
_BYTES = 80_000


@view.register(findings.Stability)
def view_stability(thing: findings.Stability) -> View:
    """Show in which ways a model gives other numbers."""
    rows = []
    notes = []
    for row in thing.rows:
        name = row.name
        if row.diff is None:
            blank = ("",) * (len(findings.HEAD) - 1)
            rows.append((name, "", row.reason, *blank, ""))
            continue
        # The outputs with the largest differences come first, each in a row.
        worst = row.diff.worst
        parts = [worst, *(part for part in row.diff.parts if part is not worst)]
        for part in parts:
            node = ""
            if part is worst:
                node = row.node
            output = str(part.path[0])
            rows.append((name, output, *row.cells(part), node))
            name = ""
        if row.reason:
            notes.append(note(f"{row.name}: {row.reason}"))
    head = ("against the usual run", "output", *findings.HEAD, "first node")
    count = plural(len(thing.rows), "way")
    table = table_within(f"{count} to run it", head, rows, most=_BYTES, open=True)
    body = join([paragraph(f"<b>{escape(thing.headline)}</b>"), table, *notes])
    return View(thing, thing.headline, str(thing), body)
