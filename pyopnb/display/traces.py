"""A trace: its graph in the colours of times or sizes, and tables of everything in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from onnx import ModelProto
from onnx.helper import make_tensor_value_info

from pyopnb.display.bars import bar_of
from pyopnb.display.budget import graph_within, table_within
from pyopnb.display.html import details, escape, join, note
from pyopnb.display.view import View, view
from pyopnb.errors import InputError
from pyopnb.models.nodes import first_output
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.text_table import Table
from pyopnb.traces.summary import Summary
from pyopnb.traces.times import Times
from pyopnb.traces.trace import Trace

__all__ = ["view_trace"]

_ROWS, _TIMED = 120, 40
# The table of tensors takes at most this many bytes, as the graph needs as much as both tables.
_BYTES = 45_000
_VERSIONS = 50
_LEGENDS = {"time": "time", "size": "largest |x|", "std": "σ"}
_WARNING = "border-left:4px solid #b7791f;padding:4px 10px;margin:4px 0 8px 0"


@view.register(Trace)
def view_trace(thing: Trace, *, by: str | None = None, **options: Any) -> View:
    """Show a trace.

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
    if by not in _LEGENDS or (by == "time" and not thing.times):
        expected = "size or std: nothing was timed"
        if thing.times:
            expected = "time, size or std"
        next_ = 'by="size"'
        if by == "time":
            next_ = "session.trace(…, times=True)"
        raise InputError("show, by", expected=expected, got=sanitize(by), next=next_)
    # What made each tensor: the type of a node; the feeds are not in it.
    makers = {}
    for node in thing.model.graph.node:
        for name in node.output:
            makers[name] = node.op_type
    marks = {}
    first = thing.first_nonfinite
    if first is not None and first in makers:
        marks[first] = "NaN" if thing.summaries[first].nan else "Inf"
    # The tables come first, as the picture gets the bytes that they leave.
    tables = list(_tables(thing, makers))
    head = []
    for text in _warnings(thing, makers):
        sign = '<b style="color:#b7791f">⚠</b>'
        head.append(f'<div style="{_WARNING}">{sign} {escape(text, 1000)}</div>')
    defaults = {
        "colours": _colours(thing, by),
        "legend": _LEGENDS[by],
        "unit": "s" if by == "time" else "",
        "marks": marks,
        "notes": _notes(thing),
    }
    picture = graph_within(_with_types(thing, makers), {**defaults, **options}, head, tables)
    return View(
        thing,
        repr(thing).partition("\n")[0],
        repr(thing),
        join([*head, picture.body, *tables]),
        draw=picture.draw,
        canvas=picture.canvas,
    )


def _with_types(thing: Trace, makers: Mapping[str, str]) -> ModelProto:
    """Copy the model with the types of the trace, which says more than the model itself."""
    model = ModelProto()
    model.CopyFrom(thing.model)
    # An output keeps its declared type, whose sizes have names.
    declared = {info.name for info in model.graph.output}
    infos = {info.name: info for info in thing.model.graph.value_info}
    for name, summary in thing.summaries.items():
        tensor_type = summary.type
        if tensor_type is None or tensor_type.dtype is None:
            continue
        infos.pop(name, None)
        if name in makers and name not in declared:
            infos[name] = make_tensor_value_info(name, tensor_type.dtype.onnx, tensor_type.shape)
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos.values())
    return model


