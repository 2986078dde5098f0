"""Arrays: one line of text each, and a picture in which outliers stay visible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from pyopnb.display.html import MAX_BYTES, escape, image, join, note, paragraph, pre
from pyopnb.display.picture import Look, Picture, picture_of, squeeze, to_native
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.pool import Pooling
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize
from pyopnb.traces.summary import Summary, summary_of

__all__ = ["chart_of", "describe", "view_array", "view_arrays"]

_TABLE = 16  # most rows and columns of an array that is shown as its numbers
_MOST_ITEMS = 20
_MOST_ARRAYS = 150
_PICTURE_BYTES = MAX_BYTES * 3 // 4  # of one output
_CELL = "text-align:right;padding:1px 6px;border:1px solid rgba(128,128,128,0.25);font-family:monospace;white-space:nowrap"


def describe(summary: Summary) -> str:
    """A tensor in one line: type, number of elements, range and histogram, and what is not finite.

    Examples
    --------
    >>> describe(summary_of(np.float32([[0, 1, 1], [1, 2, np.nan]])))
    'float32[2,3] n=6 x∈[0, 2] ▃▁▁▁▁▁▁▁█▁▁▁▁▁▁▃ μ=1 σ=0.6325 ⚠ 1 NaN'
    >>> describe(summary_of(np.zeros(3, np.int64)))
    'int64[3] n=3 all zero'
    """
    return " ".join(_words(summary))


def _words(summary: Summary) -> Iterator[str]:
    yield summary.kind if summary.type is None else sanitize(summary.type)
    if summary.kind in ("sequence", "map"):
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
    if bad := [what if scalar else f"{count:,} {what}" for count, what in counts if count]:
        yield f"⚠ {', '.join(bad)}"


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
        yield (
            "all zero"
            if not low and not summary.has_nonfinite
            else f"{x}=0"
            if not low
            else f"{x}={_short(low)}"
        )
    else:
        yield f"{x}∈[{_short(low)}, {_short(high)}]"
        yield summary.bars
        if math.isfinite(summary.mean or 0.0) and math.isfinite(
            summary.std or 0.0
        ):  # they overflow for numbers near the limits
            yield f"μ={_short(summary.mean)} σ={_short(summary.std)}"


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**6 else f"{value:.4g}"


def view_array(
    thing: Any,
    name: str = "",
    *,
    rgb: bool | None = None,
    pool: Pooling | None = None,
    size: int | None = None,
    limits: tuple[float, float] | None = None,
) -> View:
    """The view of one array.

    Parameters
    ----------
    thing : ndarray, scalar, or what a sequence or map output is
    name : str
    rgb, pool, size, limits : optional
        As for `pyopnb.show`.

    Returns
    -------
    View

    Raises
    ------
    InputError
        An option is asked for that does not fit the array.
    """
    look = Look(rgb, pool, size, limits)
    value, summary = _summarize(thing)
    text = f"{sanitize(name, 80)}: {describe(summary)}" if name else describe(summary)
    if look.is_default and not _needs_picture(value, summary):
        return View(
            thing, text, text, join([pre(text), *filter(None, [_small_html(value, summary)])])
        )
    picture = picture_of(value, summary, look, _PICTURE_BYTES)

    def draw() -> Drawing:
        return page([picture.titled], text)

    return View(
        thing,
        text,
        text,
        join([pre(text), _picture_html(picture, text)]),
        draw,
        picture.plain.image,
    )


def _picture_html(picture: Picture, text: str) -> str:
    """A picture with its words below as text of the page, which has the theme's colours and can be selected."""
    colours = (
        " Blue is negative, red positive, the paler the nearer to 0."
        if picture.is_diverging
        else ""
    )
    drawing = page([picture.plain], text)
    return paragraph(
        image(to_svg(drawing), f"{text}.{colours}")
        + (note(picture.caption) if picture.caption else "")
    )


