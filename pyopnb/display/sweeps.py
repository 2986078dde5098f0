"""A sweep as a table, a sheet of pictures with the same colours, and a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyopnb.batches.sweep import Sweep, SweepRun
from pyopnb.display.html import details, image, join, note, paragraph
from pyopnb.display.picture import Look, Picture, looks_like_photographs, picture_of, squeeze
from pyopnb.display.svg.chart import Chart, line_chart, page
from pyopnb.display.svg.pool import Pooling
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize, suggest
from pyopnb.traces.summary import summary_of

__all__ = ["view_sweep"]

_SHEET_BYTES = 110_000
_MOST_PICTURES, _MOST_ROWS, _MOST_LINES, _OPEN_ROWS = 16, 256, 8, 12


def view_sweep(
    thing: Sweep,
    *,
    output: str | int | None = None,
    rgb: bool | None = None,
    pool: Pooling | None = None,
    size: int | None = None,
    limits: tuple[float, float] | None = None,
) -> View:
    """The table of a sweep, and pictures and a plot of one output.

    Parameters
    ----------
    thing : Sweep
    output : str or int, optional
        By default the first that has numbers.
    rgb, pool, size, limits : optional
        As for arrays.

    Returns
    -------
    View

    Raises
    ------
    InputError
        There is no such output.
    """
    look = Look(rgb, pool, size, limits)
    name = _output(thing, output)
    title = f"{name or 'no numbers'} for {len(thing):,} values of {', '.join(map(sanitize, thing.axes))}"
    table = thing.table()
    parts = [details(f"{len(thing):,} runs", table._repr_html_(), open=len(thing) <= _OPEN_ROWS)]
    if not thing.is_complete:
        parts.append(note(f"interrupted after {len(thing):,} of {math.prod(thing.shape):,} runs"))
    charts = list(_charts(thing, name, look)) if name is not None else []
    if not charts:
        return View(thing, title, repr(thing), join(parts))
    drawing = page(charts, title, in_row=2)
    parts.insert(0, paragraph(image(to_svg(drawing), f"{title}.")))
    return View(thing, title, repr(thing), join(parts), lambda: drawing, charts[0].image)


def _output(thing: Sweep, wanted: str | int | None) -> str | None:
    """The name of the output that is drawn."""
    results = [run.result for run in thing if run.result is not None]
    names = list(results[0].keys()) if results else []
    if isinstance(wanted, int) and wanted < len(names):
        return names[wanted]
    if wanted is not None and wanted not in names:
        got = sanitize(repr(wanted))
        raise InputError(
            "show, output",
            expected="an output of the model",
            got=got,
            next=suggest(str(wanted), names),
        )
    return wanted or next((name for name in names if _is_number(results[0][name])), None)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (np.ndarray, np.generic))
        and value.dtype.kind not in "OUT"
        and value.size > 0
    )


def _charts(thing: Sweep, name: str, look: Look) -> Iterator[Chart]:
    good = [run for run in thing if run.result is not None and _is_number(run.result[name])]
    if not good:
        return
    if (picture := _sheet(thing, good, name, look)) is not None:
        yield picture.titled
    if (plot := _plot(thing, name)) is not None:
        yield plot


# ---- the pictures


def _sheet(thing: Sweep, good: Sequence[SweepRun], name: str, look: Look) -> Picture | None:
    """One picture of the output of each run, all of them in the same colours."""
    first = np.asarray(good[0].result[name])  # type: ignore[index]
    alike = [run for run in good if _same_kind(run.result[name], first)]  # type: ignore[index]
    if first.size == 1 or len(alike) < 2:
        return None
    shape = squeeze(first).shape
    most = _MOST_PICTURES if len(shape) > 1 else _MOST_ROWS
    chosen = [
        alike[k]
        for k in np.unique(
            np.linspace(0, len(alike) - 1, min(len(alike), most)).round().astype(int)
        )
    ]
    # Of a stack the first slice, unless it is a photograph.
    arrays = [np.asarray(run.result[name]) for run in chosen]
    is_photograph = look.rgb or (
        look.rgb is None and looks_like_photographs(first, summary_of(first))
    )
    if not is_photograph:
        arrays = [
            squeeze(one).reshape(-1, *shape[-2:])[0] if len(shape) > 2 else squeeze(one)
            for one in arrays
        ]
    else:
        arrays = [
            one.reshape(one.shape[-3:]) if one.ndim > 3 and math.prod(one.shape[:-3]) == 1 else one
            for one in arrays
        ]
    stack = np.stack(arrays)
    labels = [", ".join(thing.labels(run).values()) for run in chosen]
    if stack.ndim == 2:  # a row for each run
        picture = picture_of(stack, summary_of(stack), look, _SHEET_BYTES, name)
        return replace(
            picture, caption=f"Rows from {labels[0]} to {labels[-1]}. {picture.caption}".strip()
        )
    picture = picture_of(
        stack, summary_of(stack), replace(look, rgb=is_photograph or False), _SHEET_BYTES, name
    )
    is_grid = len(thing.shape) == 2 and len(chosen) == len(thing) and 2 <= thing.shape[1] <= 8
    some = f"{len(chosen)} of {len(thing):,} runs. " if len(chosen) < len(thing) else ""
    some += (
        "" if is_photograph or len(shape) <= 2 else f"The first of {math.prod(shape[:-2])} slices. "
    )
    varied = ", ".join(map(sanitize, thing.axes))
    return replace(
        picture,
        names=labels,
        title=f"{name} by {varied}",
        caption=f"{some}{picture.caption}".strip(),
        in_row=thing.shape[1] if is_grid else picture.in_row,
    )


def _same_kind(value: Any, other: np.ndarray) -> bool:
    return bool(value.shape == other.shape and value.dtype == other.dtype)


# ---- the plot


def _plot(thing: Sweep, name: str) -> Chart | None:
    """The output against the first name that is varied: its value or mean, and of a single name its least and largest too."""
    first, values = next(iter(thing.axes.items()))
    if len(values) < 2 or not thing.is_complete:
        return None
    numeric = all(isinstance(value, (int, float)) and math.isfinite(value) for value in values)
    x = [float(value) for value in values] if numeric else list(map(float, range(len(values))))
    count = len(thing) // len(values)  # the last name varies first
    names = [] if numeric else [thing.labels(run)[first] for run in thing.runs[::count]]
    rows = [_figures(run, name) for run in thing]
    lines: dict[str, list[float]] = {}
    is_single = all(low == high or math.isnan(low) for low, _, high in rows)
    if count == 1 and not is_single:
        lines = {
            word: [row[k] for row in rows]
            for k, word in ((2, "largest"), (1, "mean"), (0, "least"))
        }
    else:
        for k in range(min(count, _MOST_LINES)):
            label = (
                ", ".join(
                    f"{other} = {text}"
                    for other, text in thing.labels(thing[k]).items()
                    if other != first
                )
                or name
            )
            lines[label] = [rows[at * count + k][1] for at in range(len(values))]
    what = name if is_single else f"mean of {name}" if count > 1 else name
    return line_chart(x, lines, f"{what} against {first}", label=sanitize(first), names=names)


def _figures(run: SweepRun, name: str) -> tuple[float, float, float]:
    """The least, mean and largest number of an output; NaN where there is none."""
    if run.result is None or not _is_number(run.result[name]):
        return (math.nan,) * 3
    summary = summary_of(run.result[name])
    if summary.least is None:
        return (math.nan,) * 3
    return float(summary.least), float(summary.mean or 0.0), float(summary.greatest)
