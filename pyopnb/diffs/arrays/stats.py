"""The statistics of two arrays, from which verdicts follow.

`ArrayStats` has the statistics of a pair. The native module `_stats` counts, in one pass over both;
here its counts become facts. Strings are compared in Python.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from pyopnb.common import progress, sanitize
from pyopnb.diffs.arrays import _stats
from pyopnb.diffs.arrays.pairs import Pairs, pairs_of
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.arrays.ulp import smallest_normal, tabulate
from pyopnb.engine import dtype

__all__ = [
    "ODD",
    "ArrayStats",
    "Axis",
    "Place",
    "array_stats",
    "family",
    "scale_of",
    "verdict_counts",
]

# How many of the worst elements are kept.
_WORST = 5
# Interrupts and progress are handled between chunks of _CHUNK elements. A chunk that has to be
# copied fits a processor's cache.
_CHUNK = 2**22
_COPIED = 2**18
_SHARED = 2**16
# Shifted by this many bits, a float64 is the number of its eighth of an octave.
_SHIFT = 49
_CLASSES = (
    "NaN in both",
    "NaN only in a",
    "NaN only in b",
    "infinite in both with the same sign",
    "infinite in both with opposite signs",
    "infinite only in a",
    "infinite only in b",
    "so far apart that |a-b| overflows",
    "NaN in both with different bits",
    "subnormal in a",
    "subnormal in b",
    "nonzero in a where b is 0",
    "zeros of opposite sign",
)
"""The special values that the native module counts, in its order, before `_TOTALS`."""
_TOTALS = ("bits", "differing", "over", "finite", "odd")

ODD = frozenset((*_CLASSES[1:3], *_CLASSES[4:8]))
"""The classes that no tolerance covers."""


@dataclass(frozen=True)
class Place:
    """One of the worst elements.

    Attributes
    ----------
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
    """The distribution of mismatches along an axis.

    Attributes
    ----------
    size : int
        Its length.
    index : int
        The index with the most mismatches.
    most : int
        How many that index has.
    seen : int
        The total number of mismatches.
    """

    axis: int
    size: int
    index: int
    most: int
    seen: int


