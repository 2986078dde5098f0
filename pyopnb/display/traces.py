"""A trace: its graph in the colours of times or sizes, and tables of everything in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from onnx import ModelProto
from onnx.helper import make_tensor_value_info

from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.html import details, escape, join, note
from pyopnb.display.tensors import describe
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.models.nodes import first_output
from pyopnb.ops.messages import sanitize
from pyopnb.ops.text_table import Table
from pyopnb.traces.summary import Summary
from pyopnb.traces.times import Times
from pyopnb.traces.trace import Trace

__all__ = ["view_trace"]

_ROWS, _TIMED = 120, 40
_BYTES = 45_000  # of the table of tensors: the graph needs as much as both tables
_VERSIONS = 50
_UNITS = {"time": "µs", "size": "largest |x|", "std": "σ"}
_WARNING = "border-left:4px solid #b7791f;padding:4px 10px;margin:4px 0 8px 0"


def view_trace(thing: Trace, *, by: str | None = None, **options: Any) -> View:
    """The view of a trace.

    Parameters
    ----------
    thing : Trace
    by : str, optional
        What colours the nodes: ``"time"``, ``"size"`` (the largest magnitude of the first output) or ``"std"``. By default the
        time if the trace has times, and else the size.
    **options
        As of `view_model`.

    Returns
    -------
    View

    Raises
    ------
    InputError
        The trace cannot be coloured like that.
    """
    by = by or ("time" if thing.times else "size")
    if by not in _UNITS or (by == "time" and not thing.times):
        expected = "time, size or std" if thing.times else "size or std: nothing was timed"
        next_ = "session.trace(…, times=True)" if by == "time" else 'by="size"'
        raise InputError("show, by", expected=expected, got=sanitize(by), next=next_)
    makers = {name: node.op_type for node in thing.model.graph.node for name in node.output if name}
    marks = {}
    if thing.first_nonfinite is not None and thing.first_nonfinite in makers:
        marks[thing.first_nonfinite] = (
            "NaN" if thing.summaries[thing.first_nonfinite].nan else "Inf"
        )
    tables = list(_tables(thing, makers))
    head = [
        f'<div style="{_WARNING}"><b style="color:#b7791f">⚠</b> {escape(text, 1000)}</div>'
        for text in _warnings(thing, makers)
    ]
    wanted = {
        "colours": _values(thing, by),
        "legend": _UNITS[by],
        "marks": marks,
        "notes": _notes(thing),
    }
    picture = graph_within(_with_types(thing, makers), {**wanted, **options}, head, tables)
    title = repr(thing).partition("\n")[0]
    return View(
        thing,
        title,
        repr(thing),
        join([*head, picture.body, *tables]),
        picture.draw,
        canvas=picture.canvas,
    )


def _with_types(thing: Trace, makers: Mapping[str, str]) -> ModelProto:
    """The model with the types of the trace, which says more than the model itself."""
    model = ModelProto()
    model.CopyFrom(thing.model)
    types = {
        name: summary.type
        for name, summary in thing.summaries.items()
        if summary.type and summary.type.dtype
    }
    declared = [info for info in model.graph.value_info if info.name not in types]
    outputs = {info.name for info in model.graph.output}
    del model.graph.value_info[:]
    model.graph.value_info.extend(declared)
    for name, kind in types.items():
        if name in makers and name not in outputs and kind.dtype is not None:
            model.graph.value_info.append(make_tensor_value_info(name, kind.dtype.onnx, kind.shape))
    return model


def _warnings(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.exposure is not None and not thing.exposure.same:
        yield str(thing.exposure)
    if thing.unchecked:
        yield f"not compared with an unexposed run: {thing.unchecked}"
    if thing.first_nonfinite is not None:
        summary = describe(thing.summaries[thing.first_nonfinite])
        maker = makers.get(thing.first_nonfinite, "a feed")
        yield f"the first NaN or infinity is in {sanitize(thing.first_nonfinite)}, from {maker}: {summary}"


def _notes(thing: Trace) -> dict[str, str]:
    """What is known of each tensor, and of the time of the node that made it."""
    notes = {name: describe(summary) for name, summary in thing.summaries.items()}
    times = thing.times
    for node in () if times is None else thing.model.graph.node:
        name = first_output(node)
        if times is not None and (time := times.find(name)) is not None:
            notes[name] = f"{notes.get(name, '')}\n{time}, {times.share(time.total)}"
    return notes


def _values(thing: Trace, by: str) -> dict[str, float]:
    """The number of each node, by its first output."""
    firsts = {first_output(node) for node in thing.model.graph.node}
    if by == "time" and thing.times is not None:
        return {name: time.total for name in firsts if (time := thing.times.find(name)) is not None}
    summaries = {
        name: s
        for name, s in thing.summaries.items()
        if name in firsts and s.kind == "number" and s.count
    }
    if by == "std":
        return {
            name: math.inf if s.has_nonfinite else float(s.std or 0.0)
            for name, s in summaries.items()
        }
    return {name: _magnitude(summary) for name, summary in summaries.items()}


def _magnitude(summary: Summary) -> float:
    if summary.has_nonfinite or summary.least is None:
        return math.inf
    return max(abs(float(summary.least)), abs(float(summary.greatest)))


def _tables(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.times:
        yield _times_table(thing.times)
    rows = [
        (name, makers.get(name, "feed"), describe(summary))
        for name, summary in thing.summaries.items()
    ]
    kept = rows
    if len(rows) > _ROWS:  # the first, and those with NaN or infinities
        nonfinite = {name for name, summary in thing.summaries.items() if summary.has_nonfinite}
        kept = [
            row for number, row in enumerate(rows) if number < _ROWS // 2 or row[0] in nonfinite
        ][:_ROWS]
    more = "" if len(kept) == len(rows) else f", {len(kept)} of them here"
    head, names = ("tensor", "from", "value"), [(row[0],) for row in kept]
    yield table_within(
        f"{len(rows)} tensors{more}", head, kept, _BYTES, open=not thing.times, keys=names
    )
    if thing.versions:
        versions = [
            (str(version), sanitize(version.schema))
            for version in list(thing.versions.values())[:_VERSIONS]
        ]
        title = f"{len(thing.versions)} op{'s' * (len(thing.versions) != 1)} of the registry"
        yield details(title, Table(("version", "schema"), versions)._repr_html_())


def _times_table(times: Times) -> str:
    ranked = sorted(times.items(), key=lambda entry: -entry[1].total)
    slowest = [time for _, time in ranked]
    ops = any(time.python is not None for time in slowest)
    rows = []
    for time in slowest[:_TIMED]:
        bar = "▇" * max(1, round(16 * time.total / slowest[0].total)) if time.total else ""
        numbers = f"{time.total:,.0f}", times.share(time.total), bar, f"{time.kernel:,.0f}"
        split = (
            ["" if part is None else f"{part:,.0f}" for part in (time.python, time.crossing)]
            if ops
            else []
        )
        rows.append((sanitize(time.node), sanitize(time.op_type), *numbers, *split))
    sums = [("not attributed to a node", times.unattributed), ("the whole run", times.total)]
    if rest := slowest[_TIMED:]:
        sums.insert(0, (f"{len(rest):,} faster ones", sum(time.total for time in rest)))
    head = (
        "node",
        "op",
        "µs",
        "share",
        "",
        "in kernels",
        *(("in Python", "crossing") if ops else ()),
    )
    empty = [""] * (len(head) - 4)
    rows += [(what, "", f"{time:,.0f}", times.share(time), *empty) for what, time in sums]
    names = [time.outputs or (name,) for name, time in ranked[:_TIMED]]
    runs = f"the mean of the middle half of {times.runs} runs" if times.runs > 1 else "timed once"
    title = f"times: a run of {times.total:,.0f} µs, {runs}"
    about = " ".join(_about_times(times))
    return details(title, Table(head, rows, keys=names)._repr_html_() + note(about), open=True)


def _about_times(times: Times) -> Iterator[str]:
    yield "Timed with the trace's tensors exposed. Nodes joined by + ran as one."
    unprofiled = (
        ""
        if times.unprofiled is None
        else f": a run without it, nothing exposed, took {times.unprofiled:,.0f} µs"
    )
    yield f"ONNX Runtime's profile counts whole microseconds, and itself takes some for each node{unprofiled}."
    if times.looking:
        yield f"The trace's own looks at tensors took {times.looking:,.0f} µs, which are not in the table."
