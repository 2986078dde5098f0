"""Arrays: one line of text each, and a picture in which outliers stay visible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from pyopnb.display.html import MAX_BYTES, escape, image, join, note, paragraph, pre
from pyopnb.display.svg.chart import Chart, card, heat_maps
from pyopnb.display.svg.colours import Scale
from pyopnb.display.svg.pool import pool
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View
from pyopnb.ops.errors import FeedError, NotationError, sanitize
from pyopnb.runtime.trace.summary import Summary, summary_of

__all__ = ["chart_of", "describe", "view_array", "view_arrays"]

_SIDE = 128  # cells of a picture along each axis
_SLICE_SIDE = 40  # the same of each slice
_MOST_SLICES = 16
_TABLE = 16  # most rows and columns of an array that is shown as its numbers
_MOST_ITEMS = 20
_MOST_RINGS = 3
_MOST_ARRAYS = 150
_PICTURE_BYTES = MAX_BYTES * 3 // 4  # of one output
_CELL = "text-align:right;padding:1px 6px;border:1px solid rgba(128,128,128,0.25);font-family:monospace;white-space:nowrap"


def describe(summary: Summary) -> str:
    """A tensor in one line: type, number of elements, range and histogram, and what is not finite.

    Examples
    --------
    >>> describe(summary_of(np.float32([[0, 1, 1], [1, 2, np.nan]])))
    'float32[2,3] n=6 x∈[0, 2] ▃▁▁▁▁▁▁▁█▁▁▁▁▁▁▃ μ=1 σ=0.6325 1 NaN!'
    >>> describe(summary_of(np.zeros(3, np.int64)))
    'int64[3] n=3 all zero'
    """
    return " ".join(_words(summary))


def _words(summary: Summary) -> Iterator[str]:
    yield summary.kind if summary.type is None else sanitize(summary.type)
    if summary.kind == "sequence":
        yield f"of {summary.count}"
    if summary.kind not in ("number", "text"):
        return
    scalar = summary.type is not None and summary.type.shape == ()
    if not summary.count:
        yield "empty"
    elif not scalar:
        yield f"n={summary.count:,}"
    if summary.kind == "text" and summary.longest is not None:
        quoted = f'"{sanitize(summary.longest, 40)}"'
        yield quoted if scalar else f"{summary.distinct} different, longest {quoted}"
    elif summary.least is not None:
        yield from _statistics(summary, scalar)
    counts = ((summary.nan, "NaN"), (summary.posinf, "+Inf"), (summary.neginf, "-Inf"))
    yield from (f"{what}!" if scalar else f"{count:,} {what}!" for count, what in counts if count)


def _statistics(summary: Summary, scalar: bool) -> Iterator[str]:
    name = "" if summary.type is None or summary.type.dtype is None else summary.type.dtype.name
    low, high = summary.least, summary.greatest
    x = "|x|" if name.startswith("complex") else "x"
    if name == "bool":
        true = summary.count - summary.zeros
        yield str(bool(true)) if scalar else f"{true:,} True, {summary.zeros:,} False"
    elif scalar:
        yield f"{x + '=' if x != 'x' else ''}{_short(low)}"
    elif low == high:
        yield "all zero" if not low and not summary.has_nonfinite else f"{x}=0" if not low else f"{x}={_short(low)}"
    else:
        yield f"{x}∈[{_short(low)}, {_short(high)}]"
        yield summary.bars
        if math.isfinite(summary.mean or 0.0) and math.isfinite(
            summary.std or 0.0
        ):  # they overflow for numbers near the limits
            yield f"μ={_short(summary.mean)} σ={_short(summary.std)}"


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**6 else f"{value:.4g}"


def view_array(thing: Any, name: str = "") -> View:
    """The view of one array.

    Parameters
    ----------
    thing : ndarray, scalar, or what a sequence or map output is
    name : str

    Returns
    -------
    View
    """
    value, summary = _summarize(thing)
    text = f"{sanitize(name, 80)}: {describe(summary)}" if name else describe(summary)
    if not _needs_chart(value, summary):
        return View(thing, text, text, join([pre(text), *filter(None, [_small_html(value, summary)])]))
    chart = _chart(value, summary, _SIDE, _SLICE_SIDE)
    drawing = card([chart], text)
    alt = f"{text}. Blue is negative, red positive, the paler the nearer to 0."
    return View(thing, text, text, join([pre(text), image(to_svg(drawing), alt)]), lambda: drawing, chart.image)


def view_arrays(thing: Any, named: Iterable[tuple[str, Any]], title: str) -> View:
    """The view of many arrays: a line each, and pictures as long as there is room.

    Parameters
    ----------
    thing : object
        What contains them.
    named : iterable of (str, object)
    title : str

    Returns
    -------
    View
    """
    named = list(named)
    lines: list[str] = []
    parts: list[str] = []
    room = _PICTURE_BYTES
    for name, item in named[:_MOST_ARRAYS]:
        value, summary = _summarize(item)
        text = f"{sanitize(name, 80)}: {describe(summary)}"
        lines.append(text)
        parts.append(pre(text))
        if room < MAX_BYTES // 20:
            continue
        if _needs_chart(value, summary):
            body = image(to_svg(card([_chart(value, summary, _SIDE // 2, _SLICE_SIDE // 2)], text)), text)
        else:
            body = _small_html(value, summary)
        if body and len(body) <= room:
            room -= len(body)
            parts.append(paragraph(body))
    if len(named) > _MOST_ARRAYS:
        more = f"and {len(named) - _MOST_ARRAYS:,} more"
        lines.append(more)
        parts.append(note(more))
    return View(thing, title, "\n".join(lines) or "nothing", join(parts or [pre("nothing")]))


def chart_of(value: np.ndarray, name: str = "") -> Chart:
    """The heat map of an array, however small.

    Parameters
    ----------
    value : ndarray
    name : str

    Returns
    -------
    Chart

    Raises
    ------
    FeedError
        It has no numbers.
    """
    value, summary = _summarize(value)
    if summary.kind != "number" or not summary.count:
        raise FeedError("plot", expected="an array of numbers that is not empty", got=describe(summary), next="pyopnb.show(…)")
    return _chart(value, summary, _SIDE, _SLICE_SIDE, name)


def _summarize(value: Any) -> tuple[Any, Summary]:
    if isinstance(value, (bool, int, float, complex, str)):  # of a list of Python values
        value = np.asarray(value, object if isinstance(value, str) else None)
    try:
        summary = summary_of(value)
    except NotationError as error:
        raise FeedError("show", expected="an array of a dtype that ONNX has", got=error.got or "another") from None
    return np.asarray(value) if summary.kind in ("number", "text") else value, summary


def _squeeze(value: np.ndarray) -> np.ndarray:
    """The array without axes of length 1, but with at least one axis."""
    return value.reshape([size for size in value.shape if size != 1] or [1])


def _needs_chart(value: Any, summary: Summary) -> bool:
    """Whether an array is better seen as a picture than read."""
    if summary.kind != "number" or not summary.count or value.ndim == 0:
        return False
    squeezed = _squeeze(value)
    return squeezed.ndim > 2 or max(squeezed.shape) > _TABLE


def _small_html(value: Any, summary: Summary) -> str:
    """What is better read than seen: texts, items and a few numbers."""
    if summary.kind == "text":
        return _texts_html(value)
    if summary.kind == "sequence":
        return _items_html(value)
    return _table(np.atleast_2d(_squeeze(value))) if summary.kind == "number" and summary.count and value.ndim else ""


# ---- heat maps


def _to_native(block: np.ndarray) -> np.ndarray:
    """A block in a dtype of NumPy's own, which can be ordered; complex numbers become their modulus."""
    if block.dtype.kind == "c":
        modulus: np.ndarray = np.abs(block)
        modulus[np.isnan(block)] = np.nan  # otherwise the modulus of Inf+NaNj is Inf
        return modulus
    if block.dtype == np.float16 or (block.dtype.isbuiltin == 2 and "float" in block.dtype.name):
        with np.errstate(invalid="ignore"):  # a NaN that signals
            return block.astype(np.float32)
    return block.astype(np.int8) if block.dtype.isbuiltin == 2 or block.dtype == bool else block