def view_arrays(
    thing: Any,
    named: Iterable[tuple[str, Any]],
    title: str,
    *,
    rgb: bool | None = None,
    pool: Pooling | None = None,
    size: int | None = None,
    limits: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
) -> View:
    """The view of many arrays: a line each, and pictures as long as there is room.

    Parameters
    ----------
    thing : object
        What contains them.
    named : iterable of (str, object)
    title : str
    rgb, pool, size, limits : optional
        As for `pyopnb.show`; for those of the arrays that they fit. Limits can also be given by name.

    Returns
    -------
    View
    """
    own = limits if isinstance(limits, Mapping) else {}
    look = Look(rgb, pool, size, None if isinstance(limits, Mapping) else limits)
    named = list(named)
    lines: list[str] = []
    parts: list[str] = []
    room = _PICTURE_BYTES
    for name, item in named[:_MOST_ARRAYS]:
        value, summary = _summarize(item)
        text = f"{sanitize(name, 80)}: {describe(summary)}"
        lines.append(text)
        parts.append(pre(text))
        if room < MAX_BYTES // 40:
            continue
        if _needs_picture(value, summary):
            share = max(MAX_BYTES // 20, _PICTURE_BYTES // len(named))
            body = _picture_html(
                picture_of(
                    value,
                    summary,
                    replace(look, limits=own.get(name, look.limits)).fitting(value),
                    min(room, share),
                ),
                text,
            )
        else:
            body = _small_html(value, summary)
        if body and len(body) <= room:
            room -= len(body)
            parts.append(body)
    if len(named) > _MOST_ARRAYS:
        more = f"and {len(named) - _MOST_ARRAYS:,} more"
        lines.append(more)
        parts.append(note(more))
    return View(thing, title, "\n".join(lines) or "nothing", join(parts or [pre("nothing")]))


def chart_of(value: np.ndarray, name: str = "") -> Chart:
    """The heat map or picture of an array, however small.

    Parameters
    ----------
    value : ndarray
    name : str

    Returns
    -------
    Chart

    Raises
    ------
    InputError
        It has no numbers.
    """
    value, summary = _summarize(value)
    if summary.kind != "number" or not summary.count:
        raise InputError(
            "plot",
            expected="an array of numbers that is not empty",
            got=describe(summary),
            next="pyopnb.show(…)",
        )
    return picture_of(value, summary, Look(), _PICTURE_BYTES, name).titled


def _summarize(value: Any) -> tuple[Any, Summary]:
    if isinstance(value, (bool, int, float, complex, str)):  # of a list of Python values
        value = np.asarray(value, object if isinstance(value, str) else None)
    try:
        summary = summary_of(value)
    except InputError as error:
        raise InputError(
            "show", expected="an array of a dtype that ONNX has", got=error.got or "another"
        ) from None
    return np.asarray(value) if summary.kind in ("number", "text") else value, summary


def _needs_picture(value: Any, summary: Summary) -> bool:
    """Whether an array is better seen as a picture than read."""
    if summary.kind != "number" or not summary.count or value.ndim == 0:
        return False
    shape = squeeze(value).shape
    return max(shape[-2:]) > _TABLE or (len(shape) > 2 and value.size > _TABLE**2)


def _small_html(value: Any, summary: Summary) -> str:
    """What is better read than seen: texts, items and a few numbers."""
    if summary.kind == "text":
        return _texts_html(value)
    if summary.kind in ("sequence", "map"):
        return _items_html(value)
    return (
        _tables(squeeze(value)) if summary.kind == "number" and summary.count and value.ndim else ""
    )


# ---- tables and texts


def _tables(value: np.ndarray) -> str:
    """The numbers of a matrix, or of each matrix of a stack under its index."""
    if value.ndim <= 2:
        return _table(np.atleast_2d(value))
    box = "display:inline-block;margin:0 16px 4px 0;vertical-align:top"
    slices = ((",".join(map(str, index)), value[index]) for index in np.ndindex(value.shape[:-2]))
    return "".join(
        f'<div style="{box}">{note(f"[{index}]")}{_table(matrix)}</div>' for index, matrix in slices
    )


def _table(matrix: np.ndarray) -> str:
    numbers = to_native(matrix).astype(np.float64)
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
    colour = (
        "213,0,127" if not math.isfinite(number) else "214,72,34" if number > 0 else "30,110,230"
    )
    opacity = 0.5 if not math.isfinite(number) else 0.45 * abs(number) / most if most else 0.0
    text = f"{value:.4g}" if isinstance(value, (np.floating, np.complexfloating)) else str(value)
    return (
        f'<td style="{_CELL};background-color:rgba({colour},{opacity:.2f})">{escape(text, 40)}</td>'
    )


def _texts_html(value: np.ndarray) -> str:
    if not value.ndim:
        return ""
    indices = islice(np.ndindex(value.shape), _MOST_ITEMS)
    lines = [
        f"[{','.join(map(str, index))}] {sanitize(repr(str(value[index])), 90)}"
        for index in indices
    ]
    return _listing(lines, value.size)


def _items_html(value: Any) -> str:
    pairs = list(value.items() if isinstance(value, Mapping) else enumerate(value))
    lines = [
        f"[{sanitize(repr(key), 60)}] {describe(_summarize(item)[1])}"
        for key, item in pairs[:_MOST_ITEMS]
    ]
    return _listing(lines, len(pairs))


def _listing(lines: Sequence[str], count: int) -> str:
    return pre("\n".join(lines)) + (
        note(f"and {count - len(lines):,} more") if count > len(lines) else ""
    )
