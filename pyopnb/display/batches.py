"""The results of a map as a table, and a plot of one output against the batches."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pyopnb.batches.map import Batches, BatchRun
from pyopnb.display.html import details, image, join, note, paragraph
from pyopnb.display.svg.chart import Chart, line_chart, page
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize, suggest
from pyopnb.traces.summary import summary_of

__all__ = ["view_batches"]

_MOST_POINTS, _OPEN_ROWS = 256, 12


def view_batches(thing: Batches, *, output: str | int | None = None) -> View:
    """The table of a map, and plots of one output and of the times.

    Parameters
    ----------
    thing : Batches
    output : str or int, optional
        By default the first that has numbers.

    Returns
    -------
    View

    Raises
    ------
    InputError
        There is no such output.
    """
    title = f"{len(thing.runs):,} of {thing.total:,} batches"
    table = thing.table()
    parts = [
        details(title, table._repr_html_(), open=len(thing.runs) <= _OPEN_ROWS),
        *map(note, thing.remarks()),
    ]
    name = _output(thing, output)
    charts = [_chart(thing, "milliseconds", lambda run: run.seconds * 1e3)]
    if name is not None:
        chosen = name
        charts.insert(0, _chart(thing, f"mean of {name}", lambda run: _mean(run, chosen)))
    if len(thing.runs) < 2:
        return View(thing, title, repr(thing), join(parts))
    drawing = page(charts, title, in_row=2)
    parts.insert(0, paragraph(image(to_svg(drawing), f"{title}.")))
    return View(thing, title, repr(thing), join(parts), lambda: drawing, charts[0].image)


def _output(thing: Batches, wanted: str | int | None) -> str | None:
    result = next((run.result for run in thing.runs if run.result is not None), None)
    names = [] if result is None else list(result.keys())
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return names[wanted]
    if wanted is not None and wanted not in names:
        got = sanitize(repr(wanted))
        raise InputError(
            "show, output",
            expected="an output of the model",
            got=got,
            next=suggest(str(wanted), names),
        )
    numeric = (
        name for name in names if result is not None and summary_of(result[name]).mean is not None
    )
    return str(wanted) if wanted is not None else next(numeric, None)


def _mean(run: BatchRun, name: str) -> float:
    mean = None if run.result is None else summary_of(run.result[name]).mean
    return math.nan if mean is None else float(mean)


def _chart(thing: Batches, title: str, number: Callable[[BatchRun], float]) -> Chart:
    """Numbers of the batches as a line; of many batches the means of equal shares."""
    shares = np.array_split(np.arange(len(thing.runs)), min(_MOST_POINTS, max(len(thing.runs), 1)))
    values = [[number(thing.runs[k]) for k in share] for share in shares]
    means = [
        float(np.mean(good)) if (good := [v for v in row if math.isfinite(v)]) else math.nan
        for row in values
    ]
    return line_chart(
        [float(share[0]) for share in shares if len(share)] or [0.0],
        {title: means},
        title,
        label="batch",
    )