@dataclass(frozen=True)
class ArrayStats:
    """The statistics of two arrays of the same type.

    They are over the finite pairs, and None where there are no such pairs.

    Attributes
    ----------
    count, finite : int
        The number of elements, and of pairs in which both are finite.
    bits, differing : int
        How many elements differ in bits, and how many in value: -0.0 is 0.0, and NaN agrees with
        NaN.
    over : int or None
        The number of elements over the tolerance; None if it was changed later and not all pass.
    classes : dict
        Counts of special values by name (NaN, infinities, zeros of the other sign,
        subnormals), omitting zeros.
    odd : int
        The number of mismatches that no tolerance covers: NaN against a number, infinities.
    frontier : Frontier
        The tolerances that pass, for floats.
    largest, mean, rms, bias : float or None
        Maximum, mean and root mean square of ``|a - b|``, and the mean of ``a - b``. The maximum is
        exact for integers. Where all bits are the same, nothing but that is known.
    cosine, snr, psnr, peak : float or None
        Similarity of the two as vectors; ``10 log10(sum b² / sum (a-b)²)``, infinite where they are
        equal; the same of ``peak²``, the largest ``|b|``.
    ulp : int or None
        The largest difference in units in the last place of the dtype.
    matrix : tuple or None
        Rows and columns that ``grid`` is a picture of: the last axis is across. None
        where nothing differs.
    grid : tuple of tuple of int
        The largest ``|a - b|`` of each field of the picture, by eighths of an octave. -1: nothing
        differs; infinity: one of the two is not finite.
    worst : tuple of Place
        Pairs with a value that is not finite come first.
    first : tuple of int or None
        The first mismatch, or if there is none, the first difference.
    pairs : Pairs or None
        Elements of both, if they are few, or have one axis and differ.
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
    matrix: tuple[int, int] | None = None
    grid: tuple[tuple[int, ...], ...] = ()
    worst: tuple[Place, ...] = ()
    first: tuple[int, ...] | None = None
    axes: tuple[Axis, ...] = ()
    pairs: Pairs | None = None

    @property
    def relative(self) -> float | None:
        """Return the largest ``|a - b| / |b|`` over elements where b is not 0."""
        if self.frontier.corners:
            return self.frontier.relative
        return None

    def picture(self) -> np.ndarray:
        """Return ``grid`` as numbers, at most an eighth of an octave too small."""
        bins = np.array(self.grid, np.int64)
        return np.where(bins < 0, 0.0, _edges(bins))


def _edges(eighths: np.ndarray) -> np.ndarray:
    """Return the least number of each eighth of an octave."""
    edges: np.ndarray = (np.maximum(eighths, 0) << _SHIFT).view(np.float64)
    return edges


@cache
def family(kind: np.dtype) -> str:
    """Name the group of dtypes that are compared alike.

    Returns
    -------
    str
        ``"string"``, ``"bool"``, ``"integer"`` or ``"float"``; a complex number counts as two
        floats.
    """
    name = dtype(kind).name
    if name in ("string", "bool"):
        return name
    if name.startswith(("int", "uint")):
        return "integer"
    return "float"


def array_stats(
    a: np.ndarray, b: np.ndarray, rtol: float, atol: float, chunk: int | None = None
) -> ArrayStats:
    """Compare two arrays of the same dtype and shape.

    Parameters
    ----------
    a, b : ndarray
        In any memory order and byte order; never copied as a whole.
    rtol, atol : float
        Strings use neither; integers and bools use only the whole part of ``atol``.
    chunk : int, optional
        How many elements are counted in one native call.

    Examples
    --------
    >>> facts = array_stats(np.float32([1, 2, 3]), np.float32([1, 2, 4]), 0.0, 0.0)
    >>> facts.largest, facts.first, facts.ulp
    (1.0, (2,), 4194304)
    """
    if family(a.dtype) == "string":
        return _string_stats(a, b)
    if all(_stats.same(*pair) for pair in _blocks(a, b, chunk)):
        # Bit-identical arrays need no other statistics.
        return ArrayStats(a.size, largest=0)
    return _facts(_count(a, b, rtol, atol, True, chunk).result(), a, b)


def verdict_counts(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> tuple[int, int, int]:
    """Count the elements that differ in bits, in value, and by more than the tolerance."""
    return _count(a, b, rtol, atol, details=False).totals()


def scale_of(b: np.ndarray) -> float:
    """Return the largest finite ``|b|``, or 0.

    Examples
    --------
    >>> scale_of(np.float16([1, -3, np.nan, np.inf])), scale_of(np.zeros(0))
    (3.0, 0.0)
    """
    largest = 0.0
    # Block by block, to avoid large temporaries.
    for start in range(0, b.size, _COPIED):
        # NumPy warns of a signaling NaN, which unwritten memory can have.
        with np.errstate(invalid="ignore"):
            sizes = np.abs(b.flat[start : start + _COPIED].astype(np.float64))
        largest = max(largest, float(sizes.max(initial=0.0, where=np.isfinite(sizes))))
    return largest


def _count(
    a: np.ndarray, b: np.ndarray, rtol: float, atol: float, details: bool, chunk: int | None = None
) -> _stats.Stats:
    native = _native(a.dtype)
    # The native module reads floats of one and two bytes by a table of all their values.
    values, order = _NO_TABLE
    if native.name == "float2":
        values, order = tabulate(native.stored)
    stats = _stats.Stats(native.name, a.shape, rtol, atol, details, native.tiny, values, order)
    start = 0
    for block_a, block_b in _blocks(a, b, chunk):
        size = block_a.size // native.counted.itemsize
        # Fewer elements are counted before a second thread has started.
        stats.add(block_a, block_b, start, _threads() if size > _SHARED else 1)
        start += size
        progress.advance("elements", size)
    return stats


_NO_TABLE = np.zeros(0, np.float32), np.zeros(0, np.uint32)


def _blocks(
    a: np.ndarray, b: np.ndarray, chunk: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut two arrays of one dtype and shape into blocks in C order.

    A block is the bytes of elements in the dtype that the native module counts.
    """
    native = _native(a.dtype)
    counted = native.counted
    is_bool = native.stored.kind == "b"
    # The buffered iterator of NumPy 2.0.0 gives wrong elements of arrays without an axis.
    sides = [np.atleast_1d(a), np.atleast_1d(b)]
    if is_bool or native.name == "float2":
        # The NumPy iterator casts no dtype of ml_dtypes.
        raw = np.dtype(f"u{native.stored.itemsize}")
        sides = [side.astype(native.stored, copy=False).view(raw) for side in sides]
    in_place = all(side.flags.c_contiguous and side.dtype == counted for side in sides)
    # Arrays that lie in memory as they are counted are not copied.
    blocks = np.nditer(  # type: ignore[call-overload]  # whose stub misspells contig
        sides,
        ["external_loop", "buffered", "zerosize_ok"],
        [["readonly", "contig"]] * 2,
        [counted] * 2,
        order="C",
        casting="unsafe",
        buffersize=chunk or (_CHUNK if in_place else _COPIED),
    )
    for block_a, block_b in blocks:
        if is_bool:
            # Bools that other code has written may have any byte but 0 for True.
            block_a, block_b = ((side != 0).astype(counted) for side in (block_a, block_b))
        yield block_a.view(np.uint8), block_b.view(np.uint8)


