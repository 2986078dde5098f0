"""Arrays: one line of text each, and a picture in which what is odd stays visible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.ulp import widened
from pyopnb.display.html import LARGEST, escaped, image, note, page, pre
from pyopnb.display.svg.chart import Chart, card, tiles
from pyopnb.display.svg.colours import Scale
from pyopnb.display.svg.pool import pooled
from pyopnb.display.view import View
from pyopnb.ops.errors import FeedError, NotationError, sanitize
from pyopnb.runtime.trace.summary import Summary, summary_of

__all__ = ["array", "arrays", "line", "matrix_of"]

_SIDE = 128  # fields of a picture along each axis
_TILE = 40  # the same of each of many
_TILES = 16
_TABLE = 16  # rows and columns of an array that is shown as its numbers
_TEXTS = 20
_RINGS = 3
_MANY = 150  # arrays of a list that are shown
_PICTURES = LARGEST * 3 // 4  # bytes of one output that pictures may take
_CELL = "text-align:right;padding:1px 6px;border:1px solid rgba(128,128,128,0.25);font-family:monospace;white-space:nowrap"


def line(summary: Summary) -> str:
    """A tensor in one line: its type, how many elements, their range and how they lie in it, and what is odd.

    Examples
    --------
    >>> line(summary_of(np.float32([[0, 1, 1], [1, 2, np.nan]])))
    'float32[2,3] n=6 x∈[0, 2] ▃▁▁▁▁▁▁▁█▁▁▁▁▁▁▃ μ=1 σ=0.6325 1 NaN!'
    >>> line(summary_of(np.zeros(3, np.int64)))
    'int64[3] n=3 all zero'
    """
    return " ".join(_said(summary))


def _said(summary: Summary) -> Iterator[str]:
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
        yield from _numbers(summary, scalar)
    counts = ((summary.nan, "NaN"), (summary.posinf, "+Inf"), (summary.neginf, "-Inf"))
    yield from (f"{what}!" if scalar else f"{count:,} {what}!" for count, what in counts if count)


def _numbers(summary: Summary, scalar: bool) -> Iterator[str]:
    name = "" if summary.type is None or summary.type.dtype is None else summary.type.dtype.name
    low, high = summary.least, summary.greatest
    x = "|x|" if name.startswith("complex") else "x"
    if name == "bool":
        true = summary.count - summary.zeros
        yield str(bool(true)) if scalar else f"{true:,} True, {summary.zeros:,} False"
    elif scalar:
        yield f"{x + '=' if x != 'x' else ''}{_short(low)}"
    elif low == high:
        yield "all zero" if not low and not summary.nasty else f"{x}=0" if not low else f"{x}={_short(low)}"
    else:
        yield f"{x}∈[{_short(low)}, {_short(high)}]"
        yield summary.bars
        if math.isfinite(summary.mean or 0.0) and math.isfinite(
            summary.std or 0.0
        ):  # of numbers near the end of floats they are not
            yield f"μ={_short(summary.mean)} σ={_short(summary.std)}"


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**6 else f"{value:.4g}"


def array(thing: Any, name: str = "") -> View:
    """The drawing of one array."""
    value, summary = _looked_at(thing)
    said = f"{sanitize(name, 80)}: {line(summary)}" if name else line(summary)
    charts, body = _picture(value, summary, _SIDE, _TILE)
    svg = card(charts, said) if charts else ""
    parts = [pre(said), image(svg, f"{said}. {_meaning(charts)}") if svg else body]
    return View(thing, said, said, page(part for part in parts if part), svg, charts[0].png if charts else b"")


def arrays(thing: Any, named: Iterable[tuple[str, Any]], title: str) -> View:
    """The drawing of many arrays: a line each, and pictures as long as there is room."""
    named = list(named)
    lines, parts, room = [], [], _PICTURES
    for count, (name, value) in enumerate(named):
        if count == _MANY:
            more = f"and {len(named) - _MANY:,} more"
            lines.append(more)
            parts.append(note(more))
            break
        value, summary = _looked_at(value)
        said = f"{sanitize(name, 80)}: {line(summary)}"
        lines.append(said)
        parts.append(pre(said))
        if room < LARGEST // 20:
            continue
        charts, body = _picture(value, summary, _SIDE // 2, _TILE // 2)
        if charts:
            body = image(card(charts, said), said)
        if body and len(body) <= room:
            room -= len(body)
            parts.append(f'<div style="margin:4px 0 12px 0">{body}</div>')
    return View(thing, title, "\n".join(lines) or "nothing", page(parts or [pre("nothing")]))


def _looked_at(value: Any) -> tuple[Any, Summary]:
    if isinstance(value, (bool, int, float, complex, str)):  # in a list of Python's own values
        value = np.asarray(value, object if isinstance(value, str) else None)
    try:
        summary = summary_of(value)
    except NotationError as error:
        raise FeedError("show", expected="an array of a dtype that ONNX has", got=error.got or "another") from None
    return np.asarray(value) if summary.kind in ("number", "text") else value, summary


def _meaning(charts: list[Chart]) -> str:
    return "Blue is negative, red positive, the paler the nearer to 0." if charts else ""


def _picture(value: Any, summary: Summary, side: int, tile: int) -> tuple[list[Chart], str]:
    """Charts, or HTML where numbers and texts are better read than looked at."""
    if summary.kind == "text":
        return [], _texts(value)
    if summary.kind == "sequence":
        return [], _items(value)
    if summary.kind != "number" or not summary.count or value.ndim == 0:
        return [], ""
    whole = value.reshape([size for size in value.shape if size != 1] or [1])
    if whole.ndim <= 2 and max(whole.shape) <= _TABLE:
        return [], _table(value, np.atleast_2d(whole))
    return [_chart(value, whole, summary, side, tile)], ""


def _plain(block: np.ndarray) -> np.ndarray:
    """A block as numbers that NumPy itself knows and can order."""
    if block.dtype.kind == "c":
        made: np.ndarray = np.abs(block)
        made[np.isnan(block)] = np.nan  # else the modulus of Inf+NaNj is Inf
        return made
    if block.dtype == np.float16 or (block.dtype.isbuiltin == 2 and "float" in block.dtype.name):
        return widened(np.ascontiguousarray(block).reshape(-1)).reshape(block.shape)
    return block.astype(np.int8) if block.dtype.isbuiltin == 2 or block.dtype == bool else block


def _chart(value: np.ndarray, whole: np.ndarray, summary: Summary, side: int, tile: int) -> Chart:
    if whole.ndim <= 2:
        names, several = [""], [pooled(np.atleast_2d(whole), side, 2 * side if whole.ndim == 1 else side, _plain)]
        each, pick = np.atleast_2d(whole).shape, ""
    else:
        picked = _picked(whole)
        names = [",".join(map(str, np.unravel_index(at, whole.shape[:-2]))) for at in picked]
        several = [pooled(whole[np.unravel_index(at, whole.shape[:-2])], tile, tile, _plain) for at in picked]
        each, count = whole.shape[-2:], math.prod(whole.shape[:-2])
        pick = "" if len(picked) == count else f"{len(picked)} of {count:,} slices. "
    rows, columns = (-(-size // fields) for size, fields in zip(each, several[0].shape, strict=True))
    field = f"A field is the largest of {rows} × {columns}." if rows * columns > 1 else ""
    title = f"{'|x|, ' if value.dtype.kind == 'c' else ''}{summary.type}"
    if value.dtype == bool:
        blue = [-one for one in several]
        return tiles(blue, names, Scale(-1, 1, kind="around"), title, below=pick + field, words={"False": 0, "True": -1})
    sizes = [np.where(np.isfinite(one), np.abs(one), 0) for one in several]
    high, end = float(max(one.max() for one in sizes)), _end(sizes)
    scale = _scale(value, summary, end)
    marks = [(k, row + 0.5, column + 0.5) for k, one in enumerate(several) for row, column in np.argwhere(~np.isfinite(one))]
    marks = marks if len(marks) <= _RINGS else []  # many are seen without rings
    ringed = ["what is not finite"] if marks else []
    if end < high:
        first = next(k for k, one in enumerate(sizes) if one.max() == high)
        row, column = np.unravel_index(int(sizes[first].argmax()), sizes[first].shape)
        marks.append((first, row + 0.5, column + 0.5))
        ringed.insert(0, f"{several[first][row, column]:.4g}")
    pick += f"Ringed: {', '.join(ringed)}. " if ringed else ""
    return tiles(several, names, scale, title, below=pick + field, marks=marks)


def _scale(value: np.ndarray, summary: Summary, end: float) -> Scale:
    if value.dtype.kind == "c":
        return Scale(0.0, end)
    never_negative = summary.least is not None and summary.least >= 0
    return Scale(0.0, end, kind="light") if never_negative else Scale(-end, end, kind="around")


def matrix_of(value: np.ndarray, side: int) -> tuple[np.ndarray, tuple[int, int], float, str]:
    """An array as one pooled matrix, the size that it had, where its colours end, and what it is.

    Raises
    ------
    FeedError
        It holds no numbers.
    """
    value, summary = _looked_at(value)
    if summary.kind != "number" or not summary.count:
        raise FeedError("plot", expected="an array of numbers that is not empty", got=line(summary), next="pyopnb.show(…)")
    rows = value.reshape(math.prod(value.shape[:-1]), value.shape[-1]) if value.ndim else value.reshape(1, 1)
    fields = pooled(rows, side, side, _plain)
    end = _end([np.where(np.isfinite(fields), np.abs(fields), 0)]) or 1.0
    return fields, rows.shape, end, str(summary.type)


def _end(sizes: list[np.ndarray]) -> float:
    """Where colours end: a few large numbers must not make all others look like 0."""
    every = np.concatenate([one.ravel() for one in sizes])
    high, most = float(every.max()), 1.5 * float(np.quantile(every, 0.98))
    return most if 0 < most < 0.6 * high else high


def _picked(whole: np.ndarray) -> list[int]:
    """The first slices of a stack, and, if it is not among them, that which has the largest number."""
    count = math.prod(whole.shape[:-2])
    first = list(range(min(count, _TILES)))
    if count <= _TILES or not whole.flags.c_contiguous:  # of an array in another order it would take a copy to find it
        return first
    flat, at = whole.reshape(count, -1), 0
    while flat.shape[0] > 1:
        found = pooled(flat, 256, 1, _plain)[:, 0]
        group = int(np.where(np.isnan(found), np.inf, np.abs(found)).argmax())
        begin, end = group * flat.shape[0] // found.size, (group + 1) * flat.shape[0] // found.size
        flat, at = flat[begin:end], at + begin
    return first if at in first else [*first[:-1], at]


def _table(value: np.ndarray, whole: np.ndarray) -> str:
    plain = _plain(whole).astype(np.float64)
    finite = np.abs(plain[np.isfinite(plain)])
    most = float(finite.max()) if finite.size else 0.0
    rows = []
    for shown_row, row in zip(whole, plain, strict=True):
        rows.append("".join(_cell(one, float(size), most) for one, size in zip(shown_row, row, strict=True)))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{body}</tbody></table>'


def _cell(value: Any, size: float, most: float) -> str:
    colour = "213,0,127" if not math.isfinite(size) else "214,72,34" if size > 0 else "30,110,230"
    strong = 0.5 if not math.isfinite(size) else 0.45 * abs(size) / most if most else 0.0
    text = f"{value:.4g}" if isinstance(value, (np.floating, np.complexfloating)) else str(value)
    return f'<td style="{_CELL};background-color:rgba({colour},{strong:.2f})">{escaped(text, 40)}</td>'


def _texts(value: np.ndarray) -> str:
    if not value.ndim:
        return ""
    quoted = [
        f"[{','.join(map(str, index))}] {sanitize(repr(str(item)), 90)}"
        for index, item in zip(np.ndindex(value.shape), value.flat, strict=False)
    ][:_TEXTS]
    more = value.size - len(quoted)
    return pre("\n".join(quoted)) + (note(f"and {more:,} more") if more > 0 else "")


def _items(value: Any) -> str:
    pairs = list(value.items() if isinstance(value, Mapping) else enumerate(value))
    made = [f"[{sanitize(repr(key), 60)}] {line(_looked_at(item)[1])}" for key, item in pairs[:_TEXTS]]
    return pre("\n".join(made)) + (note(f"and {len(pairs) - _TEXTS:,} more") if len(pairs) > _TEXTS else "")
