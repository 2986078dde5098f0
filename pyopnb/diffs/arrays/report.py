"""Write a diff of arrays in at most twelve lines: verdict, where, how much, and details."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pyopnb.common import plural
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.stats import ODD, ArrayStats, Axis, Place
from pyopnb.diffs.base import MAX_LINES, fit_lines

__all__ = [
    "count_verdicts",
    "detail_lines",
    "format_index",
    "format_number",
    "headline",
    "part_lines",
    "summarize",
    "text",
    "verb",
]

# How many elements the text names after the worst.
_NEXT_WORST = 2
# In dB. Below it, the error has a root mean square of more than 0.7 of b's.
_UNRELATED = 3.0


def text(head: Sequence[str], parts: Sequence[Part], worst: Part) -> str:
    """Write the headline, then the details of the worst part, then the other parts that differ."""
    lines = [*head, *(f"  {line}" for line in detail_lines(worst))]
    if worst.facts is not None:
        for element in worst.facts.worst[1 : 1 + _NEXT_WORST]:
            lines.append(f"  next: {_format_values(element)}")
    differing = [part for part in parts if part is not worst and not part.ok]
    # Incomparable parts come before parts that only differ.
    differing.sort(key=lambda part: -VERDICTS.index(part.verdict))
    lines += [f"{part.name}: {summarize(part)}" for part in differing]
    if len(parts) == 1:
        lines = lines[:MAX_LINES]
    return fit_lines(lines, more="more")


def headline(parts: Sequence[Part], worst: Part) -> list[str]:
    """Write the headline: the verdict, where the worst part differs, and by how much."""
    lines = part_lines(worst)
    # One pair of arrays needs no count of verdicts.
    if len(parts) == 1:
        lines[0] = f"{worst.verdict}: {lines[0]}"
        return lines
    first = f"{worst.verdict}: {count_verdicts(part.verdict for part in parts)}"
    if worst.verdict == VERDICTS[0]:
        return [first]
    return [first, *lines]


def count_verdicts(verdicts: Iterator[str], noun: str = "part") -> str:
    """Count parts by their verdict, the worst first.

    Examples
    --------
    >>> mixed, alike = ["close", "different", "close"], ["close", "close"]
    >>> count_verdicts(iter(mixed)), count_verdicts(iter(alike), "tensor")
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
    if facts is None or not facts.bits:
        return [f"{name}{part.reason or part.a}"]
    lines = [f"{name}{part.a}, {_extent(part, facts)}"]
    if facts.differing:
        lines += [*_where(part, facts), *_how_much(part, facts)]
    return lines


def _extent(part: Part, facts: ArrayStats) -> str:
    """Say how many elements differ, or are outside the tolerance."""
    total = f"of {plural(facts.count, 'element')}"
    if not facts.differing:
        return f"equal values, but {facts.bits:,} {total} differ in their bits"
    differ = verb(facts.differing)
    if not (part.rtol or part.atol or part.stol):
        return f"{facts.differing:,} {total}{_share(facts.differing, facts.count)} {differ}"
    tolerance = f"rtol {part.rtol:g}, atol {part.atol:g}"
    if part.stol:
        tolerance += f", stol {part.stol:g} (of {format_number(part.scale)})"
    if facts.over:
        # "1 of 1 elements (100 %)" would be a silly sentence about a scalar.
        counted = f"{facts.over:,} {total}{_share(facts.over, facts.count)} "
        return f"{counted if facts.count > 1 else ''}outside {tolerance}"
    # After another tolerance was applied, it is not known how many are outside.
    where = "within"
    if facts.over is None:
        where = "some are outside"
    counted = f"{facts.differing:,} {total} {differ}, "
    return f"{counted if facts.count > 1 else ''}{where} {tolerance}"


def verb(count: int) -> str:
    """Let a verb agree with how many elements there are."""
    if count == 1:
        return "differs"
    return "differ"


def _share(count: int, total: int) -> str:
    return f" ({100 * count / total:.3g} %)"


def _where(part: Part, facts: ArrayStats) -> Iterator[str]:
    if not facts.worst:
        return
    worst = facts.worst[0]
    if facts.differing == 1:
        yield f"where: {_format_values(worst)}"
        return
    # "All 40 mismatches in channel 3" says more than the index of one of them.
    axis = _concentrated(facts.axes)
    clauses = []
    if axis is not None:
        share = f"{axis.most:,} of {axis.seen:,}"
        if axis.most == axis.seen:
            share = f"all {axis.seen:,}"
        clauses.append(f"{share} at index {axis.index} of axis {axis.axis} (length {axis.size:,})")
    # No mismatch of strings or bools is worse than another.
    adjective = "worst"
    if part.a.startswith(("string", "bool")):
        adjective = "first"
    clauses.append(f"{adjective} at {_format_values(worst)}")
    if axis is None and facts.first not in (None, worst.index):
        clauses.append(f"first at {format_index(facts.first)}")
    yield f"where: {'; '.join(clauses)}"


