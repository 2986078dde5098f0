"""A diff as text of at most twelve lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.stats import Axis, Facts, Place
from pyopnb.diffs.base import MAX_LINES, fit_lines

__all__ = ["format_index", "format_number", "format_place", "summarize", "text"]


def text(parts: Sequence[Part], worst: Part) -> str:
    """The verdict, and what the worst part is made of."""
    many = [] if len(parts) == 1 else [_summary(parts, worst)]
    lines = [*many, *_lines(worst)]
    others = [part for part in parts if part is not worst and not part.ok]
    room = MAX_LINES - len(lines)
    if others and room > 1:
        kept = others if len(others) <= room else others[: room - 1]
        lines += [f"{part.name}: {part.verdict}, {summarize(part)}" for part in kept]
        if len(kept) < len(others):
            lines.append(f"… and {len(others) - len(kept)} more")
    return fit_lines(lines[:MAX_LINES])


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
            yield f"worst: {format_place(facts.worst[0])}"
        yield from (f"       {format_place(place)}" for place in facts.worst[1:3])


def _tolerance(part: Part) -> str:
    if part.rtol or part.atol:
        return f", rtol {part.rtol:g}, atol {part.atol:g}"
    return ", exact" if part.facts and part.facts.differing else ""


def summarize(part: Part) -> str:
    """A part in half a line."""
    if part.reason:
        return part.reason
    facts = part.facts
    if facts is None or not facts.bits:
        return part.a
    most = "" if facts.largest is None else f", at most {format_number(facts.largest)}"
    return f"{part.a}, {facts.differing} of {facts.count} differ{most}"


def _counted(part: Part, facts: Facts) -> str:
    if not facts.differing:
        return f"{facts.bits} of {facts.count} elements have other bits, and the same value"
    differ = f"{facts.differing} of {facts.count} elements differ"
    if not part.rtol and not part.atol:
        return differ + (f", first at {format_index(facts.first)}" if facts.first else "")
    if facts.over is None:
        return f"{differ}, some are over |a-b| <= atol + rtol*|b|"
    share = f" ({100 * facts.over / facts.count:.3g} %), first at {format_index(facts.first)}" if facts.over else ""
    return f"{differ}, {facts.over} are over |a-b| <= atol + rtol*|b|{share}"


def _statistics(facts: Facts) -> Iterator[str]:
    if not facts.finite or not facts.differing or facts.largest is None:
        return
    over = "" if facts.finite == facts.count else f" over {facts.finite} finite pairs"
    bias = "" if facts.bias is None else f", a-b on average {format_number(facts.bias)}"
    largest, mean, rms = map(format_number, (facts.largest, facts.mean, facts.rms))
    yield f"|a-b| at most {largest}, mean {mean}, rms {rms}{bias}{over}"
    if facts.parts is not None:
        yield f"real parts at most {format_number(facts.parts[0])} apart, imaginary parts {format_number(facts.parts[1])}"
    said = []
    if facts.relative is not None:
        said.append(f"|a-b|/|b| at most {format_number(facts.relative)} where b is not 0")
    if facts.ulp is not None:
        said.append(f"at most {facts.ulp} units in the last place")
    if said:
        yield "; ".join(said)
    if facts.cosine is not None:
        psnr = "" if facts.psnr is None else f", PSNR {format_number(facts.psnr)} dB of the peak {format_number(facts.peak)}"
        yield f"cosine {facts.cosine:.6g}, SNR {format_number(facts.snr)} dB{psnr}"


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


def format_place(place: Place) -> str:
    """One of the worst elements: where it is, both values, how far apart they are."""
    said = [] if place.absolute is None else [f"{format_number(place.absolute)} apart"]
    if place.ulp is not None:
        said.append(f"{place.ulp} ulp")
    return f"{format_index(place.index)} {place.a} against {place.b}{': ' if said else ''}{', '.join(said)}"


def format_index(index: Sequence[int] | None) -> str:
    """An index as it would be typed."""
    return "[]" if index is None else f"[{','.join(map(str, index))}]"


def format_number(value: int | float | None) -> str:
    """A number with four digits; an integer with all of them."""
    if value is None:
        return "none"
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"
