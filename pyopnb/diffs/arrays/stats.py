"""Two arrays held against each other: the facts, of which verdicts are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.accumulate import BINS, WORST, ComplexTally, FloatTally, IntegerTally, Tally
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.arrays.ulp import steps, widened
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import sanitize
from pyopnb.ops.progress import advance

__all__ = ["TOLERANCES", "Axis", "Facts", "Place", "array_stats", "family"]

TOLERANCES = MappingProxyType(
    {"float64": (1e-7, 1e-12), "float32": (1e-5, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
     "complex64": (1e-5, 1e-5), "complex128": (1e-7, 1e-12)}
)  # fmt: skip
"""Relative and absolute tolerance of dtypes that people calculate with; all other dtypes are exact."""

_BLOCK = 2**15  # what is calculated of one stays in a core's cache
_SHIFT = 52 - BINS.bit_length() + 1  # from the bits of a float64 to its eighth of an octave
_CALM = 4  # where only bits are compared, blocks may be longer


@dataclass(frozen=True)
class Place:
    """One of the worst elements.

    Attributes
    ----------
    index : tuple of int
    a, b : str
        The two values as they are printed.
    absolute : int or float or None
        ``|a - b|``; None where one of them is not finite, and of strings.
    relative : float or None
        ``|a - b| / |b|``; None where b is 0.
    ulp : int or None
        Units in the last place, of floats.
    """

    index: tuple[int, ...]
    a: str
    b: str
    absolute: int | float | None = None
    relative: float | None = None
    ulp: int | None = None


@dataclass(frozen=True)
class Axis:
    """Where mismatches are along an axis.

    Attributes
    ----------
    axis : int
    size : int
        Its length.
    hit : int
        How many of its indices have mismatches.
    index : int
        The one that has most.
    most : int
        How many it has.
    seen : int
        Of how many; less than all mismatches where these were too many to be placed one by one.
    """

    axis: int
    size: int
    hit: int
    index: int
    most: int
    seen: int


@dataclass(frozen=True)
class Facts:
    """What is known of two arrays of one type. All statistics are over the finite pairs, and None where there are none.

    Attributes
    ----------
    count, finite : int
        Elements, and pairs of which both are finite.
    bits, differing : int
        Elements of which the bits differ, and of which the values do: -0.0 is 0.0, and NaN agrees with NaN.
    over : int or None
        Elements that are over the tolerance; None if it was changed later and not all pass.
    classes : dict
        What there is of NaN, infinities, zeros of other signs, subnormals, by name; what there is not is left out.
    odd : int
        Mismatches that no tolerance covers: NaN against a number, infinities.
    frontier : Frontier
        What tolerances pass, of floats and complex numbers.
    largest, mean, rms, bias : float or None
        Of ``|a - b|`` the largest, its mean and root mean square; the mean of ``a - b``. Of integers the largest is exact.
    cosine, snr, psnr, peak : float or None
        Similarity of the two as vectors; ``10 log10(sum b² / sum (a-b)²)``, infinite where they are equal; the same of
        ``peak²``, the largest ``|b|``.
    ulp : int or None
        The most units in the last place, in the dtype's own.
    parts : tuple or None
        Of complex numbers the largest difference of the real and of the imaginary parts.
    stride : int
        Every so many-th element is in the two histograms.
    sizes, ulps : dict
        Histograms: of ``|a - b|``, by eighths of an octave, and of ULPs, by binary digits. -1 in the first: no difference.
    spread : dict
        Histogram of the pairs that differ, by the binary exponents of ``|b|`` and of ``|a - b|``; -1023 is also that of 0.
    matrix : tuple or None
        Rows and columns that ``grid`` is a picture of: the last axis is across. None where nothing differs.
    grid : tuple of tuple of int
        The largest ``|a - b|`` of each field of the picture, by eighths of an octave as in ``sizes``; where one of the two is
        not finite, infinity.
    worst : tuple of Place
        Those that are not finite first.
    first : tuple of int or None
        The first mismatch, or without one the first difference.
    axes : tuple of Axis
    """

    count: int
    finite: int = 0
    bits: int = 0
    differing: int = 0
    over: int | None = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    odd: int = 0
    frontier: Frontier = field(default_factory=Frontier)
    largest: int | float | None = None
    mean: float | None = None
    rms: float | None = None
    bias: float | None = None
    cosine: float | None = None
    snr: float | None = None
    psnr: float | None = None
    peak: float | None = None
    ulp: int | None = None
    parts: tuple[float, float] | None = None
    stride: int = 1
    sizes: Mapping[int, int] = field(default_factory=dict)
    ulps: Mapping[int, int] = field(default_factory=dict)
    spread: Mapping[tuple[int, int], int] = field(default_factory=dict)
    matrix: tuple[int, int] | None = None
    grid: tuple[tuple[int, ...], ...] = ()
    worst: tuple[Place, ...] = ()
    first: tuple[int, ...] | None = None
    axes: tuple[Axis, ...] = ()

    @property
    def relative(self) -> float | None:
        """The largest ``|a - b| / |b|`` over elements where b is not 0."""
        return self.frontier.relative if self.frontier.corners else None

    def quantile(self, q: float) -> tuple[float, float] | None:
        """Between what sizes of ``|a - b|`` a part q of the finite pairs ends: an eighth of an octave apart.

        It is of every ``stride``-th element.
        """
        total, seen = sum(self.sizes.values()), 0
        for place, count in sorted(self.sizes.items()):
            seen += count
            if seen >= q * total:
                return (0.0, 0.0) if place < 0 else (_edge(place), _edge(place + 1))
        return None

    def picture(self) -> np.ndarray:
        """The fields of ``grid`` as numbers, an eighth of an octave at most too small; 0 where nothing differs."""
        bins = np.array(self.grid, np.int64)
        sizes = (np.maximum(bins, 0) << _SHIFT).view(np.float64)
        return np.where(bins < 0, 0.0, sizes)

    def ulp_quantile(self, q: float) -> tuple[int, int] | None:
        """The same of ULPs, between powers of two."""
        total, seen = sum(self.ulps.values()), 0
        for digits, count in sorted(self.ulps.items()):
            seen += count
            if seen >= q * total:
                return (0, 0) if not digits else (2 ** (digits - 1), 2**digits - 1)
        return None


def _edge(place: int) -> float:
    with np.errstate(all="ignore"):
        return float(np.array([place << _SHIFT], np.int64).view(np.float64)[0])


def family(kind: np.dtype) -> str:
    """``"string"``, ``"bool"``, ``"integer"``, ``"float"`` or ``"complex"``."""
    name = dtype(kind).name
    if name in ("string", "bool"):
        return name
    return "complex" if name.startswith("complex") else "integer" if name.lstrip("u").startswith("int") else "float"


_TALLIES = {"bool": IntegerTally, "integer": IntegerTally, "float": FloatTally, "complex": ComplexTally}


def array_stats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, block: int = _BLOCK) -> Facts:
    """The facts of two arrays of one dtype and shape.

    Parameters
    ----------
    a, b : ndarray
        Of any order and byte order; not copied as wholes.
    rtol, atol : float
        Bools and strings know neither, integers only ``atol``.
    block : int
        Elements that are looked at in one go.

    Examples
    --------
    >>> facts = array_stats(np.float32([1, 2, 3]), np.float32([1, 2, 4]), 0.0, 0.0)
    >>> facts.largest, facts.first, facts.ulp
    (1.0, (2,), 4194304)
    """
    kind = family(a.dtype)
    if kind == "string":
        return _texts(a, b)
    tally = _TALLIES[kind](dtype(a.dtype).numpy, a.shape, rtol, atol)
    with np.errstate(all="ignore"):
        flat = [one.reshape(-1) if one.flags.c_contiguous else one.flat for one in (a, b)]
        at = 0
        while at < a.size:
            end = at + (_CALM * block if at and tally.calm else block)
            x, y = (np.asarray(one[at:end], tally.kind) for one in flat)
            tally.take(x, y, at)
            advance("elements", end - at)
            at = end
        if tally.bits:
            for at, size in tally.later:
                tally.again(np.asarray(flat[0][at : at + size], tally.kind))
        tally.end()
        return _facts(tally, kind)


def _facts(tally: Tally, kind: str) -> Facts:
    finite, exact = tally.finite, kind in ("integer", "bool")
    frontier = tally.growing.done()
    held: dict[str, Any] = {}
    if finite:
        total, signed = (tally.whole_total, tally.whole_signed) if exact else (tally.total, tally.signed)
        held["largest"] = tally.largest if exact else frontier.largest
        held["mean"], held["rms"] = total / finite, math.sqrt(tally.squares / finite)
        held["bias"] = None if kind == "complex" else signed / finite
        held["ulp"] = (tally.ulp or 0) if kind == "float" else None
        if kind != "bool":
            held |= _likeness(tally)
    shape = tally.shape
    first = tally.first_over if tally.first_over is not None else tally.first_differing
    odd = [Place(_index(at, shape), _text(x), _text(y)) for at, x, y in tally.odd]
    worst = [_place(_index(at, shape), x, y, d, kind) for d, at, x, y in tally.worst]
    return Facts(
        count=tally.count,
        finite=finite,
        bits=tally.bits,
        differing=tally.differing,
        over=tally.over,
        classes={name: count for name, count in tally.classes.items() if count},
        odd=sum(tally.classes[name] for name in _ODD),
        frontier=frontier,
        parts=tally.parts if kind == "complex" and finite else None,
        stride=tally.stride,
        sizes=_histogram(tally.sizes, "sizes" in vars(tally)),
        spread=dict(sorted(tally.spread.items())),
        **(_painted(tally) if tally.differing else {}),
        ulps={int(n): int(tally.ulp_sizes[n]) for n in np.flatnonzero(tally.ulp_sizes)} if kind == "float" else {},
        worst=tuple([*odd, *worst][:WORST]),
        first=None if first is None else _index(first, shape),
        axes=tuple(_axes(tally)) if tally.over > 1 else (),
        **held,
    )


_ODD = (
    "NaN in a",
    "NaN in b",
    "opposite infinities",
    "infinite in a",
    "infinite in b",
    "infinities that differ",
    "farther apart than float64 reaches",
)


def _likeness(tally: Tally) -> dict[str, float | None]:
    left, right, away, finite = tally.left, tally.right, tally.squares, tally.finite
    norms = math.sqrt(left) * math.sqrt(right)
    held: dict[str, float | None] = {"peak": tally.peak}
    if 0 < norms < math.inf:
        # Where both are nearly the same, the sum of products would not show how nearly; where not, the difference.
        product = (left + right - away) / 2 if away < 0.01 * norms else tally.product
        held["cosine"] = max(-1.0, min(1.0, product / norms))
    if left or right:
        held["snr"] = _decibel(right, away)
        held["psnr"] = _decibel(tally.peak**2 * finite if tally.peak < 1e150 else math.inf, away)
    return held


def _decibel(signal: float, noise: float) -> float | None:
    if not math.isfinite(signal) or not math.isfinite(noise):
        return None
    return math.inf if not noise else -math.inf if not signal else 10 * (math.log10(signal) - math.log10(noise))


def _histogram(sizes: np.ndarray, any_size: bool) -> dict[int, int]:
    if not any_size:
        return {}
    return {int(place) or -1: int(sizes[place]) for place in np.flatnonzero(sizes)}


def _painted(tally: Tally) -> dict[str, Any]:
    fields = tally.grid.done()
    bins = np.where(fields > 0, np.ascontiguousarray(fields).view(np.int64) >> _SHIFT, -1)
    return {"matrix": (tally.grid.rows, tally.grid.columns), "grid": tuple(map(tuple, bins.tolist()))}


def _axes(tally: Tally) -> Iterator[Axis]:
    for axis, counts in enumerate(tally.axes):
        if counts is not None:
            index = int(counts.argmax())
            yield Axis(axis, counts.size, int(np.count_nonzero(counts)), index, int(counts[index]), int(counts.sum()))


def _index(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        at, rest = divmod(at, size)
        index.append(rest)
    return tuple(reversed(index))


def _place(index: tuple[int, ...], x: Any, y: Any, d: float, kind: str) -> Place:
    if kind in ("integer", "bool"):
        return Place(index, _text(x), _text(y), int(d), int(d) / abs(int(y)) if int(y) else None)
    if kind == "complex":
        far, size = float(abs(np.complex128(x) - np.complex128(y))), float(abs(np.complex128(y)))
        return Place(index, _text(x), _text(y), far, far / size if size else None)
    one, two = (np.asarray(value).reshape(1) for value in (x, y))
    a, b = (float(widened(value)[0]) for value in (one, two))
    return Place(index, _text(x), _text(y), abs(a - b), abs(a - b) / abs(b) if b else None, int(steps(one, two)[0]))


def _text(value: Any) -> str:
    return sanitize(str(value), 80)


# ---- strings -----------------------------------------------------------------------------------------------------------------

_CONTEXT = 12


def _texts(a: np.ndarray, b: np.ndarray) -> Facts:
    """The facts of two arrays of str or bytes; a str is never equal to bytes."""
    count = 0
    found: list[tuple[int, Any, Any]] = []
    for at, (x, y) in enumerate(zip(a.flat, b.flat, strict=True)):
        if at % _BLOCK == _BLOCK - 1:
            advance("elements", _BLOCK)
        if not _equal_texts(x, y):
            count += 1
            if len(found) < WORST:
                found.append((at, x, y))
    worst = tuple(Place(_index(at, a.shape), *_quoted(x, y)) for at, x, y in found)
    first = worst[0].index if worst else None
    return Facts(a.size, bits=count, differing=count, over=count, odd=count, worst=worst, first=first)


def _equal_texts(x: Any, y: Any) -> bool:
    return isinstance(x, str) == isinstance(y, str) and bool(x == y)


def _quoted(x: Any, y: Any) -> tuple[str, str]:
    """Both texts around their first difference, which a number says."""
    if isinstance(x, str) != isinstance(y, str):
        return _cut(x, 0), _cut(y, 0)
    apart = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
    return f"{_cut(x, apart)} (character {apart})", _cut(y, apart)


def _cut(text: Any, at: int) -> str:
    begin = max(0, at - _CONTEXT)
    part = text[begin : at + _CONTEXT]
    return f"{'…' if begin else ''}{_escaped(part)}{'…' if at + _CONTEXT < len(text) else ''}"


def _escaped(part: Any) -> str:
    """A text as Python writes it, so that what looks the same is seen to differ."""
    return ascii(str(part) if isinstance(part, str) else bytes(part))
