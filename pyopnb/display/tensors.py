"""Arrays as one line of text each, and as a picture, or as numbers if there are few."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from pyopnb.common import sanitize
from pyopnb.display.array_boxes import boxes_on, has_boxes
from pyopnb.display.array_curve import is_curve
from pyopnb.display.array_look import ArrayLook, Limits, squeeze, title_of_array
from pyopnb.display.array_pointer import with_values
from pyopnb.display.array_sheets import chart_of
from pyopnb.display.live_picture import script
from pyopnb.display.page.markup import MAX_BYTES, escape, image, join, note, paragraph, pre
from pyopnb.display.photographs import channel_axis
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.colors import SPECIAL, palette
from pyopnb.display.svg.pool import to_floats
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.views import View, view
from pyopnb.engine import Result
from pyopnb.errors import InputError
from pyopnb.traces import Summary

__all__ = ["view_array", "view_arrays", "view_collection"]

# An array of at most this many rows and columns is shown as its numbers.
_TABLE = 16
_MOST_ITEMS = 20
_MOST_ARRAYS = 150
# All pictures of an output take at most this many bytes.
_PICTURE_BYTES = MAX_BYTES * 3 // 4
# With less room than this a picture would not be worth drawing.
_LEAST_BYTES = MAX_BYTES // 40
_CELL = (
    "text-align:right;padding:1px 6px;border:1px solid rgba(128,128,128,0.25);"
    "font-family:monospace;white-space:nowrap"
)


@view.register(np.ndarray)
@view.register(np.generic)
def view_array(
    thing: Any,
    name: str = "",
    *,
    rgb: bool | None = None,
    limits: Limits | None = None,
    colors: Literal["sequential", "diverging", "gray"] | None = None,
    log: bool = False,
    origin: Literal["upper", "lower"] = "upper",
    feeds: Mapping[str, Any] | None = None,
    picture: np.ndarray | None = None,
) -> View:
    """Show one array.

    Parameters
    ----------
    thing : ndarray, scalar, or the list or dict of a sequence or map output
    rgb, limits, colors, log, origin, feeds, picture : optional
        As for `pyopnb.show`.
    """
    return view_arrays(
        thing,
        [(name, thing)],
        "",
        rgb=rgb,
        limits=limits,
        colors=colors,
        log=log,
        origin=origin,
        feeds=feeds,
        picture=picture,
    )


@view.register(Result)
@view.register(dict)
@view.register(list)
@view.register(tuple)
def view_collection(thing: Any, **options: Any) -> View:
    """Show the arrays of a result, dict, list or tuple."""
    is_named = isinstance(thing, (Mapping, Result))
    named = thing.items() if is_named else enumerate(thing)
    noun = "values"
    if isinstance(thing, Result):
        noun = "outputs"
    return view_arrays(thing, named, f"{len(thing)} {noun}", **options)


def view_arrays(
    thing: Any,
    named: Iterable[tuple[Any, Any]],
    title: str,
    *,
    limits: Limits | Mapping[str, Limits] | None = None,
    **options: Any,
) -> View:
    """Show many arrays: a line each, and pictures as long as there is room.

    Parameters
    ----------
    thing : object
        The object that contains them.
    limits : (float, float), optional
        Also by name.
    **options
        Of `ArrayLook`, for the arrays that they fit.
    """
    look = ArrayLook(**options)
    items = list(named)
    is_single = len(items) == 1
    shown = []
    for key, item in items[:_MOST_ARRAYS]:
        array = _shown_array(str(key), item, look, limits)
        # Of several arrays, rgb=True applies to the ones that can be photographs.
        if look.rgb and not is_single and channel_axis(array.value) is None:
            array = replace(array, look=replace(array.look, rgb=None))
        shown.append(array)
    # Each picture gets its share, but not so little that nothing could be seen.
    share = max(MAX_BYTES // 20, _PICTURE_BYTES // max(1, len(items)))
    room = _PICTURE_BYTES
    parts: list[str] = []
    for array in shown:
        line = array.line
        if array.has_numbers and array.value.size <= _TABLE:
            # The numbers say what their histogram says.
            line = line.rstrip(" ▁▂▃▄▅▆▇█")
        parts.append(pre(line))
        # Limits by name are those of an output that is drawn again, and ask for nothing.
        is_asked = is_single and array.look != ArrayLook() and not isinstance(limits, Mapping)
        body = _body(array, min(room, share), is_asked)
        if len(body) <= room:
            room -= len(body)
            parts.append(body)
    lines = [array.line for array in shown]
    if len(items) > len(shown):
        lines.append(f"and {len(items) - len(shown):,} more")
        parts.append(note(lines[-1]))
    text = "\n".join(lines) or "nothing"
    title = title or text
    drawn = [array for array in shown if array.has_numbers]

    def draw() -> Drawing:
        return page([array.chart(_PICTURE_BYTES) for array in drawn], title)

    if any("data-values" in part for part in parts):
        parts.append(script("array_pointer.js"))
    return View(thing, title, text, join(parts or [pre(text)]), draw if drawn else None)


@dataclass(frozen=True)
class _ShownArray:
    """A value with its summary, and how it is drawn."""

    name: str
    value: Any
    summary: Summary
    look: ArrayLook

    @property
    def line(self) -> str:
        line = sanitize(str(self.summary), 300)
        if self.name:
            return f"{sanitize(self.name, 80)}: {line}"
        return line

    @property
    def has_numbers(self) -> bool:
        return self.summary.kind == "number" and bool(self.summary.count)

    @property
    def is_better_seen(self) -> bool:
        """Tell whether it is better seen as a picture than read."""
        if not self.has_numbers or self.value.ndim == 0:
            return False
        shape = squeeze(self.value).shape
        if self.look.picture is not None and has_boxes(self.value):
            return True
        if len(shape) == 1:
            return int(self.value.size) > _TABLE
        return max(shape[-2:]) > _TABLE or (len(shape) > 2 and self.value.size > _TABLE**2)

    def chart(self, most_bytes: int) -> Chart:
        picture = self.look.picture
        if picture is None or not has_boxes(self.value):
            return chart_of(self.value, self.summary, self.look, most_bytes, self.name)
        photograph = chart_of(picture, Summary.of(picture), ArrayLook(rgb=True), most_bytes)
        sides = np.moveaxis(picture, channel_axis(picture) or -1, -1).shape[-3:-1]
        title = title_of_array(self.value, self.summary, self.name)
        return boxes_on(self.value, photograph, sides, title)


def _shown_array(
    name: str, item: Any, look: ArrayLook, limits: Limits | Mapping[str, Limits] | None
) -> _ShownArray:
    if isinstance(limits, Mapping):
        limits = limits.get(name)
    value, summary = _summarize(item)
    return _ShownArray(name, value, summary, replace(look, limits=limits))


def _body(array: _ShownArray, room: int, is_asked: bool) -> str:
    """Draw an array, or write its numbers if there are few and no picture is asked for."""
    is_seen = array.is_better_seen or is_asked
    if is_seen and room >= _LEAST_BYTES:
        return _picture_html(array, array.chart(room), room)
    if is_seen and array.value.size > _TABLE:
        return ""
    return _small_html(array)


def _summarize(value: Any) -> tuple[Any, Summary]:
    # A list may hold plain Python values.
    if isinstance(value, str):
        value = np.asarray(value, object)
    elif isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value)
    try:
        summary = Summary.of(value)
    except InputError as error:
        expected = "an array of a dtype that ONNX has"
        raise InputError("show", expected=expected, got=error.got or "another") from None
    if summary.kind in ("number", "text"):
        value = np.asarray(value)
    return value, summary


def _picture_html(array: _ShownArray, chart: Chart, room: int) -> str:
    """Write a picture's words below it as text, which has the page's colors.

    A reader can select it.
    """
    drawing = page([chart.plain()], array.line)
    alt = f"{array.line}."
    is_diverging = (array.summary.least or 0) < 0 and array.look.colors in (None, "diverging")
    if is_diverging and not array.look.rgb and not array.look.log and not is_curve(array.value):
        alt += " Blue is negative, red positive, the paler the nearer to 0."
    element = image(to_svg(drawing), alt)
    shape = np.atleast_2d(squeeze(array.value)).shape[-2:]
    element = with_values(element, drawing, shape, array.look.origin, room - len(element))
    if chart.caption:
        element += note(chart.caption)
    return paragraph(element)


# ---- tables and texts


def _small_html(array: _ShownArray) -> str:
    """Write values that are better as text than as a picture: texts, items and a few numbers."""
    if array.summary.kind == "text":
        return _texts_html(array.value)
    if not array.has_numbers or not array.value.ndim:
        return ""
    numbers = squeeze(array.value)
    if numbers.ndim <= 2:
        return _table(np.atleast_2d(numbers))
    # Each matrix of a stack has its index above it.
    box = "display:inline-block;margin:0 16px 4px 0;vertical-align:top"
    slices = ""
    for index in np.ndindex(numbers.shape[:-2]):
        caption = note(f"[{','.join(map(str, index))}]")
        slices += f'<div style="{box}">{caption}{_table(numbers[index])}</div>'
    return slices


def _table(matrix: np.ndarray) -> str:
    """Write numbers on the colors of their sizes, through which the page is seen."""
    numbers = to_floats(matrix)
    most = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    body = ""
    for values, row in zip(matrix, numbers.tolist(), strict=True):
        cells = [_cell(value, number, most) for value, number in zip(values, row, strict=True)]
        body += f"<tr>{''.join(cells)}</tr>"
    table = f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{body}</tbody></table>'
    # A narrow page scrolls the table and not itself.
    return f'<div style="overflow-x:auto">{table}</div>'


def _cell(value: Any, number: float, most: float) -> str:
    is_float = isinstance(value, (np.floating, np.complexfloating))
    text = escape(f"{value:.4g}" if is_float else value, 40)
    if math.isfinite(number):
        end = 0 if number < 0 else -1
        red, green, blue = palette("diverging")[end]
        # Digits can be read on half of a color.
        opacity = 0.5 * abs(number) / (most or 1.0)
    else:
        red, green, blue = SPECIAL[str(number).replace("nan", "NaN")]
        opacity = 0.5
    color = f"rgba({red},{green},{blue},{opacity:.2f})"
    return f'<td style="{_CELL};background-color:{color}">{text}</td>'


def _texts_html(value: np.ndarray) -> str:
    if not value.ndim:
        return ""
    lines = []
    for index in islice(np.ndindex(value.shape), _MOST_ITEMS):
        lines.append(f"[{','.join(map(str, index))}] {sanitize(repr(str(value[index])), 90)}")
    if value.size > len(lines):
        lines.append(f"and {value.size - len(lines):,} more")
    return pre("\n".join(lines))
