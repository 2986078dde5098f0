"""Figures for papers, by matplotlib, which is imported when the first is asked for.

They are made without pyplot: nothing that is global is touched, and nothing is shown by itself.
"""

from __future__ import annotations

import io
import math
import warnings
from functools import singledispatch
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.stats import Facts
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.display.array_diff import grouped
from pyopnb.display.svg.colours import NOT_FINITE, palette
from pyopnb.display.svg.to_matplotlib import SHARP, figured
from pyopnb.display.tensors import matrix_of
from pyopnb.display.view import View
from pyopnb.ops.errors import FeedError, PyopError, sanitize
from pyopnb.ops.result import Result
from pyopnb.runtime.trace.trace import Trace

__all__ = ["figure", "graph", "pixels"]

_NODES = 40
_FIELDS = 256
_LONGEST, _LARGEST = 60_000, 150_000_000  # pixels of a side and of the whole of a picture; matplotlib draws no side of 65,536


@singledispatch
def figure(thing: Any) -> Any:
    """A matplotlib ``Figure``: of a diff where, how and how much; of a trace the times; of an array its numbers.

    Raises
    ------
    FeedError
        There is no figure of such a thing.
    PyopError
        matplotlib is not installed.
    """
    has = "a model, a diff, a trace, a result or an array"
    raise FeedError("plot", expected=has, got=sanitize(type(thing).__name__), next='save("….svg"), where there is a picture')


@figure.register
def _(thing: View) -> Any:
    known = figure.dispatch(type(thing.thing)) is not figure.dispatch(object)
    return graph(thing.svg) if thing.svg and not known else figure(thing.thing)


def graph(svg: str) -> Any:
    """A ``Figure`` of a picture of a graph, whatever made it.

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    try:
        return figured(svg)
    except ImportError as error:
        raise _lacking() from error


def pixels(svg: str) -> bytes:
    """A picture of a graph as a PNG, sharp as far as it is not too large."""
    made = graph(svg)
    wide, high = made.get_size_inches()
    sharp = min(float(SHARP), _LONGEST / max(wide, high), math.sqrt(_LARGEST / (wide * high)))
    written = io.BytesIO()
    with warnings.catch_warnings():  # a letter that no font here has is a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        made.savefig(written, format="png", dpi=sharp)
    return written.getvalue()


def _lacking() -> PyopError:
    return PyopError("plot needs matplotlib", next="pip install pyopnb[plot]")


def _new(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise _lacking() from error
    return Figure(figsize=(width, height), layout="constrained")


def _colours(kind: str, bad: str = "white") -> Any:
    from matplotlib.colors import ListedColormap

    colours = [[part / 255 for part in colour] for colour in palette(kind)]
    return ListedColormap(colours, name=f"pyopnb {kind}").with_extremes(bad=bad)


@figure.register
def _(thing: Diff) -> Any:
    part = thing.worst
    facts = part.facts
    if facts is None or not facts.differing or facts.matrix is None:
        raise FeedError("plot", expected="numbers that differ", got=thing.verdict, next="print(diff)")
    made = _new(12, 3.6)
    made.suptitle(_plain(f"{part.name + ': ' if part.name else ''}{thing.verdict}, {part.a}"), fontsize="medium")
    left, middle, right = made.subplots(1, 3)
    _where(made, left, facts)
    _against(middle, facts, part.rtol, part.atol)
    _counted(right, facts)
    return made


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formulas."""
    return sanitize(text, 120).replace("$", r"\$")


def _where(made: Any, axes: Any, facts: Facts) -> None:
    from matplotlib.colors import LogNorm

    sizes = facts.picture()
    rows, columns = facts.matrix or (1, 1)
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    masked = np.ma.masked_where(sizes == 0, np.where(np.isinf(sizes), np.nan, sizes))
    low, high = (known.min(), known.max()) if known.size else (1.0, 1.0)
    norm = LogNorm(low, high if high > low else low * 2)
    drawn = axes.imshow(
        masked, cmap=_colours("rising"), norm=norm, aspect="auto", extent=(0, columns, rows, 0), interpolation="nearest"
    )
    odd = np.argwhere(np.isinf(sizes))
    if odd.size:
        steps = (rows / sizes.shape[0], columns / sizes.shape[1])
        axes.plot((odd[:, 1] + 0.5) * steps[1], (odd[:, 0] + 0.5) * steps[0], "x", color=NOT_FINITE, label="not finite")
        axes.legend(fontsize="small")
    axes.set(title="largest |a-b|", xlabel="last axis", ylabel="rows")
    made.colorbar(drawn, ax=axes)


def _against(axes: Any, facts: Facts, rtol: float, atol: float) -> None:
    from matplotlib.colors import LogNorm

    axes.set(title="error against magnitude", xlabel="|b|", ylabel="|a-b|")
    pairs = {key: count for key, count in facts.spread.items() if min(key) > -1000 and max(key) < 1000}
    if not pairs:
        axes.text(0.5, 0.5, "no finite pairs that differ", ha="center", va="center", transform=axes.transAxes)
        return
    left, low = (min(key[axis] for key in pairs) for axis in (0, 1))
    right, high = (max(key[axis] for key in pairs) + 1 for axis in (0, 1))
    fields = np.zeros((high - low, right - left))
    for (b, d), count in pairs.items():
        fields[d - low, b - left] = count
    x, y = (np.ldexp(1.0, np.arange(*ends)) for ends in ((left, right + 1), (low, high + 1)))
    norm = LogNorm(1, max(2, fields.max()))
    axes.pcolormesh(x, y, np.ma.masked_equal(fields, 0), cmap=_colours("rising"), norm=norm, rasterized=True)
    axes.set_xscale("log", base=10)
    axes.set_yscale("log", base=10)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    if rtol or atol:
        axes.plot(x, atol + rtol * x, "--", color="black", linewidth=1, label="tolerance")
        axes.legend(fontsize="small")


