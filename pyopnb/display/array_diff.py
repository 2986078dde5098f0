"""A diff of arrays as HTML and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import (
    detail_lines,
    format_index,
    format_number,
    part_lines,
    summarize,
)
from pyopnb.diffs.arrays.stats import ArrayStats
from pyopnb.diffs.base import DiffBase
from pyopnb.display.glossary import glossary
from pyopnb.display.html import details, escape, image, join, paragraph, pre
from pyopnb.display.picture import Look
from pyopnb.display.svg.chart import Chart, bar_chart, density, heat_maps, page, size_on_page
from pyopnb.display.svg.colours import Scale
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.display.view import View
from pyopnb.ops.text_table import Table
from pyopnb.ops.types import tensor_type

__all__ = [
    "badge",
    "charts_of",
    "headline_html",
    "part_details",
    "part_picture",
    "verdict_text",
    "view_diff",
]

_ROWS = 100  # parts in the table
_BARS = 14
_WORST = 3  # elements with a ring
_LINE = 400  # characters of a headline's line
_LABELS = ("where", "how much")
# Colours of medium lightness, legible on white and on black; a sign says the same without colour.
_SIGNS = {
    "bit-identical": ("✓", "#2f8f4e"),
    "value-identical": ("✓", "#2f8f4e"),
    "identical": ("✓", "#2f8f4e"),
    "close": ("≈", "#2f8f4e"),
    "different": ("✗", "#d1453b"),
    "incomparable": ("?", "#b7791f"),
}


def view_diff(thing: Diff, *, limits: tuple[float, float] | None = None) -> View:
    """The verdict, where and how much, a picture of the worst part, and the rest folded.

    Parameters
    ----------
    thing : Diff
    limits : (float, float), optional
        The least and largest ``|a-b|`` of the picture's colours, for pictures that are to be compared. By default those of the
        diff.

    Returns
    -------
    View

    Raises
    ------
    InputError
        The limits are not two finite numbers that rise.
    """
    worst, text = thing.worst, str(thing)
    title = f"diff: {text.partition(chr(10))[0]}"
    charts = charts_of(worst, Look(limits=limits).limits)
    drawing = page(charts, title) if charts else None
    picture = paragraph(image(to_svg(drawing), _alt(worst))) if drawing is not None else ""
    parts = [headline_html(thing), *_fold(picture, thing.ok), *_fold_details(worst)]
    if len(thing.parts) > 1:
        ranked = sorted(thing.parts, key=lambda part: -VERDICTS.index(part.verdict))
        rows = [
            (part.name, verdict_text(part.verdict), part.a, summarize(part))
            for part in ranked[:_ROWS]
        ]
        more = "" if len(thing.parts) <= _ROWS else f", the worst {_ROWS}"
        parts.append(
            details(
                f"{len(thing.parts)} parts{more}",
                _table(("part", "verdict", "type of a", "result"), rows),
            )
        )
    body = join([*parts, glossary(*parts)])
    if drawing is None:
        return View(thing, title, text, body)
    return View(thing, title, text, body, lambda: drawing, charts[0].image)


def _fold(picture: str, ok: bool) -> list[str]:
    """A picture, folded if there is nothing wrong."""
    return [details("picture", picture) if ok else picture] if picture else []


def headline_html(thing: DiffBase) -> str:
    """What to read first: the verdict as a badge, and beside and below it the other lines of the headline."""
    first, *rest = thing.headline()
    parts = [
        f"<div>{badge(thing.verdict)} {escape(first.removeprefix(f'{thing.verdict}: '), _LINE)}</div>"
    ]
    for line in rest:
        label, colon, text = line.partition(": ")
        marked = (
            f"<b>{escape(label)}</b>: {escape(text, _LINE)}"
            if colon and label in _LABELS
            else escape(line, _LINE)
        )
        parts.append(f"<div>{marked}</div>")
    return f'<div style="margin:4px 0">{"".join(parts)}</div>'


def badge(verdict: str) -> str:
    """A verdict as a sign, a word and a colour."""
    colour = _SIGNS.get(verdict, ("·", "#808080"))[1]
    style = f"display:inline-block;padding:0 9px;margin:2px 4px 2px 0;border:1px solid {colour};border-radius:9px;color:{colour}"
    return f'<span style="{style};font-weight:600;white-space:nowrap">{escape(verdict_text(verdict))}</span>'


def verdict_text(verdict: str) -> str:
    """A verdict with its sign."""
    return f"{_SIGNS.get(verdict, ('·', ''))[0]} {verdict}"


def part_picture(
    part: Part, title: str, limits: tuple[float, float] | None = None, most: int = 3
) -> str:
    """At most so many pictures of a part in HTML; empty if there are none."""
    charts = charts_of(part, limits)[:most]
    return paragraph(image(to_svg(page(charts, title)), _alt(part))) if charts else ""


def _alt(part: Part) -> str:
    """The text alternative of a part's pictures."""
    facts = part.facts
    text = f"Differences of {part.name or 'two arrays'}, {part.a}"
    if facts is None or facts.largest is None or not facts.worst:
        return f"{text}."
    worst = (
        f"up to {format_number(facts.largest)}, the worst at {format_index(facts.worst[0].index)}"
    )
    return f"{text}: {worst}; {facts.differing:,} of {facts.count:,} differ."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table(head, rows)._repr_html_()