def _warnings(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.exposure is not None and not thing.exposure.same:
        yield str(thing.exposure)
    if thing.unchecked:
        yield f"not compared with an unexposed run: {thing.unchecked}"
    first = thing.first_nonfinite
    if first is not None:
        maker = makers.get(first, "a feed")
        where = f"{sanitize(first)}, from {maker}: {thing.summaries[first]}"
        yield f"the first NaN or infinity is in {where}"


def _notes(thing: Trace) -> dict[str, str]:
    """Tell of each tensor what it is, and how long the node took that made it."""
    notes = {name: str(summary) for name, summary in thing.summaries.items()}
    if thing.times is None:
        return notes
    for node in thing.model.graph.node:
        name = first_output(node)
        time = thing.times.find(name)
        if time is not None:
            share = thing.times.share(time.total)
            notes[name] = f"{notes.get(name, '')}\n{time}, {share}"
    return notes


def _colours(thing: Trace, by: str) -> dict[str, float]:
    """Return the number of each node, by its first output."""
    numbers = {}
    for node in thing.model.graph.node:
        name = first_output(node)
        summary = thing.summaries.get(name)
        if by == "time" and thing.times is not None:
            time = thing.times.find(name)
            if time is not None:
                numbers[name] = time.total / 1e6
        elif summary is not None and summary.kind == "number" and summary.count:
            numbers[name] = _size(summary, by)
    return numbers


def _size(summary: Summary, by: str) -> float:
    # The scale draws what is not finite in a colour that no number has.
    if summary.has_nonfinite or summary.least is None:
        return math.inf
    if by == "std":
        return float(summary.std or 0.0)
    return max(abs(float(summary.least)), abs(float(summary.greatest)))


# ---- tables


def _tables(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.times:
        yield _times_table(thing.times)
    yield _tensors_table(thing, makers)
    if thing.versions:
        rows = []
        for version in list(thing.versions.values())[:_VERSIONS]:
            rows.append((str(version), sanitize(version.schema)))
        title = f"{plural(len(thing.versions), 'op')} of the registry"
        yield details(title, Table(("version", "schema"), rows)._repr_html_())


def _tensors_table(thing: Trace, makers: Mapping[str, str]) -> str:
    names = list(thing.summaries)
    title = f"{len(names)} tensors"
    if len(names) > _ROWS:
        # The first ones stay, and those with NaN or infinities.
        kept = names[: _ROWS // 2]
        for name in names[_ROWS // 2 :]:
            if thing.summaries[name].has_nonfinite and len(kept) < _ROWS:
                kept.append(name)
        title += f", {len(kept)} of them here"
        names = kept
    rows = [(name, makers.get(name, "feed"), str(thing.summaries[name])) for name in names]
    keys = [(name,) for name in names]
    is_open = not thing.times
    return table_within(title, ("tensor", "from", "value"), rows, _BYTES, open=is_open, keys=keys)


def _times_table(times: Times) -> str:
    ranked = sorted(times.items(), key=lambda entry: -entry[1].total)
    has_python = any(time.python is not None for _, time in ranked)
    head = ["node", "op", "µs", "share", "", "in kernels"]
    if has_python:
        head += ["in Python", "crossing"]
    rows, keys = [], []
    for name, time in ranked[:_TIMED]:
        bar = bar_of(time.total, ranked[0][1].total)
        row = [sanitize(time.node), sanitize(time.op_type), f"{time.total:,.0f}"]
        row += [times.share(time.total), bar, f"{time.kernel:,.0f}"]
        if has_python:
            row += [_whole(time.python), _whole(time.crossing)]
        rows.append(row)
        keys.append(time.outputs or (name,))
    # Below the nodes stands what the run took besides them, so that the column adds up.
    for name, total in _sums(times, [time.total for _, time in ranked[_TIMED:]]).items():
        row = [name, "", f"{total:,.0f}", times.share(total)]
        rows.append(row + [""] * (len(head) - len(row)))
    runs = "timed once"
    if times.runs > 1:
        runs = f"the mean of the middle half of {times.runs} runs"
    title = f"times: a run of {times.total:,.0f} µs, {runs}"
    about = note(" ".join(_about_times(times)))
    return details(title, Table(head, rows, keys=keys)._repr_html_() + about, open=True)


def _sums(times: Times, faster: list[float]) -> dict[str, float]:
    sums = {}
    if faster:
        sums[f"{len(faster):,} faster ones"] = sum(faster)
    sums["not attributed to a node"] = times.unattributed
    sums["the whole run"] = times.total
    return sums


def _whole(microseconds: float | None) -> str:
    if microseconds is None:
        return ""
    return f"{microseconds:,.0f}"


def _about_times(times: Times) -> Iterator[str]:
    yield "Timed with the trace's tensors exposed. Nodes joined by + ran as one."
    profile = (
        "ONNX Runtime's profile counts whole microseconds, and itself takes some for each node"
    )
    if times.unprofiled is not None:
        profile += f": a run without it, nothing exposed, took {times.unprofiled:,.0f} µs"
    yield f"{profile}."
    if times.looking:
        looking = f"{times.looking:,.0f} µs, which are not in the table"
        yield f"The trace's own looks at tensors took {looking}."