def _counted(axes: Any, facts: Facts) -> None:
    counts = grouped(facts.ulps) if facts.ulps else {}
    title = "units in the last place"
    if not counts:
        sizes = {place: count for place, count in facts.sizes.items() if place >= 0}
        counts, title = {f"$2^{{{place // 8 - 1023}}}$": 0 for place in sorted(sizes)}, "|a-b|"
        for place, count in sizes.items():
            counts[f"$2^{{{place // 8 - 1023}}}$"] += count
    axes.barh(list(counts), list(counts.values()), color="#6a5acd")
    axes.invert_yaxis()
    axes.set(title=title, xlabel="pairs" if facts.stride == 1 else f"pairs, of every {facts.stride}th")


@figure.register
def _(thing: TraceDiff) -> Any:
    steps = thing.steps[:400]
    if not steps:
        raise FeedError("plot", expected="nodes that were held against each other", got="none", next="print(diff)")
    made = _new(max(6.0, min(16.0, 0.12 * len(steps) + 3)), 3.8)
    axes = made.subplots()
    for name, values, sign in (
        ("accumulated", [s.accumulated for s in steps], "o-"),
        ("alone", [s.isolated for s in steps], "x"),
    ):
        known = [math.nan if one is None or not math.isfinite(one) or not one else one for one in values]
        axes.plot(range(len(steps)), known, sign, label=name, markersize=4, linewidth=1)
    for place, step in enumerate(steps):
        if step.verdict == "origin":
            axes.axvline(place, color="#d1453b", linewidth=1, zorder=0)
    if any(one.accumulated and math.isfinite(one.accumulated) for one in steps):
        axes.set_yscale("log")
    if len(steps) <= _NODES:
        axes.set_xticks(range(len(steps)), [_plain(sanitize(step.name, 24)) for step in steps], rotation=90, fontsize="x-small")
    sides = thing.a if thing.a == thing.b else f"{thing.a} against {thing.b}"
    axes.set_title(_plain(f"{thing.verdict}, {sides}"), fontsize="small")
    axes.set(ylabel="largest |a-b|", xlabel="nodes in order")
    axes.legend(fontsize="small")
    return made


@figure.register
def _(thing: Trace) -> Any:
    if not thing.times:
        raise FeedError("plot", expected="a trace with times", got="no times", next="session.trace(…, times=True)")
    ranked = sorted(thing.times.values(), key=lambda one: -one.total)[:_NODES]
    made = _new(7, 0.9 + 0.22 * len(ranked))
    axes = made.subplots()
    places = range(len(ranked))
    python = [one.python or 0.0 for one in ranked]
    axes.barh(places, python, color="#6a5acd", label="in Python")
    rest = [max(0.0, one.total - inside) for one, inside in zip(ranked, python, strict=True)]
    axes.barh(places, rest, left=python, color="#9aa5b1", label="in ONNX Runtime")
    axes.set_yticks(places, [_plain(sanitize(f"{one.node} ({one.op_type})", 40)) for one in ranked], fontsize="small")
    axes.invert_yaxis()
    axes.set(xlabel="µs", title=_plain(thing.runtime))
    axes.legend(fontsize="small")
    return made


@figure.register(np.ndarray)
@figure.register(np.generic)
def _(thing: Any) -> Any:
    made = _new(5, 4)
    _numbers(made, made.subplots(), np.asarray(thing), _FIELDS)
    return made


def _numbers(made: Any, axes: Any, value: np.ndarray, side: int, name: str = "") -> None:
    fields, (rows, columns), end, kind = matrix_of(value, side)
    where = {"extent": (0, columns, rows, 0), "aspect": "auto", "interpolation": "nearest"}
    drawn = axes.imshow(np.ma.masked_invalid(fields), cmap=_colours("around", NOT_FINITE), vmin=-end, vmax=end, **where)
    axes.set_title(_plain(name + kind), fontsize="medium")
    made.colorbar(drawn, ax=axes)


@figure.register
def _(thing: Result) -> Any:
    held = [(name, value) for name, value in thing.items() if isinstance(value, np.ndarray) and value.dtype.kind not in "OUT"]
    if not held:
        raise FeedError("plot", expected="outputs that are numbers", got="none", next="print(result)")
    made = _new(4.2 * min(3, len(held)), 3.4 * math.ceil(len(held) / 3))
    axes = made.subplots(math.ceil(len(held) / 3), min(3, len(held)), squeeze=False)
    for spare in axes.flat[len(held) :]:
        spare.axis("off")
    for spot, (name, value) in zip(axes.flat, held, strict=False):
        _numbers(made, spot, value, _FIELDS // 2, f"{name}: ")
    return made
