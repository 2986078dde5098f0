"""A sweep as a table, curves or a sheet of pictures with the same colors, and a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pyopnb.batches import Sweep
from pyopnb.common import messages, sanitize
from pyopnb.diffs import diff
from pyopnb.display.array_curve import curve_of
from pyopnb.display.array_look import ArrayLook, squeeze
from pyopnb.display.array_sheets import sheet_of
from pyopnb.display.page.markup import details, note
from pyopnb.display.photographs import looks_like_photographs
from pyopnb.display.svg.chart import Chart
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.views import View, charts_view, view
from pyopnb.engine import Result
from pyopnb.errors import InputError
from pyopnb.traces import Summary

__all__ = ["view_sweep"]

_SHEET_BYTES = 110_000
_MOST_PICTURES, _MOST_LINES, _OPEN_ROWS = 16, 8, 12


@view.register(Sweep)
def view_sweep(thing: Sweep, *, output: str | int | None = None) -> View:
    """Show the table of a sweep, and pictures and a plot of one output.

    Parameters
    ----------
    output : str or int, optional
        By default the first that has numbers.
    """
    name = _choose_output(thing, output)
    varied = ", ".join(map(sanitize, thing.axes))
    title = f"{name or 'no numbers'} for {len(thing):,} values of {varied}"
    table = thing.table()._repr_html_()
    parts = [details(f"{len(thing):,} runs", table, open=len(thing) <= _OPEN_ROWS)]
    if not thing.is_complete:
        total = math.prod(thing.shape)
        parts.append(note(f"interrupted after {len(thing):,} of {total:,} runs"))
    if name is None:
        charts = []
    else:
        is_constant = _is_constant(thing, name)
        charts = list(_charts(thing, name, plotted=not is_constant))
        if is_constant:
            parts.append(note(f"{name} is the same in all runs, within the tolerance of its dtype"))
    return charts_view(thing, title, repr(thing), charts, parts)


def _choose_output(thing: Sweep, wanted: str | int | None) -> str | None:
    """Return the name of an output, by default of the first that has numbers; None without one."""
    # All runs of a session have the same outputs, so the first that succeeded names them.
    results = (run.result for run in thing if run.result is not None)
    values = dict(next(results, Result({})).items())
    names = list(values)
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return names[wanted]
    if wanted is None:
        return next((name for name in names if _is_number(values[name])), None)
    if wanted in names:
        return str(wanted)
    got = sanitize(repr(wanted))
    next_ = messages.suggest(str(wanted), names)
    raise InputError("show, output", expected="an output of the model", got=got, next=next_)


def _is_number(value: Any) -> bool:
    """Tell whether a value is an array of numbers that is not empty."""
    is_array = isinstance(value, (np.ndarray, np.generic))
    return is_array and value.dtype.kind not in "OUT" and value.size > 0


def _charts(thing: Sweep, name: str, *, plotted: bool) -> Iterator[Chart]:
    picture = _picture(thing, name)
    if picture is not None:
        yield picture
    # In an interrupted sweep, the last names were not varied for every value of the first.
    first_values = next(iter(thing.axes.values()))
    if thing.is_complete and len(first_values) > 1 and plotted:
        yield _plot(thing, name)


def _is_constant(thing: Sweep, name: str) -> bool:
    """Tell whether an output differs between the runs by rounding alone, which is no trend."""
    results = [run.result[name] for run in thing if run.result is not None]
    return len(results) == len(thing) and all(diff(result, results[0]).ok for result in results)


def _picture(thing: Sweep, name: str) -> Chart | None:
    """Draw the output of each run, all of them by the same axis or in the same colors."""
    all_labels, all_arrays = _comparable(thing, name)
    if len(all_arrays) < 2 or all_arrays[0].size == 1:
        return None
    is_line = squeeze(all_arrays[0]).ndim == 1
    most = _MOST_PICTURES
    if is_line:
        most = _MOST_LINES
    # If there is no room for all runs, some at equal distances are drawn.
    count = min(len(all_arrays), most)
    labels = []
    arrays = []
    for position in np.linspace(0, len(all_arrays) - 1, count).round().astype(int):
        labels.append(all_labels[position])
        arrays.append(all_arrays[position])
    remark = ""
    if count < len(thing):
        remark = f"{count} of {len(thing):,} runs."
    if is_line:
        lines = np.stack(list(map(squeeze, arrays)), axis=1)
        title = name
        if remark:
            title = f"{name}, {remark.removesuffix('.')}"
        return curve_of(lines, Summary.of(lines), ArrayLook(), title, labels)
    in_row = 0
    # With two names, each row has one value of the first.
    if len(thing.shape) == 2 and count == len(thing):
        in_row = thing.shape[1]
    varied = ", ".join(map(sanitize, thing.axes))
    return _sheet(arrays, labels, f"{name} by {varied}", in_row, remark)


def _comparable(thing: Sweep, name: str) -> tuple[list[str], list[np.ndarray]]:
    """Collect the outputs with the shape and dtype of the first, and each run's varied values."""
    labels: list[str] = []
    arrays: list[np.ndarray] = []
    for run in thing:
        if run.result is None or not _is_number(run.result[name]):
            continue
        array = np.asarray(run.result[name])
        # Pictures of other sizes or dtypes could not be compared with the first.
        if not arrays or (array.shape, array.dtype) == (arrays[0].shape, arrays[0].dtype):
            labels.append(", ".join(thing.labels(run).values()))
            arrays.append(array)
    return labels, arrays


def _sheet(
    arrays: list[np.ndarray], labels: list[str], title: str, in_row: int, remark: str
) -> Chart:
    """Draw matrices or photographs beside each other, only the first of each stack."""
    first = arrays[0]
    is_photograph = looks_like_photographs(first, Summary.of(first))
    if is_photograph:
        plane = first.shape[-3:]
    else:
        plane = squeeze(first).shape[-2:]
    stack = np.stack([array.reshape(-1, *plane)[0] for array in arrays])
    if first.size > stack[0].size:
        remark += f" The first of {first.size // stack[0].size}."
    summary, look = Summary.of(stack), ArrayLook(rgb=is_photograph)
    return sheet_of(
        stack, summary, look, _SHEET_BYTES, title, names=labels, in_row=in_row, remark=remark
    )


def _plot(thing: Sweep, name: str) -> Chart:
    """Draw the output, or its mean, against the first name that is varied.

    There is a line for each combination of the other names' values.
    """
    first, values = next(iter(thing.axes.items()))
    # The last name varies first.
    per_value = len(thing) // len(values)
    x = list(values)
    names: list[str] = []
    if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        x = list(range(len(values)))
        names = [thing.labels(run)[first] for run in thing.runs[::per_value]]
    quantity = name
    means = []
    for run in thing:
        mean = None
        if run.result is not None:
            mean = Summary.of(run.result[name]).mean
            if np.size(run.result[name]) != 1:
                quantity = f"mean of {name}"
        # A run that failed leaves a gap.
        means.append(math.nan if mean is None else float(mean))
    lines: dict[str, list[float]] = {}
    for number in range(min(per_value, _MOST_LINES)):
        labels = thing.labels(thing[number])
        del labels[first]
        label = ", ".join(f"{key} = {text}" for key, text in labels.items())
        lines[label or name] = means[number::per_value]
    title = f"{quantity} against {first}"
    return line_chart(x, lines, title, label=first, names=names)
