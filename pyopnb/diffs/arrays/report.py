"""A diff of arrays as text of at most twelve lines: verdict, where, how much; then, indented, the details."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.stats import ArrayStats, Axis, Place
from pyopnb.diffs.base import MAX_LINES, fit_lines
from pyopnb.ops.messages import plural

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

# The text names so many elements beside the worst.
_NEXT_WORST = 2
# In dB. Below it, the root mean square of the error is over 0.7 of that of b.
_UNRELATED = 3.0


def text(parts: Sequence[Part], worst: Part) -> str:
    """Write the headline, then the details of the worst part, then the other parts that differ."""
    lines = headline(parts, worst)
    lines += [f"  {line}" for line in (*detail_lines(worst), *_next_worst(worst))]
    differing = []
    for part in parts:
        if part is not worst and not part.ok:
            differing.append(part)
    # Incomparable parts before those that only differ.
    differing.sort(key=_rank, reverse=True)
    room = MAX_LINES - len(lines)
    if room <= 1:
        return fit_lines(lines[:MAX_LINES])
    if len(differing) <= room:
        shown = differing
    else:
        shown = differing[: room - 1]
    lines += [f"{part.name}: {summarize(part)}" for part in shown]
    if len(shown) < len(differing):
        lines.append(f"… and {len(differing) - len(shown)} more")
    return fit_lines(lines[:MAX_LINES])


def _rank(part: Part) -> int:
    return VERDICTS.index(part.verdict)


def headline(parts: Sequence[Part], worst: Part) -> list[str]:
    """Say what to read first: the verdict, where the worst part differs, and by how much."""
    # One pair of arrays needs no count of verdicts.
    if len(parts) == 1:
        lines = part_lines(worst)
        lines[0] = f"{worst.verdict}: {lines[0]}"
        return lines
    counts = count_verdicts(part.verdict for part in parts)
    lines = [f"{worst.verdict}: {counts}"]
    if _differs(worst) or not worst.ok:
        lines += part_lines(worst)
    return lines


def count_verdicts(verdicts: Iterator[str], noun: str = "part") -> str:
    """Count parts by their verdict, the worst first.

    Examples
    --------
    >>> count_verdicts(iter(["close", "different", "close"])), count_verdicts(iter(["close", "close"]), "tensor")
    ('1 of 3 parts; 2 close', 'all 2 tensors')
    """
    counts = Counter(verdicts)
    worst, *better = [verdict for verdict in reversed(VERDICTS) if counts[verdict]]
    total = plural(counts.total(), noun)
    if not better:
        if counts.total() > 1:
            return f"all {total}"
        return total
    listed = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in better)
    return f"{counts[worst]:,} of {total}; {listed}"


def part_lines(part: Part) -> list[str]:
    """Say in at most three lines how many elements of a part differ, where, and by how much."""
    name = ""
    if part.name:
        name = f"{part.name}: "
    facts = part.facts
    if facts is None:
        return [f"{name}{part.reason or part.a}"]
    if not facts.bits:
        return [f"{name}{part.a}"]
    lines = [f"{name}{part.a}, {_extent(part, facts)}"]
    if facts.differing:
        lines += [_where(part, facts), _how_much(part, facts)]
    return [line for line in lines if line]


def _differs(part: Part) -> bool:
    return part.facts is not None and part.facts.bits > 0


def _extent(part: Part, facts: ArrayStats) -> str:
    """Say how many elements differ, or are outside the tolerance."""
    if not facts.differing:
        return f"equal values, but {facts.bits:,} of {facts.count:,} elements differ in their bits"
    # "1 of 1 elements (100 %)" would be a silly sentence about a scalar.
    if facts.count == 1:
        return _extent_of_one(part, facts)
    total = f"of {facts.count:,} elements"
    if not part.rtol and not part.atol and not part.stol:
        return f"{facts.differing:,} {total}{_share(facts.differing, facts.count)} {_verb(facts.differing)}"
    tolerance = _tolerance(part)
    if facts.over:
        return f"{facts.over:,} {total}{_share(facts.over, facts.count)} outside {tolerance}"
    # After another tolerance was applied, it is not known how many are outside.
    where = "within"
    if facts.over is None:
        where = "some are outside"
    return f"{facts.differing:,} {total} {_verb(facts.differing)}, {where} {tolerance}"


def _extent_of_one(part: Part, facts: ArrayStats) -> str:
    if not part.rtol and not part.atol and not part.stol:
        return "different"
    where = "outside"
    if facts.over == 0:
        where = "within"
    return f"{where} {_tolerance(part)}"


def _tolerance(part: Part) -> str:
    scaled = ""
    if part.stol:
        scaled = f", stol {part.stol:g} (of {format_number(part.scale)})"
    return f"rtol {part.rtol:g}, atol {part.atol:g}{scaled}"


def _verb(count: int) -> str:
    if count == 1:
        return "differs"
    return "differ"


def _share(count: int, total: int) -> str:
    return f" ({100 * count / total:.3g} %)"


def _where(part: Part, facts: ArrayStats) -> str:
    if not facts.worst:
        if facts.first:
            return f"where: first at {format_index(facts.first)}"
        return ""
    worst = facts.worst[0]
    if facts.differing == 1:
        return f"where: {_format_values(worst)}"
    # "All 40 mismatches in channel 3" says more than the index of one of them.
    axis = _concentrated(facts.axes)
    clauses = []
    if axis is not None:
        clauses.append(_concentration(axis, facts))
    # Of strings and bools, none is worse than another.
    adjective = "worst"
    if part.a.startswith(("string", "bool")):
        adjective = "first"
    clauses.append(f"{adjective} at {_format_values(worst)}")
    if axis is None and facts.first not in (None, worst.index):
        clauses.append(f"first at {format_index(facts.first)}")
    return f"where: {'; '.join(clauses)}"


def _how_much(part: Part, facts: ArrayStats) -> str:
    clauses = []
    if part.a.startswith("bool"):
        clauses = [f"{_CLASSES[name]}: {count:,}" for name, count in facts.classes.items()]
        return f"how much: {'; '.join(clauses)}"
    if facts.odd and facts.classes:
        # NaN and infinities come first: while they are there, no tolerance helps.
        clauses.append(f"{_format_odd(facts)}, which no tolerance covers")
    if facts.finite and facts.largest:
        clauses.append(_largest(facts, "elsewhere " if clauses else ""))
        if _is_unrelated(facts):
            clauses.append(f"|b| itself is up to {format_number(facts.peak)}")
        elif not facts.odd and not part.ok:
            clauses.append(f"{' or '.join(_passing(facts))} would pass")
    elif clauses and facts.finite == 1:
        clauses.append("the finite pair is equal")
    elif clauses and facts.finite:
        clauses.append(f"the {facts.finite:,} finite pairs are equal")
    if clauses:
        return f"how much: {'; '.join(clauses)}"
    return ""


def _largest(facts: ArrayStats, where: str) -> str:
    text = f"{where}|a-b| "
    if facts.differing > 1:
        text += "up to "
    text += format_number(facts.largest)
    if facts.relative is not None:
        text += f", {_format_relative(facts.relative)}"
    return text


def _format_odd(facts: ArrayStats) -> str:
    odd = {}
    for name, count in facts.classes.items():
        if name in _ODD:
            odd[name] = count
    return _format_classes(odd)


def _format_relative(largest: float) -> str:
    # Percentages read well in the middle, powers of ten at both ends.
    if 1e-4 <= largest < 10:
        return f"{100 * largest:.3g} % of |b|"
    return f"{largest:.3g} × |b|"


def _is_unrelated(facts: ArrayStats) -> bool:
    """Tell whether the error is nearly as large as b: such a tolerance would let anything pass."""
    return facts.snr is not None and facts.snr < _UNRELATED and facts.count > 1


def _passing(facts: ArrayStats) -> list[str]:
    """List tolerances of which each alone would make the two close."""
    frontier = facts.frontier
    # Integers.
    if not frontier.corners and not frontier.at_zero:
        return [f"atol={facts.largest}"]
    # A relative tolerance of 1 or more would accept zeros for anything, so it is not suggested.
    passing = [f"atol={frontier.atol(0.0):g}"]
    rtol = frontier.rtol(0.0)
    if rtol is not None and rtol < 1:
        passing.append(f"rtol={rtol:g}")
    return passing


def _passing_pairs(part: Part, facts: ArrayStats) -> list[str]:
    """List tolerances that pass when the other one stays as it is."""
    pairs: list[str] = []
    if part.stol:
        return pairs
    if part.rtol:
        pairs.append(f"rtol={part.rtol:g}, atol={facts.frontier.atol(part.rtol):g}")
    rtol = facts.frontier.rtol(part.atol)
    if part.atol and rtol is not None and rtol < 1:
        pairs.append(f"rtol={rtol:g}, atol={part.atol:g}")
    return pairs


def _concentration(axis: Axis, facts: ArrayStats) -> str:
    share = f"{axis.most:,} of {axis.seen:,}"
    if axis.most == axis.seen:
        share = f"all {axis.seen:,}"
    if facts.over is not None and axis.seen < facts.over:
        share += " that were looked at"
    return f"{share} at index {axis.index} of axis {axis.axis} (length {axis.size:,})"


def _concentrated(axes: Sequence[Axis]) -> Axis | None:
    """Return the axis along which mismatches are mostly at one index, if there is one."""
    candidates = []
    for axis in axes:
        # On an axis of length 2, half of the mismatches at one index would be no news.
        evenly = axis.seen / axis.size
        if axis.most > 0.5 * axis.seen and axis.most > 3 * evenly:
            candidates.append(axis)
    return max(candidates, key=lambda axis: (axis.most, axis.size), default=None)


# ---- details


def detail_lines(part: Part) -> Iterator[str]:
    """Yield the statistics that the headline leaves out."""
    facts = part.facts
    if facts is None or not facts.bits or part.a.startswith("bool"):
        return
    classes = {}
    for name, count in facts.classes.items():
        if name not in _ODD:
            classes[name] = count
    if classes:
        yield _format_classes(classes)
    if facts.over and facts.differing > facts.over:
        yield f"{facts.differing:,} of {facts.count:,} elements are not equal"
    if facts.largest:
        yield from _statistics(facts)
        if not facts.odd and not _is_unrelated(facts):
            pairs = "; or ".join(_passing_pairs(part, facts))
            if part.ok and not part.stol:
                # The tightest of each, alone: what was passed with is in the verdict already.
                yield f"would just pass: {' or '.join(_passing(facts))}"
            elif pairs:
                yield f"would also pass: {pairs}"


def _statistics(facts: ArrayStats) -> Iterator[str]:
    line = f"mean of |a-b| {format_number(facts.mean)}, rms {format_number(facts.rms)}"
    if facts.bias is not None:
        line += f", mean of a-b {format_number(facts.bias)}"
    if facts.ulp is not None:
        line += f", at most {facts.ulp:,} ULP"
    if facts.finite != facts.count:
        line += f", over {facts.finite:,} finite pairs"
    yield line
    if facts.parts is not None:
        real, imaginary = map(format_number, facts.parts)
        yield f"real parts differ by up to {real}, imaginary parts by {imaginary}"
    if facts.cosine is not None:
        line = f"cosine {facts.cosine:.6g}, SNR {format_number(facts.snr)} dB"
        if facts.psnr is not None:
            line += f", PSNR {format_number(facts.psnr)} dB (peak {format_number(facts.peak)})"
        yield line


def _next_worst(part: Part) -> Iterator[str]:
    if part.facts is None:
        return
    label = "next: "
    for element in part.facts.worst[1 : 1 + _NEXT_WORST]:
        yield label + _format_values(element)
        label = " " * len(label)


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


# ---- one part or element in a line


def summarize(part: Part) -> str:
    """Describe a part in half a line."""
    facts = part.facts
    if part.reason or facts is None or not facts.bits:
        return part.reason or part.a
    if not facts.differing:
        return f"{part.a}, {facts.bits:,} of {facts.count:,} differ only in their bits"
    text = f"{part.a}, {facts.differing:,} of {facts.count:,} {_verb(facts.differing)}"
    if facts.largest and not part.a.startswith("bool"):
        text += f" by up to {format_number(facts.largest)}"
    if facts.odd and facts.classes:
        text += f", {_format_odd(facts)}"
    return text


def format_place(place: Place) -> str:
    """Write where one of the worst elements is, both values, and how far apart they are.

    Examples
    --------
    >>> format_place(Place((0, 2), "1.5", "1.0", 0.5, 0.5, 4194304))
    '[0,2], a = 1.5, b = 1.0, |a-b| = 0.5'
    """
    text = _format_values(place)
    if place.absolute is not None:
        text += f", |a-b| = {format_number(place.absolute)}"
    return text


def _format_values(place: Place) -> str:
    where = ""
    if place.index:
        where = f"{format_index(place.index)}, "
    return f"{where}a = {place.a}, b = {place.b}"


def format_index(index: Sequence[int] | None) -> str:
    """Write an index as it would be typed."""
    if index is None:
        return "[]"
    return f"[{','.join(map(str, index))}]"


def format_number(value: int | float | None) -> str:
    """Write a number with four digits, an integer with all of them."""
    if value is None:
        return "none"
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"
