"""A diff as HTML for a notebook that may be dark, light, or not trusted."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from pyopnb.compare.arrays import Facts
from pyopnb.compare.report import at, brief, number, text
from pyopnb.compare.values import VERDICTS, Part
from pyopnb.ops.table import Table

__all__ = ["page"]

_ROWS = 100  # of parts in HTML; an output of a notebook should stay small


def page(parts: Sequence[Part], worst: Part) -> str:
    """The text, and the rest in folded tables."""
    shape = "margin:0;white-space:pre-wrap;background:none;color:inherit"
    made = [f'<pre style="{shape}">{html.escape(text(parts, worst))}</pre>']
    if len(parts) > 1:
        ranked = sorted(parts, key=lambda part: -VERDICTS.index(part.verdict))
        rows = [(part.name, part.verdict, part.a, part.reason or brief(part)) for part in ranked[:_ROWS]]
        more = "" if len(parts) <= _ROWS else f", the worst {_ROWS}"
        made.append(_folded(f"{len(parts)} parts{more}", Table(("part", "verdict", "type of a", "what"), rows)))
    if worst.facts is not None and worst.facts.differing:
        made += _details(worst.facts)
    return f"<div>{''.join(made)}</div>"


def _details(facts: Facts) -> Iterator[str]:
    if facts.worst:
        rows = [(at(p.index), p.a, p.b, number(p.absolute), number(p.relative), number(p.ulp)) for p in facts.worst]
        yield _folded("worst elements", Table(("index", "a", "b", "|a-b|", "|a-b|/|b|", "ulp"), rows))
    sampled = "" if facts.stride == 1 else f", of every {facts.stride}th element"
    ends = []
    for q in (0.5, 0.9, 0.99, 0.999):
        size, ulp = facts.quantile(q), facts.ulp_quantile(q)
        if size:
            ends.append((f"{100 * q:g} %", f"{number(size[0])} to {number(size[1])}", f"{ulp[0]} to {ulp[1]}" if ulp else ""))
    if ends:
        yield _folded(f"quantiles{sampled}", Table(("of the pairs", "|a-b| is at most", "ulp are at most"), ends))
    if facts.ulps:
        most = max(facts.ulps.values())
        bars = [
            ("0" if not n else f"{2 ** (n - 1)} to {2**n - 1}", str(count), "▇" * max(1, round(24 * count / most)))
            for n, count in sorted(facts.ulps.items())
        ]
        yield _folded(f"units in the last place{sampled}", Table(("ulp", "pairs", ""), bars))
    if facts.axes:
        hits = [(str(x.axis), str(x.size), str(x.hit), f"{x.most} of {x.seen} at {x.index}") for x in facts.axes]
        yield _folded("mismatches along the axes", Table(("axis", "size", "indices hit", "most"), hits))


def _folded(title: str, table: Table) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{table._repr_html_()}</details>"
