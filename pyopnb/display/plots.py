"""Figures for papers, by matplotlib, which is imported when the first is asked for.

They are made without pyplot: nothing global is touched, and nothing is shown by itself. What `pyopnb.show` draws has the same
drawing here; only the times of a trace and the errors along two runs are drawn by matplotlib itself.
"""

from __future__ import annotations

import math
import warnings
from functools import singledispatch
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.display.array_diff import charts_of
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.png import png
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.svg.to_matplotlib import to_figure
from pyopnb.display.tensors import chart_of
from pyopnb.display.view import View
from pyopnb.errors import InputError, PyopError
from pyopnb.ops.messages import sanitize
from pyopnb.ops.result import Result
from pyopnb.traces.trace import Trace

__all__ = ["figure", "figure_png"]

_MOST_NODES, _MOST_STEPS = 40, 400
_DPI = 144  # at which a pixel of a drawing is two
_LONGEST_SIDE, _MOST_PIXELS = 60_000, 150_000_000  # of a PNG; matplotlib refuses sides of 65,536


@singledispatch
def figure(thing: Any) -> Any:
    """A matplotlib ``Figure`` of a view, a diff, a trace, a result or an array.

    Parameters
    ----------
    thing : object

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        There is no figure of such a thing.
    PyopError
        matplotlib is not installed.
    """
    expected = "a model, a diff, a trace, a result or an array"
    raise InputError(
        "plot",
        expected=expected,
        got=sanitize(type(thing).__name__),
        next='save("….svg"), where there is a picture',
    )


@figure.register
def _(thing: View) -> Any:
    has_figure = figure.dispatch(type(thing.thing)) is not figure.dispatch(object)
    return _figure_of(thing.draw()) if thing.draw and not has_figure else figure(thing.thing)


def _figure_of(drawing: Drawing, *, outlines: bool = False) -> Any:
    try:
        return to_figure(drawing, outlines=outlines)
    except ImportError as error:
        raise _matplotlib_is_missing() from error


def _matplotlib_is_missing() -> PyopError:
    return PyopError("plot needs matplotlib", next="pip install pyopnb[plot]")


def figure_png(drawing: Drawing) -> bytes:
    """A drawing as a PNG of twice its size, or smaller if that were too large.

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    with warnings.catch_warnings():  # a letter that no installed font has becomes a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = _figure_of(drawing, outlines=True)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    width, height = figure.get_size_inches()
    figure.dpi = min(
        float(_DPI), _LONGEST_SIDE / max(width, height), math.sqrt(_MOST_PIXELS / (width * height))
    )
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return png(np.asarray(canvas.buffer_rgba()), flat=True)


# ---- the drawings of show


@figure.register
def _(thing: Diff) -> Any:
    part = thing.worst
    charts = charts_of(part)
    if not charts:
        raise InputError(
            "plot", expected="numbers that differ", got=thing.verdict, next="print(diff)"
        )
    return _figure_of(page(charts, f"{part.name}: {thing.verdict}"))


@figure.register(np.ndarray)
@figure.register(np.generic)
def _(thing: Any) -> Any:
    return _figure_of(page([chart_of(np.asarray(thing))], "array"))


@figure.register
def _(thing: Result) -> Any:
    charts: list[Chart] = [
        chart_of(value, name)
        for name, value in thing.items()
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OUT" and value.size
    ]
    if not charts:
        raise InputError(
            "plot", expected="outputs that are numbers", got="none", next="print(result)"
        )
    return _figure_of(page(charts, "result"))


# ---- figures of matplotlib's own


def _new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of a size in inches, and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise _matplotlib_is_missing() from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _escape(text: str, longest: int = 120) -> str:
    """Text in which matplotlib sees no formulas."""
    return sanitize(text, longest).replace("$", r"\$")


@figure.register
def _(thing: TraceDiff) -> Any:
    steps = thing.steps[:_MOST_STEPS]
    if not steps:
        raise InputError(
            "plot", expected="nodes that were compared", got="none", next="print(diff)"
        )
    figure, axes = _new_figure(max(6.0, min(16.0, 0.12 * len(steps) + 3)), 3.8)
    accumulated = [_positive(step.accumulated) for step in steps]
    isolated = [_positive(step.isolated) for step in steps]
    axes.plot(range(len(steps)), accumulated, "o-", label="accumulated", markersize=4, linewidth=1)
    axes.plot(range(len(steps)), isolated, "x", label="alone", markersize=4, linewidth=1)
    for position, step in enumerate(steps):
        if step.verdict == "origin":
            axes.axvline(position, color="#d1453b", linewidth=1, zorder=0)
    if not all(map(math.isnan, accumulated)):
        axes.set_yscale("log")
    if len(steps) <= _MOST_NODES:
        axes.set_xticks(
            range(len(steps)),
            [_escape(step.name, 24) for step in steps],
            rotation=90,
            fontsize="x-small",
        )
    sides = thing.a if thing.a == thing.b else f"{thing.a} against {thing.b}"
    axes.set_title(_escape(f"{thing.verdict}, {sides}"), fontsize="small")
    axes.set(ylabel="largest |a-b|", xlabel="nodes in order")
    axes.legend(fontsize="small")
    return figure


def _positive(error: float | None) -> float:
    """An error as a logarithmic axis can show it; NaN leaves a gap."""
    return error if error and math.isfinite(error) else math.nan


@figure.register
def _(thing: Trace) -> Any:
    if not thing.times:
        raise InputError(
            "plot",
            expected="a trace with times",
            got="no times",
            next="session.trace(…, times=True)",
        )
    slowest = sorted(thing.times.values(), key=lambda time: -time.total)[:_MOST_NODES]
    figure, axes = _new_figure(7, 0.9 + 0.22 * len(slowest))
    positions = range(len(slowest))
    python = [time.python or 0.0 for time in slowest]
    rest = [max(0.0, time.total - inside) for time, inside in zip(slowest, python, strict=True)]
    axes.barh(positions, python, color="#6a5acd", label="in Python")
    axes.barh(positions, rest, left=python, color="#9aa5b1", label="in ONNX Runtime")
    axes.set_yticks(
        positions,
        [_escape(f"{time.node} ({time.op_type})", 40) for time in slowest],
        fontsize="small",
    )
    axes.invert_yaxis()
    axes.set(xlabel=f"µs; {thing.times}", title=_escape(thing.runtime))
    axes.legend(fontsize="small")
    return figure
