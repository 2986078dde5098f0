"""A training as HTML: a line of facts, and the curves of its loss and its metric."""

from __future__ import annotations

import numpy as np

from pyopnb.display.html import image, join, paragraph, pre
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View, view
from pyopnb.training.training import Training

__all__ = ["view_training"]

_POINTS = 150


@view.register(Training)
def view_training(thing: Training) -> View:
    """The view of a training.

    Parameters
    ----------
    thing : Training

    Returns
    -------
    View
    """
    text = repr(thing)
    if not thing.steps:
        return View(thing, text, text, join([pre(text)]))
    marks = thing.marks
    facts = "".join(f" From step {step:,} on {version}." for step, version in marks)
    drawing = page(_charts(thing), f"Loss by step. {text}.", in_row=2)
    body = [paragraph(image(to_svg(drawing), f"Curve of the loss. {text}.{facts}")), pre(text)]
    return View(thing, text, text, join(body), lambda: drawing)


def _charts(thing: Training) -> list[Chart]:
    losses = thing.losses
    few = len(losses) < 2 * _POINTS
    parts = np.array_split(losses, len(losses) if few else _POINTS)
    ends = np.cumsum([len(part) for part in parts])
    means = [float(part.mean()) for part in parts]
    title = (
        "loss of each batch" if few else f"loss, means of {len(losses) // _POINTS} or more batches"
    )
    charts = [line_chart(ends.tolist(), {"loss": means}, title, label="step", marks=thing.marks)]
    if thing.scores:
        steps, scores = zip(*thing.scores, strict=True)
        metric = thing.metric
        lines = [
            (step, "") for step, _ in thing.marks
        ]  # their texts are beside the loss, where they cover nothing
        charts.append(
            line_chart(
                steps,
                {metric: scores},
                f"{metric} on the validation data",
                label="step",
                marks=lines,
            )
        )
    return charts
