"""The results of a map as a table, and one output and the times against the batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pyopnb.batches.map import Batches
from pyopnb.display.html import details, note
from pyopnb.display.output_choice import choose_output, mean_of
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.view import View, charts_view, view

__all__ = ["view_batches"]

_MOST_POINTS, _OPEN_ROWS = 256, 12


@view.register(Batches)
def view_batches(thing: Batches, *, output: str | int | None = None) -> View:
    """Show the table of a map, and plots of one output and of the times.

    Parameters
    ----------
    output : str or int, optional
        By default the first that has numbers.
    """
    title = f"{len(thing.runs):,} of {thing.total:,} batches"
    table = thing.table()._repr_html_()
    parts = [details(title, table, open=len(thing.runs) <= _OPEN_ROWS)]
    parts += map(note, thing.remarks())
    name = choose_output((run.result for run in thing.runs), output)
    charts = []
    # A line needs two points.
    if len(thing.runs) > 1:
        if name is not None:
            means = [mean_of(run.result, name) for run in thing.runs]
            charts.append(_chart(means, f"mean of {name}"))
        charts.append(_chart([run.seconds for run in thing.runs], "time of each batch", "s"))
    return charts_view(thing, title, repr(thing), charts, parts)


def _chart(values: Sequence[float], title: str, unit: str = "") -> Chart:
    """Draw a number of each batch as a line, or the means of equal shares of many batches."""
    firsts: list[float] = []
    means: list[float] = []
    at = 0
    for share in np.array_split(values, min(_MOST_POINTS, len(values))):
        # A batch that failed is left out of the mean of its share.
        finite = share[np.isfinite(share)]
        firsts.append(float(at))
        means.append(float(finite.mean()) if finite.size else math.nan)
        at += len(share)
    return line_chart(firsts, {title: means}, title, label="batch", unit=unit)
