"""Draw one training, or two in one chart, as a line of facts and curves of loss and metric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyopnb.diffs import fit_lines
from pyopnb.display import Chart, View, charts_view, headline_html, line_chart, markup, view
from pyopnb.errors import InputError
from pyopnb.training.diff import TrainingDiff
from pyopnb.training.record import TrainingRecord
from pyopnb.training.training import Training

__all__ = ["view_training", "view_training_diff"]

# A longer curve is drawn with this many points, as a million would make a picture as large as the
# model.
_POINTS = 150
# From 60 steps on, the loss is averaged over a thirtieth of them.
_MANY, _PART = 60, 30
# Losses that differ by more than this factor get a logarithmic axis.
_WIDE = 100

# The numbers of a line, by their x.
_Points = dict[int, float]


@view.register(Training)
def view_training(
    thing: Training,
    *,
    log: bool | None = None,
    smooth: int | None = None,
) -> View:
    """Draw a training.

    Parameters
    ----------
    log : bool, optional
        Whether the loss has a logarithmic axis. By default, if the largest is over 100 times the
        smallest, and the smallest is above 0.
    smooth : int, optional
        The number of batches that the loss is averaged over; 1 draws each. By default a thirtieth
        of the steps, if there are 60 or more.

    Raises
    ------
    InputError
        ``smooth`` is below 1.
    """
    if smooth is not None and smooth < 1:
        expected = "a number of batches from 1 on"
        raise InputError("show, smooth", expected=expected, got=f"{smooth}", next="smooth=20")
    text = repr(thing)
    # Before the first step there is no curve to draw.
    if not thing.steps:
        return View(thing, text, text, markup.join([markup.pre(text)]))
    facts = "".join(f" From step {step:,} on {version}." for step, version in thing.marks)
    charts = _charts({"": thing.record}, log, smooth)
    alt = f"Curve of the loss. {text}.{facts}"
    return charts_view(thing, text, text, charts, [markup.pre(text)], alt=alt)


@view.register(TrainingDiff)
def view_training_diff(
    thing: TrainingDiff, *, log: bool | None = None, smooth: int | None = None
) -> View:
    """Draw two trainings in the same charts.

    Parameters
    ----------
    log, smooth
        As of a training.
    """
    title = f"diff of two trainings: {thing.verdict}"
    records = {"a": thing.a, "b": thing.b}
    charts = []
    parts = []
    if thing.a.losses or thing.b.losses:
        charts = _charts(records, log, smooth)
        parts.append(markup.pre(fit_lines(thing.details())))
    return charts_view(thing, title, str(thing), charts, parts, head=headline_html(thing))


def _charts(
    records: Mapping[str, TrainingRecord], log: bool | None, smooth: int | None
) -> list[Chart]:
    """Draw the losses, and in a chart beside them the other metrics."""
    losses: dict[str, _Points] = {}
    metrics: dict[str, _Points] = {}
    marks: list[tuple[float, str]] = []
    # The same mean for all of them, so that no curve is smoother than its neighbor.
    count = smooth or max(map(_default_window, records.values()))
    for name, record in records.items():
        # A training alone needs no name before the names of its lines.
        prefix = f"{name}: " if len(records) > 1 else ""
        losses[f"{prefix}training"] = _picked(record.means(count))
        marks += record.marks
        # The validation's loss is the same quantity, to be compared with the training's.
        if record.scores and record.metric == "loss":
            losses[f"{prefix}validation"] = dict(record.scores)
        elif record.scores:
            metrics[f"{prefix}validation {record.metric}"] = dict(record.scores)
    title = "loss of each batch" if count == 1 else f"loss, mean of {count} batches"
    charts = [_chart(losses, title, marks, _is_wide(losses) if log is None else log)]
    if metrics:
        # The marks' texts are beside the loss, where they cover nothing.
        lines_only = [(step, "") for step, _ in marks]
        title = next(iter(metrics)) if len(metrics) == 1 else "validation"
        charts.append(_chart(metrics, title, lines_only, False))
    return charts


def _default_window(record: TrainingRecord) -> int:
    steps = len(record.losses)
    return steps // _PART if steps >= _MANY else 1


def _is_wide(lines: Mapping[str, _Points]) -> bool:
    numbers = [number for points in lines.values() for number in points.values()]
    return bool(numbers) and 0 < _WIDE * min(numbers) < max(numbers)


def _chart(
    lines: Mapping[str, _Points],
    title: str,
    marks: list[tuple[float, str]],
    log: bool,
) -> Chart:
    """Draw lines of different steps over one axis."""
    steps = sorted(set().union(*lines.values()))
    values = {}
    for name, points in lines.items():
        values[name] = [points.get(step, np.nan) for step in steps]
    return line_chart(steps, values, title, label="step", marks=marks, log_y=log, joined=True)


def _picked(points: _Points) -> _Points:
    """Choose the points of a curve that are drawn."""
    steps = list(points)
    places = np.linspace(0, len(steps) - 1, min(len(steps), _POINTS)).astype(int)
    return {steps[place]: points[steps[place]] for place in places}
