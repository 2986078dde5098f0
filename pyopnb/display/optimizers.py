"""Which optimizers changed the numbers of a model, as tables."""

from __future__ import annotations

from pyopnb.common import plural
from pyopnb.diffs import findings, trace_diffs
from pyopnb.display.budget import table_within
from pyopnb.display.page.markup import escape, join, paragraph, source
from pyopnb.display.views import View, view

__all__ = ["view_optimizers"]

# Each table takes at most this many bytes.
_BYTES = 40_000
# Verdict, largest difference, relative difference and ULP; classes are of no interest here.
_COLUMNS = 4


@view.register(trace_diffs.OptimizerDiff)
def view_optimizers(thing: trace_diffs.OptimizerDiff) -> View:
    """Show which optimizers changed the numbers, by how much, and how they rewrote nodes."""
    text = repr(thing)
    title = text.partition("\n")[0]
    ways = [("all optimizations", thing.diff)]
    if thing.remaining is not None:
        ways.append(("without these", thing.remaining))
    rows = []
    for name, diff in ways:
        row = findings.StabilityRow(name, diff)
        for part in diff.parts:
            output = str(part.path[0])
            rows.append((name, output, *row.cells(part)[:_COLUMNS]))
    head = ("against no optimizations", "output", *findings.HEAD[:_COLUMNS])
    outputs = table_within(plural(len(rows), "comparison"), head, rows, most=_BYTES, open=True)
    parts = [paragraph(f"<b>{escape(title)}</b>"), paragraph(outputs)]
    if thing.nodes:
        pairs = [tuple(line.rpartition(" → ")[::2]) for line in thing.nodes]
        count = plural(len(pairs), "group")
        summary = f"{count} of nodes that run otherwise"
        table = table_within(summary, ("nodes", "what ran"), pairs, most=_BYTES, open=True)
        parts.append(table)
    if thing.workaround:
        parts.append(paragraph("To run without them:") + source(thing.workaround))
    return View(thing, title, text, join(parts))