def _how_much(part: Part, facts: ArrayStats) -> Iterator[str]:
    if part.a.startswith("bool"):
        yield f"how much: {_format_classes(facts.classes)}"
        return
    clauses = []
    if facts.odd and facts.classes:
        # NaN and infinities come first: while they are there, no tolerance helps.
        clauses.append(f"{_format_odd(facts)}, which no tolerance covers")
        if facts.finite and not facts.largest:
            clauses.append("all finite pairs are equal")
    if facts.largest:
        size = "|a-b| "
        if clauses:
            size = "elsewhere |a-b| "
        if facts.differing > 1:
            size += "up to "
        size += format_number(facts.largest)
        if facts.relative is not None:
            size += f", {_format_relative(facts.relative)}"
        clauses.append(size)
        if _is_unrelated(facts):
            clauses.append(f"|b| itself is up to {format_number(facts.peak)}")
        elif not facts.odd and not part.ok:
            clauses.append(f"{' or '.join(_passing(facts))} would pass")
    if clauses:
        yield f"how much: {'; '.join(clauses)}"


def _format_odd(facts: ArrayStats) -> str:
    return _format_classes({name: n for name, n in facts.classes.items() if name in ODD})


def _format_relative(largest: float) -> str:
    # Percentages read well in the middle, powers of ten at both ends.
    if 1e-4 <= largest < 10:
        return f"{100 * largest:.3g} % of |b|"
    return f"{largest:.3g} × |b|"


def _is_unrelated(facts: ArrayStats) -> bool:
    """Tell whether the error is nearly as large as b, so that its tolerance passes anything."""
    return facts.snr is not None and facts.snr < _UNRELATED and facts.count > 1


def _passing(facts: ArrayStats) -> list[str]:
    """List tolerances, each of which alone would make the two close."""
    frontier = facts.frontier
    # Integers.
    if not frontier.corners and not frontier.at_zero:
        return [f"atol={facts.largest}"]
    # A relative tolerance of 1 or more would accept zeros for anything, so it is not suggested.
    passing = [f"atol={frontier.atol():g}"]
    rtol = frontier.rtol()
    if rtol is not None and rtol < 1:
        passing.append(f"rtol={rtol:g}")
    return passing


def _concentrated(axes: Sequence[Axis]) -> Axis | None:
    """Return the axis along which mismatches are mostly at one index, if there is one."""
    candidates = []
    for axis in axes:
        # On an axis of length 2, half of the mismatches at one index would be no news.
        if axis.most > max(0.5 * axis.seen, 3 * axis.seen / axis.size):
            candidates.append(axis)
    return max(candidates, key=lambda axis: (axis.most, axis.size), default=None)


# ---- details


def detail_lines(part: Part) -> Iterator[str]:
    """Yield the statistics that the headline leaves out."""
    facts = part.facts
    if facts is None or not facts.bits or part.a.startswith("bool"):
        return
    classes = {name: count for name, count in facts.classes.items() if name not in ODD}
    if classes:
        yield _format_classes(classes)
    if facts.over and facts.differing > facts.over:
        yield f"{facts.differing:,} of {facts.count:,} elements are not equal"
    if not facts.largest:
        return
    line = f"mean of |a-b| {format_number(facts.mean)}, rms {format_number(facts.rms)}"
    line += f", mean of a-b {format_number(facts.bias)}"
    if facts.ulp is not None:
        line += f", at most {facts.ulp:,} ULP"
    if facts.finite != facts.count:
        line += f", over {facts.finite:,} finite pairs"
    yield line
    if facts.cosine is not None:
        line = f"cosine {facts.cosine:.6g}, SNR {format_number(facts.snr)} dB"
        if facts.psnr is not None:
            line += f", PSNR {format_number(facts.psnr)} dB (peak {format_number(facts.peak)})"
        yield line
    if part.ok and not (facts.odd or part.stol or _is_unrelated(facts)):
        # The tightest of each alone; the tolerance that passed is in the verdict already.
        yield f"would just pass: {' or '.join(_passing(facts))}"


def _format_classes(classes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in classes.items())


# ---- one part or element in a line


def summarize(part: Part) -> str:
    """Describe a part in half a line."""
    facts = part.facts
    if part.reason or facts is None or not facts.bits:
        return part.reason or part.a
    if not facts.differing:
        return f"{part.a}, {facts.bits:,} of {facts.count:,} differ only in their bits"
    line = f"{part.a}, {facts.differing:,} of {facts.count:,} {verb(facts.differing)}"
    if facts.largest and not part.a.startswith("bool"):
        line += f" by up to {format_number(facts.largest)}"
    if facts.odd and facts.classes:
        line += f", {_format_odd(facts)}"
    return line


def _format_values(place: Place) -> str:
    where = ""
    if place.index:
        where = f"{format_index(place.index)}, "
    return f"{where}a = {place.a}, b = {place.b}"


def format_index(index: Sequence[int] | None) -> str:
    """Write an index as it would be typed."""
    return f"[{','.join(map(str, index or ()))}]"


def format_number(value: int | float | None) -> str:
    """Write a number with four digits, an integer with all of them."""
    if value is None:
        return "none"
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"
