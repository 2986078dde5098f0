"""A trace: the graph in the colours of times or sizes, and a table of all that was seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from onnx import ModelProto
from onnx.helper import make_tensor_value_info

from pyopnb.display.budget import graph, within
from pyopnb.display.html import details, escaped, note, page
from pyopnb.display.tensors import line
from pyopnb.display.view import View
from pyopnb.models.nodes import first_output
from pyopnb.ops.errors import FeedError, sanitize
from pyopnb.ops.text_table import Table
from pyopnb.runtime.trace.profile import NodeTime
from pyopnb.runtime.trace.summary import Summary
from pyopnb.runtime.trace.trace import Trace

__all__ = ["trace", "warning"]

_ROWS = 120
_BYTES = 80_000  # of the tables


def trace(thing: Trace, *, by: str | None = None, **options: Any) -> View:
    """The drawing of a trace.

    Parameters
    ----------
    thing : Trace
    by : str, optional
        What colours the nodes: ``"time"``, ``"size"`` (the largest magnitude of the first output) or ``"std"``. Without it the
        time, where it was taken, and else the size.
    **options
        What the drawing of a model takes.
    """
    by = by or ("time" if thing.times else "size")
    if by not in ("time", "size", "std") or (by == "time" and not thing.times):
        kinds = "time, size or std" if thing.times else "size or std: nothing was timed"
        raise FeedError(
            "show, by", expected=kinds, got=sanitize(by), next="session.trace(…, times=True)" if by == "time" else 'by="size"'
        )
    colours, legend = _colours(thing, by)
    first = [name for name in [thing.nasty] if name is not None and name in _makers(thing)]
    marks = {name: "NaN" if thing.summaries[name].nan else "Inf" for name in first}
    tables = list(_tables(thing))
    head = [warning(text) for text in _warnings(thing)]
    title = repr(thing).partition("\n")[0]
    picture = graph(_typed(thing), {"colours": colours, "legend": legend, "marks": marks, **options}, head, tables)
    return View(thing, title, repr(thing), page([*head, picture.body, *tables]), picture.svg)


def _typed(thing: Trace) -> ModelProto:
    """The model with the types that were seen, which is more than it says itself."""
    model = ModelProto()
    model.CopyFrom(thing.model)
    seen = {name: one.type for name, one in thing.summaries.items() if one.type is not None and one.type.dtype is not None}
    kept = [info for info in model.graph.value_info if info.name not in seen]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    made = _makers(thing).keys() - {info.name for info in model.graph.output}
    for name, kind in seen.items():
        if name in made and kind.dtype is not None:
            model.graph.value_info.append(make_tensor_value_info(name, kind.dtype.onnx, kind.shape))
    return model


def warning(text: str) -> str:
    """A sentence that must not be missed."""
    style = "border-left:4px solid #b7791f;padding:4px 10px;margin:4px 0 8px 0"
    return f'<div style="{style}"><b style="color:#b7791f">⚠</b> {escaped(text, 1000)}</div>'


def _warnings(thing: Trace) -> Iterator[str]:
    if thing.exposure is not None and not thing.exposure.same:
        yield str(thing.exposure)
    if thing.unchecked:
        yield f"not compared with an unexposed run: {thing.unchecked}"
    if thing.nasty is not None:
        made = _makers(thing).get(thing.nasty, "a feed")
        yield f"the first NaN or infinity is in {sanitize(thing.nasty)}, from {made}: {line(thing.summaries[thing.nasty])}"


def _makers(thing: Trace) -> dict[str, str]:
    return {name: node.op_type for node in thing.model.graph.node for name in node.output if name}


def _colours(thing: Trace, by: str) -> tuple[dict[str, float], str]:
    firsts = {first_output(node) for node in thing.model.graph.node}
    if by == "time":
        return {name: time.total for name, time in (thing.times or {}).items() if name in firsts}, "µs"
    seen = {name: one for name, one in thing.summaries.items() if name in firsts and one.kind == "number" and one.count}
    if by == "std":
        return {name: math.inf if one.nasty else float(one.std or 0.0) for name, one in seen.items()}, "σ"
    return {name: _size(one) for name, one in seen.items()}, "largest |x|"


def _size(one: Summary) -> float:
    if one.nasty or one.least is None:
        return math.inf
    return max(abs(float(one.least)), abs(float(one.greatest)))


def _tables(thing: Trace) -> Iterator[str]:
    if thing.times:
        yield details(*_times(thing.times), open=True)
    made = _makers(thing)
    rows = [(name, made.get(name, "feed"), line(one)) for name, one in thing.summaries.items()]
    odd = {name for name, one in thing.summaries.items() if one.nasty}
    kept = rows if len(rows) <= _ROWS else [row for k, row in enumerate(rows) if k < _ROWS // 2 or row[0] in odd][:_ROWS]
    more = "" if len(kept) == len(rows) else f", {len(kept)} of them here"
    yield within(f"{len(rows)} tensors{more}", ("tensor", "from", "what"), kept, _BYTES, open=not thing.times)
    if thing.versions:
        listed = [(str(one), sanitize(one.schema)) for one in list(thing.versions.values())[:50]]
        yield details(
            f"{len(thing.versions)} op{'s' * (len(thing.versions) != 1)} of the registry",
            Table(("version", "takes and gives"), listed)._repr_html_(),
        )


def _times(times: Mapping[str, NodeTime]) -> tuple[str, str]:
    total = sum(one.total for one in times.values()) or 1.0
    most = max(one.total for one in times.values()) or 1.0
    ranked = sorted(times.values(), key=lambda one: -one.total)
    rows = []
    for one in ranked[:_ROWS]:
        split = ("", "") if one.python is None or one.crossing is None else (f"{one.python:,.0f}", f"{one.crossing:,.0f}")
        bar = "▇" * max(1, round(16 * one.total / most)) if one.total else ""
        rows.append(
            (sanitize(one.node), sanitize(one.op_type), f"{one.total:,.0f}", f"{100 * one.total / total:.1f} %", bar, *split)
        )
    runs = max(one.runs for one in times.values())
    said = f"times: {total:,.0f} µs in {len(times)} nodes, {f'the median of {runs} runs' if runs > 1 else 'one run'}"
    table = Table(("node", "op", "µs", "share", "", "in Python", "crossing"), rows)._repr_html_()
    more = note(f"and {len(times) - _ROWS:,} faster ones") if len(times) > _ROWS else ""
    return said, table + more + note("ONNX Runtime counts whole microseconds.")
