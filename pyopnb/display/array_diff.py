"""Show a diff of arrays as HTML: verdict, where, how much, a heat map of errors, and tables."""

from __future__ import annotations

import numpy as np

from pyopnb.common import Table
from pyopnb.diffs import Diff, DiffBase, array_diffs
from pyopnb.display.array_diff_pairs import curve_charts, pairs_table
from pyopnb.display.array_look import ArrayLook, Limits
from pyopnb.display.glossary import glossary
from pyopnb.display.page.markup import details, escape, join, pre
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.colors import ColorScale
from pyopnb.display.svg.heat_map import heat_maps, size_on_page
from pyopnb.display.views import View, picture_html, view

__all__ = ["badge", "headline_html", "part_details", "part_picture", "verdict_text", "view_diff"]

# The table lists at most this many parts.
_ROWS = 100
# A longer line of the headline is cut after this many characters.
_LINE = 400
_LABELS = ("where", "how much")
# White words can be read on them in every theme; a sign says the same without color.
_GOOD, _BAD, _UNKNOWN, _OTHER = "#237a41", "#c4372d", "#96600f", "#6a6f75"
_SIGNS = {
    "bit-identical": ("✓", _GOOD),
    "value-identical": ("✓", _GOOD),
    "identical": ("✓", _GOOD),
    "close": ("≈", _GOOD),
    "different": ("✗", _BAD),
    "incomparable": ("?", _UNKNOWN),
}


@view.register(Diff)
def view_diff(
    thing: Diff, *, limits: Limits | None = None, names: tuple[str, str] = ("", "")
) -> View:
    """Show verdict, where and how much, a picture of the worst part, and the rest folded.

    Parameters
    ----------
    limits : (float, float), optional
        The least and largest ``|a-b|`` of the picture's colors, of curves ``a-b``, for pictures
        that are to be compared. By default, the extremes of the diff.
    names : (str, str), optional
        What a and b are, for tables and curves.
    """
    worst = thing.worst
    title = f"diff: {str(thing).partition(chr(10))[0]}"
    limits = ArrayLook(limits=limits).limits
    seen = part_picture(worst, title, limits, names=names)
    if seen and thing.ok:
        # Where all is well there is nothing to look at.
        seen = details("picture", seen)
    parts = [headline_html(thing), seen, _fold_details(worst)]
    if len(thing.parts) > 1:
        parts.append(_parts_table(thing))
    body = join([*parts, glossary(*parts)])
    # Few numbers are read in the page, and drawn only where a picture is asked for.
    charts = _charts(worst, limits, None, names) or _error_map(worst.facts, limits)
    if not charts:
        return View(thing, title, str(thing), body)
    return View(thing, title, str(thing), body, draw=lambda: page(charts, title, in_row=1))


def _parts_table(thing: Diff) -> str:
    """Fold the table of the parts, the worst first."""
    ranked = sorted(thing.parts, key=lambda part: -array_diffs.VERDICTS.index(part.verdict))
    rows = []
    for part in ranked[:_ROWS]:
        rows.append((part.name, verdict_text(part.verdict), part.a, array_diffs.summarize(part)))
    title = f"{len(thing.parts)} parts"
    if len(thing.parts) > _ROWS:
        title += f", the worst {_ROWS}"
    head = ("part", "verdict", "type of a", "result")
    return details(title, Table(head, rows)._repr_html_())


def headline_html(thing: DiffBase, around: str = "") -> str:
    """Write the headline: the verdict as a badge, and the other lines.

    Parameters
    ----------
    around : str
        The tensor to which "where" leads in the picture below.
    """
    first, *lines = thing.headline()
    summary = escape(first.removeprefix(f"{thing.verdict}: "), _LINE)
    parts = [f"<div>{badge(thing.verdict)} {summary}</div>"]
    for line in lines:
        label, _, text = line.partition(": ")
        if text and label in _LABELS:
            key = ""
            if around and label == "where":
                key = f' data-pyopnb="{Table.row_key(around)}"'
            parts.append(
                f"<div><b>{escape(label)}</b>: <span{key}>{escape(text, _LINE)}</span></div>"
            )
        else:
            parts.append(f"<div>{escape(line, _LINE)}</div>")
    return f'<div style="margin:4px 0">{"".join(parts)}</div>'


def badge(verdict: str) -> str:
    """Write a verdict as a sign, a word and a color."""
    color = _SIGNS.get(verdict, ("·", _OTHER))[1]
    shape = "display:inline-block;padding:0 9px;margin:2px 4px 2px 0;border-radius:9px"
    style = f"{shape};background:{color};color:#fff;font-weight:600;white-space:nowrap"
    return f'<span style="{style}">{escape(verdict_text(verdict))}</span>'


def verdict_text(verdict: str) -> str:
    """Put its sign before a verdict."""
    return f"{_SIGNS.get(verdict, ('·', _OTHER))[0]} {verdict}"


# ---- the picture