@dataclass(frozen=True)
class _Native:
    """The way in which the native module counts a dtype.

    Attributes
    ----------
    name : str
        The family and the bytes of an element, as the native module calls them.
    stored, counted : dtype
        The dtype in this machine's byte order, and the one that is counted.
    tiny : float
        The smallest normal number of a float dtype.
    """

    name: str
    stored: np.dtype
    counted: np.dtype
    tiny: float = 0.0


@cache
def _native(kind: np.dtype) -> _Native:
    """Look up how the native module counts a dtype."""
    row = dtype(kind)
    stored = row.numpy
    if family(kind) == "float":
        # Floats of one and two bytes have many formats, which one table of
        # their values tells apart.
        if stored.itemsize <= 2:
            return _Native("float2", stored, np.dtype(np.uint16), smallest_normal(stored))
        return _Native(f"float{stored.itemsize}", stored, stored, smallest_normal(stored))
    # Integers of fewer bits are copied, block by block, to integers that hold them all.
    if row.name == "uint64":
        return _Native("uint8", stored, stored)
    if row.name in ("uint32", "int64"):
        return _Native("int8", stored, np.dtype(np.int64))
    return _Native("int4", stored, np.dtype(np.int32))


def _threads() -> int:
    # A container may give the process fewer processors than the machine has.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _facts(counts: dict[str, Any], a: np.ndarray, b: np.ndarray) -> ArrayStats:
    """Build the statistics from the native module's counts."""
    kind = family(a.dtype)
    totals = dict(zip(_TOTALS, counts["counts"][len(_CLASSES) :], strict=True))
    classes = dict(zip(_CLASSES, counts["counts"], strict=False))
    if kind == "bool":
        # The two sums are of ones.
        only_a = int(counts["total"] + counts["bias"]) // 2
        only_b = int(counts["total"]) - only_a
        classes = {"True in a and False in b": only_a, "False in a and True in b": only_b}
    if totals["finite"]:
        totals |= _moments(counts, totals["finite"], kind)
    if totals["differing"]:
        # The picture has the last axis across, and all others one below the other.
        totals["matrix"] = (math.prod(a.shape[:-1]), a.shape[-1] if a.shape else 1)
        bins = np.array(counts["grid"]).view(np.int64) >> _SHIFT
        # -1 where nothing differs.
        rows = np.where(bins > 0, bins, -1).reshape(-1, counts["width"]).tolist()
        totals["grid"] = tuple(map(tuple, rows))
        totals["pairs"] = pairs_of(a, b)
    # Where all pass, the first difference is still worth a look.
    for first in (counts["first_differing"], counts["first_over"]):
        if first is not None:
            totals["first"] = _index(first, a.shape)
    axes = []
    for axis, along in enumerate(counts["axes"]):
        if along and totals["over"] > 1:
            most = max(along)
            axes.append(Axis(axis, len(along), along.index(most), most, sum(along)))
    return ArrayStats(
        a.size,
        classes={name: count for name, count in classes.items() if count},
        frontier=Frontier(counts["corners"], counts["at_zero"]),
        worst=_worst(counts, a, b),
        axes=tuple(axes),
        **totals,
    )