# ---- pictures


def charts_of(part: Part, limits: tuple[float, float] | None = None) -> list[Chart]:
    """Where two arrays differ, how the errors depend on the magnitudes, and how many elements differ by how much."""
    facts = part.facts
    if facts is None or not facts.differing or facts.matrix is None:
        return []
    charts = [_error_map(facts, facts.matrix, part.a, limits)] if facts.count > 1 else []
    if part.a.startswith("bool"):
        return charts
    if len(facts.spread) > 1:
        charts.append(_error_density(facts, part))
    counts = _group(facts.ulps if facts.ulps else _octaves(facts.sizes))
    if len(counts) > 1:
        sampled = "" if facts.stride == 1 else f"Every {facts.stride}th element."
        charts.append(
            bar_chart(counts, "units in the last place" if facts.ulps else "|a-b|", sampled)
        )
    return charts


def _error_map(
    facts: ArrayStats, matrix: tuple[int, int], kind: str, limits: tuple[float, float] | None
) -> Chart:
    sizes = facts.picture()
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    low, high = limits or ((float(known.min()), float(known.max())) if known.size else (1.0, 1.0))
    scale = (
        Scale(low, high, log=True) if high > 20 * low > 0 else Scale(low if limits else 0.0, high)
    )
    words = (
        None if known.size or limits else {"NaN or Inf on one side": math.nan, "no difference": 0.0}
    )
    sizes = np.where(np.isinf(sizes), np.nan, sizes)  # one colour; the table says what it is
    rows, columns = (-(-size // cells) for size, cells in zip(matrix, sizes.shape, strict=True))
    below = (
        f"One cell: the largest of {rows:,} × {columns:,} elements." if rows * columns > 1 else ""
    )
    marks = list(_worst_cells(facts, matrix, kind, sizes.shape)) if sizes.size > 64 else []
    size = size_on_page(matrix, 256)[:2]
    title = "where: largest |a-b|"
    return heat_maps(
        [sizes],
        [""],
        scale,
        title,
        size=size,
        below=below,
        blank_zero=True,
        marks=marks,
        words=words,
    )


def _worst_cells(
    facts: ArrayStats, matrix: tuple[int, int], kind: str, shape: tuple[int, ...]
) -> Iterator[tuple[int, float, float]]:
    """The centres of the cells that have the worst elements, as marks of a heat map."""
    leading = [int(size) for size in (tensor_type(kind).shape or ())[:-1] if size is not None]
    for element in facts.worst[:_WORST]:
        row = 0
        for index, size in zip(element.index[:-1], leading, strict=True):
            row = row * size + index
        indices = (row, element.index[-1])
        down, across = (
            ((i + 1) * cells - 1) // size + 0.5
            for i, cells, size in zip(indices, shape, matrix, strict=True)
        )
        yield 0, down, across


def _error_density(facts: ArrayStats, part: Part) -> Chart:
    """How many pairs have which |a-b| and which |b|, both by octaves; -1023 is 0."""
    across, up = (
        [key[axis] for key in facts.spread if key[axis] > -1023] or [0] for axis in (0, 1)
    )
    zero = any(key[0] == -1023 for key in facts.spread)
    left, right, low, high = min(across) - zero, max(across) + 1, min(up), max(up) + 1
    counts = np.zeros((high - low, right - left))
    for (magnitude, error), count in facts.spread.items():
        counts[high - 1 - max(error, low), max(magnitude, left) - left] += count
    x = ["0" if zero else _power(left), _power((left + right) // 2), _power(right)]
    y = [_power(high), _power((low + high) // 2), _power(low)]
    line = _tolerance_line(part, left, right, low, high)
    return density(counts, "error against magnitude", x=x, y=y, labels=("|b|", "|a-b|"), line=line)


def _power(exponent: int) -> str:
    return f"{math.ldexp(1.0, exponent):.1g}" if -1022 <= exponent <= 1023 else "∞"


def _tolerance_line(
    part: Part, left: int, right: int, low: int, high: int
) -> list[tuple[float, float]]:
    """The tolerance, as far as it is in the picture between these octaves."""
    points = []
    for step in range(65):
        octave = left + (right - left) * step / 64
        allowed = part.floor + part.rtol * 2.0 ** min(1023.0, max(-1022.0, octave))
        down = (high - math.log2(allowed)) / (high - low) if allowed > 0 else math.inf
        if 0 <= down <= 1:
            points.append((step / 64, down))
    return points


def _octaves(sizes: Mapping[int, int]) -> dict[int, int]:
    """A histogram by eighths of an octave, as one by the number of binary digits of integers."""
    counts: dict[int, int] = {}
    for eighth, count in sizes.items():
        digits = 0 if eighth < 0 else max(0, (eighth >> 3) - 1022)
        counts[digits] = counts.get(digits, 0) + count
    return counts


def _group(digits: Mapping[int, int]) -> dict[str, int]:
    """A histogram by binary digits as a few named ranges of integers.

    Examples
    --------
    >>> _group({0: 5, 2: 3})
    {'0': 5, '1': 0, '2–3': 3}
    """
    least, most = min(digits, default=0), max(digits, default=0)
    step = max(1, -(-(most - max(least, 1) + 1) // (_BARS - 1)))
    ranges = {"0": digits[0]} if 0 in digits else {}
    for first in range(max(least, 1), most + 1, step):
        low, high = 2 ** (first - 1), 2 ** (first + step - 1) - 1
        name = str(low) if low == high else f"{_brief(low)}–{_brief(high)}"
        ranges[name] = sum(digits.get(count, 0) for count in range(first, first + step))
    return ranges


def _brief(value: int) -> str:
    return str(value) if value < 10_000 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


# ---- tables


def part_details(part: Part) -> str:
    """A part in lines, its pictures and its tables, for another diff's page."""
    lines = pre("\n".join(part_lines(part)))
    return "".join([lines, part_picture(part, part.name or "difference"), *_fold_details(part)])


def _fold_details(part: Part) -> Iterator[str]:
    """Statistics, the worst elements and distributions, folded."""
    sections = dict(_sections(part))
    if sections:
        content = "".join(
            f"<div><b>{escape(title)}</b></div>{table}" for title, table in sections.items()
        )
        yield details(
            f"details: {', '.join(sections)}", f'<div style="margin:4px 0 8px 12px">{content}</div>'
        )


def _sections(part: Part) -> Iterator[tuple[str, str]]:
    facts = part.facts
    if facts is None:
        return
    if lines := list(detail_lines(part)):
        yield "statistics", pre("\n".join(lines))
    if facts.differing > 1:
        rows = [
            (format_index(p.index), p.a, p.b, *map(format_number, (p.absolute, p.relative, p.ulp)))[
                : 6 if facts.largest else 3
            ]
            for p in facts.worst
        ]
        columns = ("index", "a", "b", "|a-b|", "|a-b|/|b|", "ULP")[: len(rows[0])]
        yield "worst elements" if facts.largest else "first elements", _table(columns, rows)
    if facts.largest and (quantiles := list(_quantile_rows(facts))):
        sampled = "" if facts.stride == 1 else f", of every {facts.stride}th element"
        yield (
            f"quantiles{sampled}",
            _table(("of the elements", "|a-b| is at most", "ULP at most"), quantiles),
        )
    if facts.axes:
        hits = [
            (str(x.axis), str(x.size), str(x.hit), f"{x.most} of {x.seen} at {x.index}")
            for x in facts.axes
        ]
        yield "axes", _table(("axis", "length", "indices with mismatches", "most"), hits)


def _quantile_rows(facts: ArrayStats) -> Iterator[tuple[str, str, str]]:
    for q in (0.5, 0.9, 0.99, 0.999):
        size, ulp = facts.quantile(q), facts.ulp_quantile(q)
        if size:
            yield (
                f"{100 * q:g} %",
                f"{format_number(size[0])} to {format_number(size[1])}",
                f"{ulp[0]} to {ulp[1]}" if ulp else "",
            )
