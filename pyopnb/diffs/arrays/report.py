"""A diff of arrays as text of at most twelve lines: verdict, where, how much; then, indented, the details."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.stats import ArrayStats, Axis, Place
from pyopnb.diffs.base import MAX_LINES, fit_lines
from pyopnb.ops.errors import plural

__all__ = [
    "count_verdicts",
    "detail_lines",
    "format_index",
    "format_number",
    "format_place",
    "headline",
    "part_lines",
    "summarize",
    "text",
]

_NEXT_WORST = 2  # elements that the text names beside the worst
_UNRELATED = 3.0  # dB: the error's root mean square is 0.7 of b's


def text(parts: Sequence[Part], worst: Part) -> str:
    """The headline, then the details of the worst part, then the other parts that differ."""
    lines = headline(parts, worst)
    lines += [f"  {line}" for line in (*detail_lines(worst), *_next_worst(worst))]
    others = sorted((part for part in parts if part is not worst and not part.ok), key=_rank, reverse=True)
    room = MAX_LINES - len(lines)
    if others and room > 1:
        kept = others if len(others) <= room else others[: room - 1]
        lines += [f"{part.name}: {summarize(part)}" for part in kept]
        if len(kept) < len(others):
            lines.append(f"… and {len(others) - len(kept)} more")
    return fit_lines(lines[:MAX_LINES])


def _rank(part: Part) -> int:
    return VERDICTS.index(part.verdict)


def headline(parts: Sequence[Part], worst: Part) -> list[str]:
    """What to read first: the verdict, where the worst part differs, and by how much."""
    if len(parts) == 1:
        first, *rest = part_lines(worst)
        return [f"{worst.verdict}: {first}", *rest]
    counts = count_verdicts(part.verdict for part in parts)
    return [f"{worst.verdict}: {counts}", *([] if worst.ok and not _differs(worst) else part_lines(worst))]


def count_verdicts(verdicts: Iterator[str], noun: str = "part") -> str:
    """How many of some things have which verdict, the worst first.

    Examples
    --------
    >>> count_verdicts(iter(["close", "different", "close"])), count_verdicts(iter(["close", "close"]), "tensor")
    ('1 of 3 parts; 2 close', 'all 2 tensors')
    """
    counts = Counter(verdicts)
    worst, *better = (verdict for verdict in reversed(VERDICTS) if counts[verdict])
    total = plural(counts.total(), noun)
    if not better:
        return f"all {total}" if counts.total() > 1 else total
    return f"{counts[worst]:,} of {total}; {', '.join(f'{counts[verdict]:,} {verdict}' for verdict in better)}"


def part_lines(part: Part) -> list[str]:
    """A part in at most three lines: how many elements differ, where, and by how much."""
    name, facts = f"{part.name}: " if part.name else "", part.facts
    if facts is None:
        return [f"{name}{part.reason or part.a}"]
    lines = [f"{name}{part.a}, {_extent(part, facts)}" if facts.bits else f"{name}{part.a}"]
    if facts.differing:
        lines += [line for line in (_where(part, facts), _how_much(part, facts)) if line]
    return lines


def _differs(part: Part) -> bool:
    return part.facts is not None and part.facts.bits > 0


def _extent(part: Part, facts: ArrayStats) -> str:
    """How many elements differ, or are outside the tolerance."""
    if not facts.differing:
        return f"equal values, but {facts.bits:,} of {facts.count:,} elements differ in their bits"
    if facts.count == 1:
        return _extent_of_one(part, facts)
    total = f"of {facts.count:,} elements"
    if not part.rtol and not part.atol and not part.stol:
        return f"{facts.differing:,} {total}{_share(facts.differing, facts.count)} {_verb(facts.differing)}"
    tolerance = _tolerance(part)
    if facts.over:
        return f"{facts.over:,} {total}{_share(facts.over, facts.count)} outside {tolerance}"
    where = "some are outside" if facts.over is None else "within"
    return f"{facts.differing:,} {total} {_verb(facts.differing)}, {where} {tolerance}"


def _extent_of_one(part: Part, facts: ArrayStats) -> str:
    if not part.rtol and not part.atol and not part.stol:
        return "different"
    return f"{'outside' if facts.over is None or facts.over else 'within'} {_tolerance(part)}"


def _tolerance(part: Part) -> str:
    scaled = f", stol {part.stol:g} (of {format_number(part.scale)})" if part.stol else ""
    return f"rtol {part.rtol:g}, atol {part.atol:g}{scaled}"


def _verb(count: int) -> str:
    return "differs" if count == 1 else "differ"


def _share(count: int, total: int) -> str:
    return f" ({100 * count / total:.3g} %)"


def _where(part: Part, facts: ArrayStats) -> str:
    if not facts.worst:
        return f"where: first at {format_index(facts.first)}" if facts.first else ""
    worst = facts.worst[0]
    told = [] if (axis := _concentrated(facts.axes)) is None else [_concentration(axis, facts)]
    if facts.differing == 1:
        return f"where: {_format_values(worst)}"
    only_first = part.a.startswith(("string", "bool"))  # none is worse than another
    told.append(f"{'first' if only_first else 'worst'} at {_format_values(worst)}")
    if axis is None and facts.first not in (None, worst.index):
        told.append(f"first at {format_index(facts.first)}")
    return f"where: {'; '.join(told)}"


def _how_much(part: Part, facts: ArrayStats) -> str:
    if part.a.startswith("bool"):
        return f"how much: {'; '.join(f'{_CLASSES[name]}: {count:,}' for name, count in facts.classes.items())}"
    told = [f"{_format_odd(facts)}, which no tolerance covers"] if facts.odd and facts.classes else []
    if facts.finite and facts.largest:
        relative = "" if facts.relative is None else f", {_format_relative(facts.relative)}"
        up_to = "up to " if facts.differing > 1 else ""
        told.append(f"{'elsewhere ' if told else ''}|a-b| {up_to}{format_number(facts.largest)}{relative}")
        if _is_unrelated(facts):
            told.append(f"|b| itself is up to {format_number(facts.peak)}")
        elif not facts.odd and not part.ok:
            told.append(f"{' or '.join(_passing(facts))} would pass")
    elif told and facts.finite:
        told.append(f"the {facts.finite:,} finite pairs are equal" if facts.finite > 1 else "the finite pair is equal")
    return f"how much: {'; '.join(told)}" if told else ""


def _format_odd(facts: ArrayStats) -> str:
    return _format_classes({name: count for name, count in facts.classes.items() if name in _ODD})


def _format_relative(largest: float) -> str:
    return f"{100 * largest:.3g} % of |b|" if 1e-4 <= largest < 10 else f"{largest:.3g} × |b|"


def _is_unrelated(facts: ArrayStats) -> bool:
    """Whether the error is nearly as large as b, so that a tolerance would let anything pass."""
    return facts.snr is not None and facts.snr < _UNRELATED and facts.count > 1


def _passing(facts: ArrayStats) -> list[str]:
    """Tolerances, one alone, with which `pyopnb.diff` finds the two close."""
    if not facts.frontier.corners and not facts.frontier.at_zero:  # integers
        return [f"atol={facts.largest}"]
    rtol = facts.frontier.rtol(0.0)
    return [f"atol={facts.frontier.atol(0.0):g}", *([] if rtol is None or rtol >= 1 else [f"rtol={rtol:g}"])]


def _passing_pairs(part: Part, facts: ArrayStats) -> list[str]:
    """Tolerances that pass when the other one stays as it is."""
    if part.stol:
        return []
    rtol = facts.frontier.rtol(part.atol)
    pairs = [f"rtol={part.rtol:g}, atol={facts.frontier.atol(part.rtol):g}"] if part.rtol else []
    return [*pairs, f"rtol={rtol:g}, atol={part.atol:g}"] if part.atol and rtol is not None and rtol < 1 else pairs


def _concentration(axis: Axis, facts: ArrayStats) -> str:
    share = f"all {axis.seen:,}" if axis.most == axis.seen else f"{axis.most:,} of {axis.seen:,}"
    sampled = " that were looked at" if facts.over is not None and axis.seen < facts.over else ""
    return f"{share}{sampled} at index {axis.index} of axis {axis.axis} (length {axis.size:,})"


def _concentrated(axes: Sequence[Axis]) -> Axis | None:
    """The axis along which mismatches are mostly at one index, if there is one."""
    candidates = [axis for axis in axes if axis.most > 0.5 * axis.seen and axis.most > 3 * axis.seen / axis.size]
    return max(candidates, key=lambda axis: (axis.most, axis.size), default=None)


# ---- details -----------------------------------------------------------------------------------------------------------------


def detail_lines(part: Part) -> Iterator[str]:
    """Statistics that the headline leaves out."""
    facts = part.facts
    if facts is None or not facts.bits or part.a.startswith("bool"):
        return
    if classes := {name: count for name, count in facts.classes.items() if name not in _ODD}:
        yield _format_classes(classes)
    if facts.over and facts.differing > facts.over:
        yield f"{facts.differing:,} of {facts.count:,} elements are not equal"
    if facts.largest:
        yield from _statistics(facts)
        if not facts.odd and not _is_unrelated(facts) and (pairs := _passing_pairs(part, facts)):
            yield f"would {'also' if not part.ok else 'just'} pass: {'; or '.join(pairs)}"


def _statistics(facts: ArrayStats) -> Iterator[str]:
    bias = "" if facts.bias is None else f", mean of a-b {format_number(facts.bias)}"
    over = "" if facts.finite == facts.count else f", over {facts.finite:,} finite pairs"
    ulp = "" if facts.ulp is None else f", at most {facts.ulp:,} ULP"
    yield f"mean of |a-b| {format_number(facts.mean)}, rms {format_number(facts.rms)}{bias}{ulp}{over}"
    if facts.parts is not None:
        yield f"real parts differ by up to {format_number(facts.parts[0])}, imaginary parts by {format_number(facts.parts[1])}"
    if facts.cosine is not None:
        psnr = "" if facts.psnr is None else f", PSNR {format_number(facts.psnr)} dB (peak {format_number(facts.peak)})"
        yield f"cosine {facts.cosine:.6g}, SNR {format_number(facts.snr)} dB{psnr}"


def _next_worst(part: Part) -> Iterator[str]:
    places = part.facts.worst[1 : 1 + _NEXT_WORST] if part.facts is not None else ()
    for number, place in enumerate(places):
        yield f"{'      ' if number else 'next: '}{_format_values(place)}"


_CLASSES = MappingProxyType(
    {
        "NaN in both": "NaN in both",
        "NaN in a": "NaN only in a",
        "NaN in b": "NaN only in b",
        "the same infinity": "infinite in both with the same sign",
        "opposite infinities": "infinite in both with opposite signs",
        "infinite in a": "infinite only in a",
        "infinite in b": "infinite only in b",
        "infinities that differ": "infinite in both but not equal",
        "farther apart than float64 reaches": "so far apart that |a-b| overflows",
        "NaN of other bits": "NaN in both with different bits",
        "subnormal in a": "subnormal in a",
        "subnormal in b": "subnormal in b",
        "differs from 0": "nonzero in a where b is 0",
        "0.0 against -0.0": "zeros of opposite sign",
        "False to True": "False in a and True in b",
        "True to False": "True in a and False in b",
    }
)
"""The classes of `ArrayStats.classes` as adjectives of their number."""

_ODD = frozenset(
    {
        "NaN in a",
        "NaN in b",
        "opposite infinities",
        "infinite in a",
        "infinite in b",
        "infinities that differ",
        "farther apart than float64 reaches",
    }
)


def _format_classes(classes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_CLASSES.get(name, name)}" for name, count in classes.items())


# ---- one part or element in a line -------------------------------------------------------------------------------------------


def summarize(part: Part) -> str:
    """A part in half a line."""
    facts = part.facts
    if part.reason or facts is None or not facts.bits:
        return part.reason or part.a
    if not facts.differing:
        return f"{part.a}, {facts.bits:,} of {facts.count:,} differ only in their bits"
    largest = f" by up to {format_number(facts.largest)}" if facts.largest and not part.a.startswith("bool") else ""
    odd = f", {_format_odd(facts)}" if facts.odd and facts.classes else ""
    return f"{part.a}, {facts.differing:,} of {facts.count:,} {_verb(facts.differing)}{largest}{odd}"


def format_place(place: Place) -> str:
    """One of the worst elements: where it is, both values, how far apart they are.

    Examples
    --------
    >>> format_place(Place((0, 2), "1.5", "1.0", 0.5, 0.5, 4194304))
    '[0,2], a = 1.5, b = 1.0, |a-b| = 0.5'
    """
    distance = "" if place.absolute is None else f", |a-b| = {format_number(place.absolute)}"
    return f"{_format_values(place)}{distance}"


def _format_values(place: Place) -> str:
    at = f"{format_index(place.index)}, " if place.index else ""
    return f"{at}a = {place.a}, b = {place.b}"


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
