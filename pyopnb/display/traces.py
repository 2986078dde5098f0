"""A trace: its graph in the colors of times or sizes, and tables of everything in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from onnx import ModelProto
from onnx.helper import make_tensor_value_info

from pyopnb.common import Table, messages, plural, sanitize
from pyopnb.display.budget import graph_view, table_within
from pyopnb.display.page.markup import details, escape, note
from pyopnb.display.views import View, view
from pyopnb.engine import protos
from pyopnb.errors import InputError
from pyopnb.traces import Times, Trace

__all__ = ["view_trace"]

_ROWS, _TIMED = 120, 40
_LEGENDS = {"time": "time", "size": "largest |x|", "std": "σ"}
_WARNING = "border-left:4px solid #b7791f;padding:4px 10px;margin:4px 0 8px 0"


@view.register(Trace)
def view_trace(
    thing: Trace, *, by: Literal["time", "size", "std"] | None = None, **options: Any
) -> View:
    """Show a trace.

    Parameters
    ----------
    by : str, optional
        The quantity that colors the nodes: ``"time"``, ``"size"`` (the largest magnitude of the
        first output) or ``"std"``. By default the time if the trace has times, and else the size.
    **options
        As for `view_model`.

    Raises
    ------
    InputError
        The trace cannot be colored like that.
    """
    by = by or ("time" if thing.times else "size")
    if thing.times:
        known = list(_LEGENDS)
    else:
        known = ["size", "std"]
    if by not in known:
        next_ = 'by="size", or session.trace(…, times=True) for by="time"'
        expected = ", ".join(known)
        raise InputError("show, by", expected=expected, got=sanitize(by), next=next_)
    # The op type of the node that made each tensor; feeds are not among them.
    makers = {name: node.op_type for node in thing.model.graph.node for name in node.output}
    first = thing.first_nonfinite
    marks = {}
    if first is not None and first in makers:
        marks[first] = "NaN" if thing.summaries[first].nan else "Inf"
    # The tables come first, as the picture gets the bytes that they leave.
    tables = list(_tables(thing, makers))
    sign = '<b style="color:#b7791f">⚠</b>'
    head = [
        f'<div style="{_WARNING}">{sign} {escape(text, 1000)}</div>'
        for text in _warnings(thing, makers)
    ]
    defaults = {
        "colors": _colors(thing, by),
        "legend": _LEGENDS[by],
        "unit": "s" if by == "time" else "",
        "marks": marks,
        "notes": _notes(thing),
    }
    text = repr(thing)
    title = text.partition("\n")[0]
    model = _with_types(thing, makers)
    return graph_view(thing, title, text, model, {**defaults, **options}, head, tables)


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
        if name in makers and name not in declared:
            dtype = tensor_type.dtype.onnx
            infos[name] = make_tensor_value_info(name, dtype, tensor_type.shape)
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos.values())
    return model


def _warnings(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.exposure is not None and not thing.exposure.same:
        yield str(thing.exposure)
    if thing.unchecked:
        yield f"not compared with a normal run: {thing.unchecked}"
    first = thing.first_nonfinite
    if first is not None:
        where = f"{first}, from {makers.get(first, 'a feed')}: {thing.summaries[first]}"
        yield f"the first NaN or infinity is in {where}"


def _notes(thing: Trace) -> dict[str, str]:
    """Describe each tensor, and the time of the node that made it."""
    notes = {name: str(summary) for name, summary in thing.summaries.items()}
    if thing.times is None:
        return notes
    for node in thing.model.graph.node:
        name = protos.first_output(node)
        time = thing.times.find(name)
        if time is not None:
            share = thing.times.share(time.total)
            notes[name] = f"{notes.get(name, '')}\n{time}, {share}"
    return notes


def _colors(thing: Trace, by: str) -> dict[str, float]:
    """Return the number of each node, by its first output."""
    numbers = {}
    for node in thing.model.graph.node:
        name = protos.first_output(node)
        if by == "time" and thing.times is not None:
            time = thing.times.find(name)
            if time is not None:
                numbers[name] = time.total / 1e6
            continue
        summary = thing.summaries.get(name)
        if summary is None or summary.kind != "number" or not summary.count:
            continue
        if summary.has_nonfinite or summary.least is None:
            # The scale draws numbers that are not finite in a separate color.
            numbers[name] = math.inf
        elif by == "std":
            numbers[name] = float(summary.std or 0.0)
        else:
            numbers[name] = max(abs(float(summary.least)), abs(float(summary.greatest)))
    return numbers


# ---- tables


def _tables(thing: Trace, makers: Mapping[str, str]) -> Iterator[str]:
    if thing.times:
        yield _times_table(thing.times)
    names = list(thing.summaries)
    title = plural(len(names), "tensor")
    if len(names) > _ROWS:
        # Of the later tensors, the ones with NaN or infinities come first.
        later = sorted(names[_ROWS // 2 :], key=lambda n: not thing.summaries[n].has_nonfinite)
        names = [*names[: _ROWS // 2], *later[: _ROWS // 2]]
        title += f", {len(names)} of them here"
    rows = [(name, makers.get(name, "feed"), str(thing.summaries[name])) for name in names]
    keys = [(name,) for name in names]
    head = ("tensor", "from", "value")
    yield table_within(title, head, rows, open=not thing.times, keys=keys)
    if thing.versions:
        schemas = [(str(version), str(version.schema)) for version in thing.versions.values()]
        title = f"{plural(len(schemas), 'op')} of the registry"
        yield table_within(title, ("version", "schema"), schemas, most=15_000)


def _times_table(times: Times) -> str:
    ranked = sorted(times.items(), key=lambda entry: -entry[1].total)
    head = ("node", "op", "time", "share", "in kernels", "in Python", "calling it")
    rows, keys = [], []
    for name, time in ranked[:_TIMED]:
        row = [time.node, time.op_type, messages.duration(time.total / 1e6)]
        row.append(times.share(time.total))
        parts = (time.kernel, time.python, time.crossing)
        row += ["" if part is None else messages.duration(part / 1e6) for part in parts]
        rows.append(row)
        keys.append(time.outputs or (name,))
    # Rows below the nodes have the rest of the run, so that the column adds up.
    sums = {"not attributed to a node": times.unattributed, "the whole run": times.total}
    if len(ranked) > _TIMED:
        faster = sum(time.total for _, time in ranked[_TIMED:])
        sums = {f"{len(ranked) - _TIMED:,} faster ones": faster, **sums}
    for name, total in sums.items():
        rows.append([name, "", messages.duration(total / 1e6), times.share(total), "", "", ""])
    title = f"times: a run of {messages.duration(times.total / 1e6)}, timed once"
    about = note(" ".join(_about_times(times)))
    return details(title, Table(head, rows, keys=keys)._repr_html_() + about, open=True)


def _about_times(times: Times) -> Iterator[str]:
    yield "Timed while tensors were recorded. Nodes joined by + ran as one."
    yield "ONNX Runtime times in whole microseconds, and timing itself takes some for each node."
    # A single run of the session itself may be its first, which is slower than all others.
    yield "pyopnb.profile measures normal runs."
    if times.looking:
        yield (
            f"Looking at the tensors took {messages.duration(times.looking / 1e6)}, "
            "which is not in the table."
        )
