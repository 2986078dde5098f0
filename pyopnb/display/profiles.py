"""A profile: its graph in the colours of times, and tables of nodes and op types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyopnb.diffs.profiles import ProfileDiff
from pyopnb.display.array_diff import headline_html
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.html import details, escape, join, note, paragraph
from pyopnb.display.view import View, view
from pyopnb.errors import InputError
from pyopnb.models.nodes import first_output
from pyopnb.ops.messages import closest, sanitize
from pyopnb.ops.text_table import Table
from pyopnb.traces.profile import NodeProfile, Profile
from pyopnb.traces.spread import microseconds

__all__ = ["view_profile", "view_profile_diff"]

_ROWS = 40
_BYTES = 120_000  # of the table of a diff
_COLOURS = ("time", "python")
_OVERHEAD = 1.05  # times the runs without the profile, from which on it is said


@view.register(Profile)
def view_profile(thing: Profile, *, by: str = "time", **options: Any) -> View:
    """The view of a profile.

    Parameters
    ----------
    thing : Profile
    by : {"time", "python"}
        What colours the nodes: the median time, or the part of it in Python.
    **options
        As of `view_model`.

    Returns
    -------
    View

    Raises
    ------
    InputError
        The profile cannot be coloured like that.
    """
    if by not in _COLOURS:
        next_ = closest(str(by), _COLOURS) or "time"
        raise InputError(
            "show, by", expected=" or ".join(_COLOURS), got=sanitize(by), next=f'by="{next_}"'
        )
    head = [
        paragraph(f"<b>{escape(thing.title())}</b><br>{escape(thing.headline(), 400)}"),
        *map(note, thing.remarks),
    ]
    tables = list(_tables(thing))
    legend = "median µs" if by == "time" else "median µs in Python"
    wanted = {"colours": _colours(thing, by), "legend": legend, "notes": _notes(thing)}
    picture = graph_within(thing.model, {**wanted, **options}, head, tables)
    return View(
        thing,
        thing.title(),
        repr(thing),
        join([*head, picture.body, *tables]),
        picture.draw,
        canvas=picture.canvas,
    )


@view.register(ProfileDiff)
def view_profile_diff(thing: ProfileDiff) -> View:
    """The view of a diff of two profiles.

    Returns
    -------
    View
    """
    head = ("", "node", "op", "a: median µs (middle half)", "b", "b / a", "µs more")
    parts = [
        headline_html(thing),
        table_within(f"{len(thing.nodes):,} nodes", head, thing.rows(), _BYTES, open=True),
    ]
    about = "slower, faster: the middle halves of the runs do not overlap, and the medians are over 1 µs apart"
    return View(
        thing, f"diff of two profiles: {thing.verdict}", str(thing), join([*parts, note(about)])
    )


def _main(thing: Profile) -> dict[str, NodeProfile]:
    """The profile of each node of the main graph, by its first output."""
    firsts = {first_output(node) for node in thing.model.graph.node}
    return {
        name: node
        for node in thing.nodes
        if not node.inside
        for name in node.outputs
        if name in firsts
    }


def _colours(thing: Profile, by: str) -> dict[str, float]:
    if by == "time":
        return {name: node.total.median for name, node in _main(thing).items()}
    return {
        name: 0.0 if node.python is None else node.python.median
        for name, node in _main(thing).items()
    }


def _notes(thing: Profile) -> dict[str, str]:
    found = {}
    for name, node in _main(thing).items():
        group = f" ({node.node})" if len(node.outputs) > 1 else ""
        found[name] = f"\n{node}{group}, {100 * thing.share(node.totals):.1f} %"
    return found


def _tables(thing: Profile) -> Iterator[str]:
    title = f"{len(thing.nodes):,} nodes" if len(thing.nodes) != 1 else "1 node"
    yield details(
        title, thing.table(_ROWS)._repr_html_() + note(" ".join(_about(thing))), open=True
    )
    rows = [
        (
            sanitize(row.op_type, 60),
            f"{row.nodes:,}",
            f"{int(row.calls.max()):,}",
            microseconds(row.own.median),
            row.own.range,
            f"{100 * thing.share(row.owns):.1f} %",
        )
        for row in thing.op_types
    ]
    head = ("op", "nodes", "calls", "median µs", "middle half", "share")
    about = (
        note("A node with bodies counts here without the nodes in them.")
        if any(node.inside for node in thing.nodes)
        else ""
    )
    yield details(
        f"{len(rows):,} op type{'s' * (len(rows) != 1)}",
        Table(head, rows[:_ROWS])._repr_html_() + about,
    )


def _about(thing: Profile) -> Iterator[str]:
    outside = thing.mean(thing.walls - thing.sessions)
    yield (
        "Microseconds. Shares are those of the mean run among the middle half, and add up; medians do not. Of what is not "
        f"attributed, {microseconds(outside)} µs passed outside ONNX Runtime, where feeds are checked and outputs handed out."
    )
    if any(len(node.outputs) > 1 for node in thing.nodes):
        yield "Nodes joined by + ran as one."
    if any(node.inside for node in thing.nodes):
        yield "What is in a body is part of its node's time, and its share is in brackets."
    if thing.unprofiled is not None and thing.wall.median > _OVERHEAD * thing.unprofiled.median:
        yield f"ONNX Runtime's profile itself takes time for each node: a run without it took {thing.unprofiled}."
    yield "ONNX Runtime counts whole microseconds."