def _chart(value: np.ndarray, summary: Summary, side: int, slice_side: int, name: str = "") -> Chart:
    """A heat map of a matrix, or one of each slice of a stack, with at most ``side`` or ``slice_side`` cells along an axis."""
    stack = _squeeze(value)
    if stack.ndim <= 2:
        matrix = np.atleast_2d(stack)
        names, matrices = [""], [pool(matrix, side, 2 * side if stack.ndim == 1 else side, _to_native)]
        shape, below = matrix.shape, ""
    else:
        indices = [np.unravel_index(at, stack.shape[:-2]) for at in _select_slices(stack)]
        names = [",".join(map(str, index)) for index in indices]
        matrices = [pool(stack[index], slice_side, slice_side, _to_native) for index in indices]
        shape, count = stack.shape[-2:], math.prod(stack.shape[:-2])
        below = "" if len(indices) == count else f"{len(indices)} of {count:,} slices. "
    rows, columns = (-(-size // cells) for size, cells in zip(shape, matrices[0].shape, strict=True))
    pooling = f"A cell is the largest of {rows} × {columns}." if rows * columns > 1 else ""
    title = f"{name + ': ' if name else ''}{'|x|, ' if value.dtype.kind == 'c' else ''}{summary.type}"
    if value.dtype == bool:
        negative = [-matrix for matrix in matrices]  # True is blue
        scale, words = Scale(-1, 1, kind="diverging"), {"False": 0.0, "True": -1.0}
        return heat_maps(negative, names, scale, title, below=below + pooling, words=words)
    sizes = [np.where(np.isfinite(matrix), np.abs(matrix), 0) for matrix in matrices]
    end = _scale_end(sizes)
    marks, ringed = _marks(matrices, sizes, end)
    below += f"Ringed: {', '.join(ringed)}. " if ringed else ""
    return heat_maps(matrices, names, _scale(value, summary, end), title, below=below + pooling, marks=marks)


def _marks(
    matrices: Sequence[np.ndarray], sizes: Sequence[np.ndarray], end: float
) -> tuple[list[tuple[int, float, float]], list[str]]:
    """Rings around a few cells that are easily missed, and what they are."""
    marks = [
        (k, row + 0.5, column + 0.5)
        for k, matrix in enumerate(matrices)
        for row, column in np.argwhere(~np.isfinite(matrix))[: _MOST_RINGS + 1]
    ]
    marks = marks if len(marks) <= _MOST_RINGS else []  # many are visible without rings
    ringed = ["what is not finite"] if marks else []
    highs = [float(one.max()) for one in sizes]
    if end < max(highs):
        first = highs.index(max(highs))
        row, column = np.unravel_index(int(sizes[first].argmax()), sizes[first].shape)
        marks.append((first, row + 0.5, column + 0.5))
        ringed.insert(0, f"{matrices[first][row, column]:.4g}")
    return marks, ringed


def _scale(value: np.ndarray, summary: Summary, end: float) -> Scale:
    if value.dtype.kind == "c":
        return Scale(0.0, end)
    never_negative = summary.least is not None and summary.least >= 0
    return Scale(0.0, end, kind="grey") if never_negative else Scale(-end, end, kind="diverging")


def _scale_end(sizes: Sequence[np.ndarray]) -> float:
    """The magnitude of the last colour: a few outliers must not make all other numbers look like 0."""
    flat = np.concatenate([matrix.ravel() for matrix in sizes])
    high, typical = float(flat.max()), 1.5 * float(np.quantile(flat, 0.98))
    return typical if 0 < typical < 0.6 * high else high


def _select_slices(stack: np.ndarray) -> list[int]:
    """The first slices of a stack, and that with the largest number, found by bisection into 256 groups."""
    count = math.prod(stack.shape[:-2])
    first = list(range(min(count, _MOST_SLICES)))
    if count <= _MOST_SLICES or not stack.flags.c_contiguous:  # finding it in another memory order would take a copy
        return first
    flat, at = stack.reshape(count, -1), 0
    while flat.shape[0] > 1:
        largest = pool(flat, 256, 1, _to_native)[:, 0]
        group = int(np.where(np.isnan(largest), np.inf, np.abs(largest)).argmax())
        begin, end = (number * flat.shape[0] // largest.size for number in (group, group + 1))
        flat, at = flat[begin:end], at + begin
    return first if at in first else [*first[:-1], at]


# ---- tables and texts


def _table(matrix: np.ndarray) -> str:
    numbers = _to_native(matrix).astype(np.float64)
    finite = np.abs(numbers[np.isfinite(numbers)])
    most = float(finite.max()) if finite.size else 0.0
    rows = [
        "".join(_cell(value, float(number), most) for value, number in zip(*row, strict=True))
        for row in zip(matrix, numbers, strict=True)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{body}</tbody></table>'


def _cell(value: Any, number: float, most: float) -> str:
    """A number on a background whose colour is its sign and whose opacity is its size."""
    colour = "213,0,127" if not math.isfinite(number) else "214,72,34" if number > 0 else "30,110,230"
    opacity = 0.5 if not math.isfinite(number) else 0.45 * abs(number) / most if most else 0.0
    text = f"{value:.4g}" if isinstance(value, (np.floating, np.complexfloating)) else str(value)
    return f'<td style="{_CELL};background-color:rgba({colour},{opacity:.2f})">{escape(text, 40)}</td>'


def _texts_html(value: np.ndarray) -> str:
    if not value.ndim:
        return ""
    indices = islice(np.ndindex(value.shape), _MOST_ITEMS)
    lines = [f"[{','.join(map(str, index))}] {sanitize(repr(str(value[index])), 90)}" for index in indices]
    return _listing(lines, value.size)


def _items_html(value: Any) -> str:
    pairs = list(value.items() if isinstance(value, Mapping) else enumerate(value))
    lines = [f"[{sanitize(repr(key), 60)}] {describe(_summarize(item)[1])}" for key, item in pairs[:_MOST_ITEMS]]
    return _listing(lines, len(pairs))


def _listing(lines: Sequence[str], count: int) -> str:
    return pre("\n".join(lines)) + (note(f"and {count - len(lines):,} more") if count > len(lines) else "")