def part_picture(
    part: array_diffs.Part,
    title: str,
    limits: Limits | None = None,
    axis: Limits | None = None,
    names: tuple[str, str] = ("", ""),
) -> str:
    """Draw where two arrays differ, or list a few numbers; empty if there is nothing to see.

    Parameters
    ----------
    limits : (float, float), optional
        The ends of the colors of errors, or of the axis of the difference.
    axis : (float, float), optional
        The ends of the axis of both curves.
    names : (str, str), optional
        What a and b are.
    """
    facts = part.facts
    if facts is None:
        return ""
    charts = _charts(part, limits, axis, names)
    if charts:
        return picture_html(page(charts, title, in_row=1), _alt(part, facts))
    if facts.pairs is None:
        return ""
    return pairs_table(part, facts.pairs, _labels(names))


def _labels(names: tuple[str, str]) -> tuple[str, str]:
    a, b = (f"{side}: {name}" if name else side for side, name in zip("ab", names, strict=True))
    return a, b


def _charts(
    part: array_diffs.Part, limits: Limits | None, axis: Limits | None, names: tuple[str, str]
) -> list[Chart]:
    """Choose the picture of a part: none for few numbers, curves for one axis, else a map."""
    facts = part.facts
    if facts is None or not facts.differing or facts.count <= array_diffs.FEW:
        return []
    if facts.pairs is not None:
        return curve_charts(facts.pairs, _labels(names), axis, limits)
    return _error_map(facts, limits)


def _alt(part: array_diffs.Part, facts: array_diffs.ArrayStats) -> str:
    """Describe a part's picture for readers who cannot see it."""
    text = f"Differences of {part.name or 'two arrays'}, {part.a}"
    if facts.largest is None or not facts.worst:
        return f"{text}."
    largest = array_diffs.format_number(facts.largest)
    index = array_diffs.format_index(facts.worst[0].index)
    count = f"{facts.differing:,} of {facts.count:,} differ"
    return f"{text}: up to {largest}, the worst at {index}; {count}."


def _error_map(facts: array_diffs.ArrayStats | None, limits: Limits | None) -> list[Chart]:
    """Draw the largest ``|a-b|`` of each cell.

    Strings, which have no distance, and scalars have no such picture.
    """
    if facts is None or facts.matrix is None or facts.count < 2:
        return []
    sizes = facts.picture()
    # Elements that are not finite on one side have one color; the table says what they are.
    sizes = np.where(np.isinf(sizes), np.nan, sizes)
    positive = sizes[sizes > 0]
    low = float(positive.min(initial=np.inf))
    # Sizes are rounded down to bins, but the scale ends at the exact number that the text has.
    high = max(float(positive.max(initial=0.0)), float(facts.largest or 0))
    if limits is not None:
        low, high = limits
    scale = ColorScale(low if limits else 0.0, high or 1.0)
    if high > 20 * low > 0:
        scale = ColorScale(low, high, log=True)
    # Division that rounds up: the last cell may cover fewer elements.
    rows = -(-facts.matrix[0] // sizes.shape[0])
    columns = -(-facts.matrix[1] // sizes.shape[1])
    below = ""
    if rows * columns > 1:
        below = f"One cell: the largest of {rows:,} × {columns:,} elements."
    size = size_on_page(facts.matrix, 256)
    title = "where: largest |a-b|"
    shape = facts.matrix
    picture = heat_maps(
        [sizes], scale, size, shape=shape, title=title, caption=below, blank_zero=True
    )
    return [picture]


# ---- tables


def part_details(part: array_diffs.Part, names: tuple[str, str] = ("", "")) -> str:
    """Write a part in lines, its picture and its tables, for the page of another diff."""
    lines = pre("\n".join(array_diffs.part_lines(part)))
    picture = part_picture(part, part.name or "difference", names=names)
    return lines + picture + _fold_details(part)


def _fold_details(part: array_diffs.Part) -> str:
    """Fold statistics and the worst elements."""
    facts = part.facts
    if facts is None:
        return ""
    content = ""
    lines = list(array_diffs.detail_lines(part))
    if lines:
        content += pre("\n".join(lines))
    # Few numbers are in a table already.
    if facts.differing > 1 and (facts.pairs is None or facts.count > array_diffs.FEW):
        content += _worst_table(facts)
    return details("details", content) if content else ""


def _worst_table(facts: array_diffs.ArrayStats) -> str:
    # Texts, and numbers that are not finite, have no distance.
    head = ["first at", "a", "b"]
    if facts.largest:
        head = ["worst at", "a", "b", "|a-b|", "|a-b|/|b|", "ULP"]
    rows = []
    for element in facts.worst:
        numbers = (element.absolute, element.relative, element.ulp)
        values = (element.a, element.b, *map(array_diffs.format_number, numbers))
        rows.append((array_diffs.format_index(element.index), *values)[: len(head)])
    return Table(head, rows)._repr_html_()
