"""A diff as text of at most twelve lines, and as HTML for a notebook that may be dark, light, or not trusted."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pyopnb.compare.arrays import Axis, Facts, Place
from pyopnb.compare.values import VERDICTS, Part
from pyopnb.ops.errors import shown
from pyopnb.ops.table import Table

__all__ = ["page", "text"]

_LINES = 12
_WIDEST = 160
_ROWS = 100  # of parts in HTML; an output of a notebook should stay small


def text(parts: Sequence[Part], worst: Part) -> str:
    """The verdict, and what the worst part is made of."""
    many = [] if len(parts) == 1 else [_summary(parts, worst)]
    lines = [*many, *_lines(worst)]
    others = [part for part in parts if part is not worst and not part.ok]
    room = _LINES - len(lines)
    if others and room > 1:
        kept = others if len(others) <= room else others[: room - 1]
        lines += [f"{part.name}: {part.verdict}, {part.reason or _short(part)}" for part in kept]
        if len(kept) < len(others):
            lines.append(f"… and {len(others) - len(kept)} more")
    return "\n".join(_one_line(line) for line in lines[:_LINES])


def _one_line(line: str) -> str:
    line = shown(line, 10**6).replace("\n", " ")
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _summary(parts: Sequence[Part], worst: Part) -> str:
    counts = Counter(part.verdict for part in parts)
    return f"{worst.verdict}: of {len(parts)} parts {', '.join(f'{counts[v]} {v}' for v in VERDICTS if counts[v])}"


def _lines(part: Part) -> Iterator[str]:
    facts, name = part.facts, f"{part.name}: " if part.name else ""
    if facts is None:
        yield f"{name}{part.verdict}: {part.reason or part.a}"
        return
    yield f"{name}{part.verdict}: {part.a}{_tolerance(part)}"
    if facts.bits:
        yield _counted(part, facts)
    if facts.classes:
        yield ", ".join(f"{count} {name}" for name, count in facts.classes.items())
    yield from _statistics(facts)
    if facts.differing:
        yield from _would_pass(part, facts)
        yield from _concentration(facts)
        if facts.worst:
            yield f"worst: {_place(facts.worst[0])}"
        yield from (f"       {_place(place)}" for place in facts.worst[1:3])


def _tolerance(part: Part) -> str:
    if part.rtol or part.atol:
        return f", rtol {part.rtol:g}, atol {part.atol:g}"
    return ", exact" if part.facts and part.facts.differing else ""


def _short(part: Part) -> str:
    facts = part.facts
    if facts is None or not facts.bits:
        return part.a
    most = "" if facts.largest is None else f", at most {_n(facts.largest)}"
    return f"{part.a}, {facts.differing} of {facts.count} differ{most}"


def _counted(part: Part, facts: Facts) -> str:
    if not facts.differing:
        return f"{facts.bits} of {facts.count} elements have other bits, and the same value"
    differ = f"{facts.differing} of {facts.count} elements differ"
    if not part.rtol and not part.atol:
        return differ + (f", first at {_at(facts.first)}" if facts.first else "")
    if facts.over is None:
        return f"{differ}, some are over |a-b| <= atol + rtol*|b|"
    share = f" ({100 * facts.over / facts.count:.3g} %), first at {_at(facts.first)}" if facts.over else ""
    return f"{differ}, {facts.over} are over |a-b| <= atol + rtol*|b|{share}"


def _statistics(facts: Facts) -> Iterator[str]:
    if not facts.finite or not facts.differing or facts.largest is None:
        return
    over = "" if facts.finite == facts.count else f" over {facts.finite} finite pairs"
    bias = "" if facts.bias is None else f", a-b on average {_n(facts.bias)}"
    yield f"|a-b| at most {_n(facts.largest)}, mean {_n(facts.mean)}, rms {_n(facts.rms)}{bias}{over}"
    if facts.parts is not None:
        yield f"real parts at most {_n(facts.parts[0])} apart, imaginary parts {_n(facts.parts[1])}"
    said = []
    if facts.relative is not None:
        said.append(f"|a-b|/|b| at most {_n(facts.relative)} where b is not 0")
    if facts.ulp is not None:
        said.append(f"at most {facts.ulp} units in the last place")
    if said:
        yield "; ".join(said)
    if facts.cosine is not None:
        psnr = "" if facts.psnr is None else f", PSNR {_n(facts.psnr)} dB of the peak {_n(facts.peak)}"
        yield f"cosine {facts.cosine:.6g}, SNR {_n(facts.snr)} dB{psnr}"


def _would_pass(part: Part, facts: Facts) -> Iterator[str]:
    if facts.odd or facts.largest is None or part.a.startswith("bool"):
        return
    if not facts.frontier.corners and not facts.frontier.at_zero:
        yield f"would pass: atol {facts.largest}"
        return
    atol, rtol = facts.frontier.atol(part.rtol), facts.frontier.rtol(part.atol)
    ways = [f"atol {atol:g} with rtol {part.rtol:g}"]
    if rtol is not None:
        ways.append(f"rtol {rtol:g} with atol {part.atol:g}")
    yield f"would pass: {', or '.join(ways)}"


def _concentration(facts: Facts) -> Iterator[str]:
    found = _concentrated(facts.axes)
    if found:
        share = f"all {found.seen}" if found.most == found.seen else f"{found.most} of {found.seen}"
        looked = " that were placed" if facts.over is not None and found.seen < facts.over else ""
        yield f"{share} mismatches{looked} are at index {found.index} of axis {found.axis}, which has {found.size}"


def _concentrated(axes: Sequence[Axis]) -> Axis | None:
    """The axis along which mismatches are mostly at one index, if there is one."""
    held = [axis for axis in axes if axis.most > 0.5 * axis.seen and axis.most > 3 * axis.seen / axis.size]
    return max(held, key=lambda axis: (axis.most, axis.size), default=None)


def _place(place: Place) -> str:
    said = [] if place.absolute is None else [f"{_n(place.absolute)} apart"]
    if place.ulp is not None:
        said.append(f"{place.ulp} ulp")
    return f"{_at(place.index)} {place.a} against {place.b}{': ' if said else ''}{', '.join(said)}"


def _at(index: Sequence[int] | None) -> str:
    return "[]" if index is None else f"[{','.join(map(str, index))}]"


def _n(value: int | float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"


# ---- HTML --------------------------------------------------------------------------------------------------------------------


def page(parts: Sequence[Part], worst: Part) -> str:
    """The text, and the rest in folded tables."""
    shape = "margin:0;white-space:pre-wrap;background:none;color:inherit"
    made = [f'<pre style="{shape}">{html.escape(text(parts, worst))}</pre>']
    if len(parts) > 1:
        ranked = sorted(parts, key=lambda part: -VERDICTS.index(part.verdict))
        rows = [(part.name, part.verdict, part.a, part.reason or _short(part)) for part in ranked[:_ROWS]]
        more = "" if len(parts) <= _ROWS else f", the worst {_ROWS}"
        made.append(_folded(f"{len(parts)} parts{more}", Table(("part", "verdict", "type of a", "what"), rows)))
    if worst.facts is not None and worst.facts.differing:
        made += _details(worst.facts)
    return f"<div>{''.join(made)}</div>"


def _details(facts: Facts) -> Iterator[str]:
    if facts.worst:
        rows = [(_at(p.index), p.a, p.b, _n(p.absolute), _n(p.relative), _n(p.ulp)) for p in facts.worst]
        yield _folded("worst elements", Table(("index", "a", "b", "|a-b|", "|a-b|/|b|", "ulp"), rows))
    sampled = "" if facts.stride == 1 else f", of every {facts.stride}th element"
    ends = []
    for q in (0.5, 0.9, 0.99, 0.999):
        size, ulp = facts.quantile(q), facts.ulp_quantile(q)
        if size:
            ends.append((f"{100 * q:g} %", f"{_n(size[0])} to {_n(size[1])}", f"{ulp[0]} to {ulp[1]}" if ulp else ""))
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
