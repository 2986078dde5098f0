"""Show the nodes of a quantized model by their cost: a table with bars."""

from __future__ import annotations

from pyopnb.common import plural
from pyopnb.diffs import findings
from pyopnb.display.budget import table_within
from pyopnb.display.page.bars import bar_of
from pyopnb.display.page.markup import escape, join, note, paragraph
from pyopnb.display.views import View, view

__all__ = ["view_sensitivity"]

# The table takes at most this many bytes.
_BYTES = 60_000


@view.register(findings.Sensitivity)
def view_sensitivity(thing: findings.Sensitivity) -> View:
    """Show which nodes of a quantized model cost most."""
    text = str(thing)
    title = text.partition("\n")[0]
    largest = max((node.gain for node in thing.nodes), default=0.0)
    rows = []
    for node in thing.nodes:
        op = node.op.removeprefix("::")
        tensors = ", ".join(node.tensors)
        gain = f"{node.gain:+.2f}"
        rows.append((node.name, op, gain, bar_of(node.gain, largest), f"{node.sqnr:.2f}", tensors))
    head = ("node", "op", "gain in float, dB", "", "then, dB", "what is rounded there")
    count = plural(len(rows), "node")
    table = table_within(f"{count}, those first that cost most", head, rows, most=_BYTES, open=True)
    advice = note(str(thing).splitlines()[-1])
    body = join([paragraph(f"<b>{escape(title)}</b>"), advice, table])
    return View(thing, title, text, body)
