"""A diff of arrays as HTML for a notebook that may be dark, light, or not trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import format_index, format_number, summarize
from pyopnb.diffs.arrays.stats import Facts
from pyopnb.display.html import details, escaped, image, page, pre
from pyopnb.display.svg.chart import Chart, bars, card, field, tiles
from pyopnb.display.svg.colours import Scale
from pyopnb.display.view import View
from pyopnb.ops.text_table import Table
from pyopnb.ops.types import tensor_type

__all__ = ["badge", "charts", "described", "diff", "grouped", "sign"]

_ROWS = 100  # of parts in HTML; an output of a notebook should stay small
_BARS = 14
# Of middling lightness, so that they are read on white and on black; a sign says the same to whoever does not see the colour.
_SIGNS = {
    "bit-identical": ("✓", "#2f8f4e"),
    "value-identical": ("✓", "#2f8f4e"),
    "identical": ("✓", "#2f8f4e"),
    "close": ("≈", "#2f8f4e"),
    "different": ("✗", "#d1453b"),
    "incomparable": ("?", "#b7791f"),
}


def diff(thing: Diff) -> View:
    """The verdict, the text, pictures of the worst part, and the rest in folded tables."""
    worst, text = thing.worst, str(thing)
    drawn = charts(worst)
    title = f"diff: {text.partition(chr(10))[0]}"
    svg = card(drawn, title) if drawn else ""
    parts = [badge(thing.verdict), pre(text.removeprefix(f"{thing.verdict}: "))]
    if svg:
        parts.append(f'<div style="margin:8px 0">{image(svg, described(worst))}</div>')
    parts += _details(worst.facts) if worst.facts is not None and worst.facts.differing else []
    if len(thing.parts) > 1:
        ranked = sorted(thing.parts, key=lambda part: -VERDICTS.index(part.verdict))
        rows = [(part.name, sign(part.verdict), part.a, summarize(part)) for part in ranked[:_ROWS]]
        more = "" if len(thing.parts) <= _ROWS else f", the worst {_ROWS}"
        parts.append(details(f"{len(thing.parts)} parts{more}", _table(("part", "verdict", "type of a", "what"), rows)))
    return View(thing, title, text, page(parts), svg, drawn[0].png if drawn else b"")


def badge(verdict: str) -> str:
    """A verdict as a sign, a word and a colour."""
    colour = _SIGNS.get(verdict, ("·", "#808080"))[1]
    style = (
        f"display:inline-block;padding:1px 9px;margin:2px 0 4px 0;border:1px solid {colour};border-radius:9px;color:{colour}"
    )
    return f'<div><span style="{style};font-weight:600">{escaped(sign(verdict))}</span></div>'


def sign(verdict: str) -> str:
    """A verdict as a word with a sign before it."""
    return f"{_SIGNS.get(verdict, ('·', ''))[0]} {verdict}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table(head, rows)._repr_html_()


def described(part: Part) -> str:
    """What the pictures of a part show, for who cannot see them."""
    facts = part.facts
    said = f"Differences of {part.name or 'two arrays'}, {part.a}"
    if facts is None or facts.largest is None or not facts.worst:
        return f"{said}."
    worst = f"at most {format_number(facts.largest)}, at {format_index(facts.worst[0].index)}"
    return f"{said}: {worst}; {facts.differing} of {facts.count} differ."


# ---- pictures ----------------------------------------------------------------------------------------------------------------


def charts(part: Part) -> list[Chart]:
    """Where the differences of two arrays are, how they go with the reference, and how many are how large."""
    facts = part.facts
    if facts is None or not facts.differing or facts.matrix is None:
        return []
    made = [_where(facts, facts.matrix, part.a)] if facts.count > 1 else []
    if len(facts.spread) > 1:
        made.append(_against(facts, part))
    counted = grouped(facts.ulps if facts.ulps else _octaves(facts.sizes))
    if len(counted) > 1:
        every = "" if facts.stride == 1 else f"Every {facts.stride}th element."
        made.append(bars(list(counted.values()), list(counted), "units in the last place" if facts.ulps else "|a-b|", every))
    return made


def _where(facts: Facts, matrix: tuple[int, int], kind: str) -> Chart:
    sizes = facts.picture()
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    scale = Scale(low, high, log=True) if high > 20 * low else Scale(0.0, high)
    odd = {"NaN or Inf on one side": math.nan, "no difference": 0.0} if not known.size else None
    sizes = np.where(np.isinf(sizes), np.nan, sizes)  # one colour: what it is stands in the table
    rows, columns = (-(-size // fields) for size, fields in zip(matrix, sizes.shape, strict=True))
    field = f"A field is the largest of {rows:,} × {columns:,}." if rows * columns > 1 else ""
    lead = [int(size) for size in (tensor_type(kind).shape or ())[:-1] if size is not None]
    marks: list[tuple[int, float, float]] = []
    for place in facts.worst[:3]:
        row = 0
        for index, size in zip(place.index[:-1], lead, strict=True):
            row = row * size + index
        down, across = (
            ((spot + 1) * fields - 1) // size + 0.5
            for spot, fields, size in zip((row, place.index[-1]), sizes.shape, matrix, strict=True)
        )
        marks.append((0, down, across))
    return tiles(
        [sizes],
        [""],
        scale,
        "where: largest |a-b|",
        below=field,
        nothing=True,
        marks=marks if sizes.size > 64 else (),
        words=odd,
    )


def _against(facts: Facts, part: Part) -> Chart:
    across, up = ([key[axis] for key in facts.spread if key[axis] > -1023] or [0] for axis in (0, 1))
    zero = any(key[0] == -1023 for key in facts.spread)
    left, right, low, high = min(across) - zero, max(across) + 1, min(up), max(up) + 1
    fields = np.zeros((high - low, right - left))
    for (b, d), count in facts.spread.items():
        fields[high - 1 - max(d, low), max(b, left) - left] += count
    scale = Scale(1.0, max(2.0, float(fields.max())), log=True)
    x = ["0" if zero else _power(left), _power((left + right) // 2), _power(right)]
    y = [_power(high), _power((low + high) // 2), _power(low)]
    return field(
        fields, scale, "error against magnitude", x=x, y=y, words=("|b|", "|a-b|"), line=_bound(part, left, right, low, high)
    )


def _power(exponent: int) -> str:
    return f"{math.ldexp(1.0, exponent):.1g}" if -1022 <= exponent <= 1023 else "∞"


def _bound(part: Part, left: int, right: int, low: int, high: int) -> list[tuple[float, float]]:
    """The tolerance as a line, as far as it is in the picture."""
    points = []
    for step in range(65):
        place = left + (right - left) * step / 64
        allowed = part.atol + part.rtol * 2.0 ** min(1023.0, max(-1022.0, place))
        down = (high - math.log2(allowed)) / (high - low) if allowed > 0 else math.inf
        if 0 <= down <= 1:
            points.append((step / 64, down))
    return points


def _octaves(sizes: Mapping[int, int]) -> dict[int, int]:
    """The histogram of sizes by binary digits of whole numbers."""
    counted: dict[int, int] = {}
    for place, count in sizes.items():
        digits = 0 if place < 0 else max(0, (place >> 3) - 1022)
        counted[digits] = counted.get(digits, 0) + count
    return counted


def grouped(digits: Mapping[int, int]) -> dict[str, int]:
    """Counts by binary digits, with names, and so few of them that they are read at a glance.

    Examples
    --------
    >>> grouped({0: 5, 2: 3})
    {'0': 5, '1': 0, '2–3': 3}
    """
    least, most = min(digits, default=0), max(digits, default=0)
    step = max(1, -(-(most - max(least, 1) + 1) // (_BARS - 1)))
    made = {"0": digits[0]} if 0 in digits else {}
    for first in range(max(least, 1), most + 1, step):
        low, high = 2 ** (first - 1), 2 ** (first + step - 1) - 1
        name = str(low) if low == high else f"{_brief(low)}–{_brief(high)}"
        made[name] = sum(digits.get(place, 0) for place in range(first, first + step))
    return made


def _brief(value: int) -> str:
    return str(value) if value < 10_000 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


# ---- tables ------------------------------------------------------------------------------------------------------------------


def _details(facts: Facts) -> Iterator[str]:
    if facts.worst:
        rows = [
            (format_index(p.index), p.a, p.b, format_number(p.absolute), format_number(p.relative), format_number(p.ulp))
            for p in facts.worst
        ]
        yield details("worst elements", _table(("index", "a", "b", "|a-b|", "|a-b|/|b|", "ulp"), rows), open=True)
    sampled = "" if facts.stride == 1 else f", of every {facts.stride}th element"
    ends = []
    for q in (0.5, 0.9, 0.99, 0.999):
        size, ulp = facts.quantile(q), facts.ulp_quantile(q)
        if size:
            ends.append(
                (
                    f"{100 * q:g} %",
                    f"{format_number(size[0])} to {format_number(size[1])}",
                    f"{ulp[0]} to {ulp[1]}" if ulp else "",
                )
            )
    if ends:
        yield details(f"quantiles{sampled}", _table(("of the pairs", "|a-b| is at most", "ulp are at most"), ends))
    if facts.ulps:
        units = [("0" if not n else f"{2 ** (n - 1)} to {2**n - 1}", f"{count:,}") for n, count in sorted(facts.ulps.items())]
        yield details(f"units in the last place{sampled}", _table(("ulp", "pairs"), units))
    if facts.axes:
        hits = [(str(x.axis), str(x.size), str(x.hit), f"{x.most} of {x.seen} at {x.index}") for x in facts.axes]
        yield details("mismatches along the axes", _table(("axis", "size", "indices hit", "most"), hits))
