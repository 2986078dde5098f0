"""Show the nodes of a quantized model by their cost: a table with bars, also as a picture."""

from __future__ import annotations

import math

from pyopnb.diffs.sensitivity import Sensitivity
from pyopnb.display.bars import bar_of
from pyopnb.display.budget import table_within
from pyopnb.display.html import escape, join, note, paragraph
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.colors import INK
from pyopnb.display.svg.shapes import Drawing, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit
from pyopnb.display.view import View, view
from pyopnb.engine.ops.messages import plural

__all__ = ["view_sensitivity"]

# The table takes at most this many bytes.
_BYTES = 60_000
# The picture has at most this many bars; their names and the longest bar are this wide, in pixels.
_BARS, _NAMES, _LONGEST, _ROW = 30, 200, 240, 18
_COLOR = "#0077bb"


@view.register(Sensitivity)
def view_sensitivity(thing: Sensitivity) -> View:
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
    # Where one node costs everything, its gain is infinite.
    if not 0 < largest < math.inf:
        return View(thing, title, text, body)
    return View(thing, title, text, body, draw=lambda: _draw(thing, title))


def _draw(thing: Sensitivity, title: str) -> Drawing:
    """Draw the gains as bars, the largest on top."""
    width = _NAMES + _LONGEST + 60
    shapes: list[Shape] = []
    nodes = thing.nodes[:_BARS]
    for number, node in enumerate(nodes):
        y = number * _ROW
        # A node that costs nothing has no bar.
        length = _LONGEST * max(0.0, node.gain) / nodes[0].gain
        name = fit(node.name, 11, _NAMES - 8)
        shapes.append(Text(_NAMES - 8, y + 12, name, 11, INK, "end"))
        shapes.append(Rectangle(_NAMES, y + 2, length, _ROW - 6, fill=_COLOR))
        shapes.append(Text(_NAMES + length + 6, y + 12, f"{node.gain:+.2f}", 11, INK))
    chart = Chart(width, len(nodes) * _ROW, shapes, "gain at the outputs in float, dB")
    return page([chart], title)