def _moments(counts: dict[str, Any], finite: int, kind: str) -> dict[str, Any]:
    """Compute the statistics that are defined for finite pairs only."""
    noise = counts["squares"]
    moments = {
        "largest": counts["largest"],
        "mean": counts["total"] / finite,
        "rms": math.sqrt(noise / finite),
        "bias": counts["bias"] / finite,
    }
    if kind == "float":
        moments["ulp"] = counts["ulp"]
    else:
        # Differences of integers are exact.
        moments["largest"] = max((away for _, away, _ in counts["worst"]), default=0)
    if kind == "bool":
        return moments
    squares_a = counts["left"]
    squares_b = counts["right"]
    peak = moments["peak"] = counts["peak"]
    norms = math.sqrt(squares_a) * math.sqrt(squares_b)
    if 0 < norms < math.inf:
        product = counts["product"]
        if noise < 0.01 * norms:
            # The sum of products is too coarse for two that are nearly equal.
            product = (squares_a + squares_b - noise) / 2
        moments["cosine"] = max(-1.0, min(1.0, product / norms))
    if squares_a or squares_b:
        moments["snr"] = _decibel(squares_b, noise)
        # The square of a larger peak overflows float64.
        moments["psnr"] = _decibel(peak**2 * finite if peak < 1e150 else math.inf, noise)
    return moments


def _decibel(signal: float, noise: float) -> float | None:
    if not math.isfinite(signal) or not math.isfinite(noise):
        return None
    if not noise:
        return math.inf
    if not signal:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def _worst(counts: dict[str, Any], a: np.ndarray, b: np.ndarray) -> tuple[Place, ...]:
    """Describe the worst elements, the ones without a finite difference first."""
    worst = []
    # NaN against a number is worse than any distance.
    for flat in counts["first_odd"]:
        worst.append(Place(_index(flat, a.shape), _text(a.flat[flat]), _text(b.flat[flat])))
    for flat, away, ulp in counts["worst"]:
        y = b.flat[flat]
        size = abs(float(y))
        element = Place(
            _index(flat, a.shape),
            _text(a.flat[flat]),
            _text(y),
            away,
            away / size if size else None,
            ulp if family(a.dtype) == "float" else None,
        )
        worst.append(element)
    return tuple(worst[:_WORST])


def _index(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if shape:
        return tuple(map(int, np.unravel_index(at, shape)))
    return ()


def _text(value: Any) -> str:
    return sanitize(str(value), 80)


# ---- strings

# This many characters are shown on each side of the first difference.
_CONTEXT = 12
# This many strings are compared between two reports of progress.
_STRINGS = 2**15


def _string_stats(a: np.ndarray, b: np.ndarray) -> ArrayStats:
    """Compare two arrays of str or bytes; a str is never equal to bytes."""
    count = 0
    worst: list[Place] = []
    for flat, (x, y) in enumerate(zip(a.flat, b.flat, strict=True)):
        if flat % _STRINGS == _STRINGS - 1:
            progress.advance("elements", _STRINGS)
        # Python calls no str equal to bytes, but warns about the comparison under -b.
        is_same_type = isinstance(x, str) == isinstance(y, str)
        if is_same_type and x == y:
            continue
        count += 1
        # No string is worse than another: the first ones are shown, around the first
        # character that differs.
        if len(worst) < _WORST:
            position = _first_difference(x, y) if is_same_type else 0
            where = f" (differs at index {position})" if is_same_type else ""
            texts = _cut(x, position) + where, _cut(y, position)
            worst.append(Place(_index(flat, a.shape), *texts))
    first = worst[0].index if worst else None
    counts: dict[str, Any] = dict.fromkeys(("bits", "differing", "over", "odd"), count)
    return ArrayStats(a.size, worst=tuple(worst), first=first, **counts)


def _first_difference(x: Any, y: Any) -> int:
    for position, (p, q) in enumerate(zip(x, y, strict=False)):
        if p != q:
            return position
    # One string is the beginning of the other.
    return min(len(x), len(y))


def _cut(text: Any, position: int) -> str:
    """Write part of a string in ASCII escapes, so that lookalikes can be told apart."""
    start = max(0, position - _CONTEXT)
    stop = position + _CONTEXT
    # NumPy strings have another representation.
    part = ascii(str(text[start:stop]) if isinstance(text, str) else bytes(text[start:stop]))
    return f"{'…' if start else ''}{part}{'…' if stop < len(text) else ''}"
