"""A profile: its graph in the colors of times, and tables of nodes and op types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyopnb.common import Table, plural
from pyopnb.diffs import trace_diffs
from pyopnb.display.array_diff import headline_html
from pyopnb.display.budget import graph_view, table_within
from pyopnb.display.page.markup import details, escape, join, note, paragraph
from pyopnb.display.views import View, view
from pyopnb.engine import protos
from pyopnb.traces import Profile, Spread

__all__ = ["view_profile", "view_profile_diff"]

_ROWS = 40
# The table of a diff takes at most this many bytes.
_BYTES = 120_000
_ABOUT_DIFF = (
    "slower, faster: the middle halves of the runs do not overlap, "
    "and the medians are over 1 µs apart"
)


@view.register(Profile)
def view_profile(thing: Profile, **options: Any) -> View:
    """Show a profile, with its nodes in the colors of their median times.

    Parameters
    ----------
    **options
        As for `view_model`.
    """
    title = thing.title()
    head = [paragraph(f"<b>{escape(title)}</b><br>{escape(thing.headline(), 400)}")]
    head += map(note, thing.remarks)
    # Nodes that ONNX Runtime fused have the outputs of all of them.
    firsts = {protos.first_output(node) for node in thing.model.graph.node}
    colors: dict[str, float] = {}
    notes: dict[str, str] = {}
    for node in thing.nodes:
        group = ""
        if len(node.outputs) > 1:
            group = f" ({node.node})"
        for name in firsts.intersection(node.outputs):
            colors[name] = node.total.median / 1e6
            notes[name] = f"\n{node}{group}, {100 * thing.share(node.totals):.1f} %"
    defaults = {"colors": colors, "legend": "median time", "unit": "s", "notes": notes}
    nodes = thing.table(_ROWS)._repr_html_() + note(" ".join(_about(thing)))
    tables = [details(plural(len(thing.nodes), "node"), nodes, open=True), _op_types_table(thing)]
    model = thing.model
    return graph_view(thing, title, repr(thing), model, {**defaults, **options}, head, tables)


@view.register(trace_diffs.ProfileDiff)
def view_profile_diff(thing: trace_diffs.ProfileDiff) -> View:
    """Show a diff of two profiles."""
    head = ("", "node", "op", "a: median (middle half)", "b", "b / a", "longer by")
    title = f"{len(thing.nodes):,} nodes"
    table = table_within(title, head, thing.rows(), most=_BYTES, open=True)
    body = join([headline_html(thing), table, note(_ABOUT_DIFF)])
    return View(thing, f"diff of two profiles: {thing.verdict}", str(thing), body)


def _op_types_table(thing: Profile) -> str:
    rows = []
    for op_type, totals in list(thing.op_types.items())[:_ROWS]:
        spread = Spread.of(totals)
        share = f"{100 * thing.share(totals):.1f} %"
        rows.append((op_type, Spread.write(spread.median), spread.range, share))
    table = Table(("op", "median", "middle half", "share"), rows)._repr_html_()
    return details(plural(len(thing.op_types), "op type"), table)


def _about(thing: Profile) -> Iterator[str]:
    yield "A share is of the mean of the middle half of the runs: shares add up, medians do not."
    outside = Spread.write(thing.mean(thing.walls - thing.sessions))
    yield f"Of the time of no node, {outside} passed before and after ONNX Runtime."
    yield "Nodes joined by + ran as one. The time of a Loop, Scan or If includes its body."
    if thing.unprofiled is not None:
        yield f"Timing takes some time for each node: a run without it took {thing.unprofiled}."
    yield "ONNX Runtime times nodes in whole microseconds."
