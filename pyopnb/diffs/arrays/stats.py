"""The statistics of two arrays, from which verdicts follow.

`ArrayStats` is what is known of a pair. The native module `_stats` counts, in one pass over both; here its counts become facts.
Strings are compared in Python.
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

from pyopnb.diffs.arrays import _stats
from pyopnb.diffs.arrays.pairs import Pairs, pairs_of
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.arrays.ulp import smallest_normal, tabulate
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import sanitize
from pyopnb.ops.progress import advance

__all__ = [
    "ArrayStats",
    "Axis",
    "LazyStats",
    "Place",
    "array_stats",
    "family",
    "quick_stats",
    "scale_of",
]

# So many of the worst elements are kept.
_WORST = 5
# The histograms of longer arrays are made of a sample of at most so many elements.
_SAMPLED = 2**20
# An interrupt is seen, and progress reported, between two chunks. The limits are in elements:
# of a chunk at least, at most, and at most where it has to be copied.
_CHUNKS = 64
_LEAST = 2**17
_MOST = 2**22
_COPIED = 2**18
# Fewer elements are counted before a second thread has started.
_SHARED = 2**16
_SHORT = 4096
# Shifted by so many bits, a float64 is the number of its eighth of an octave.
_SHIFT = 49
_CLASSES = (
    "NaN in both",
    "NaN in a",
    "NaN in b",
    "the same infinity",
    "opposite infinities",
    "infinite in a",
    "infinite in b",
    "infinities that differ",
    "farther apart than float64 reaches",
    "NaN of other bits",
    "subnormal in a",
    "subnormal in b",
    "differs from 0",
    "0.0 against -0.0",
)
"""What the native module counts beside differences, in its order."""


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
    """The distribution of mismatches along an axis.

    Attributes
    ----------
    axis : int
    size : int
        Its length.
    hit : int
        How many of its indices have mismatches.
    index : int
        The index with the most mismatches.
    most : int
        How many that index has.
    seen : int
        How many there are in all.
    """

    axis: int
    size: int
    hit: int
    index: int
    most: int
    seen: int


@dataclass(frozen=True)
class ArrayStats:
    """What is known of two arrays of the same type. All statistics are over the finite pairs, and None where there are none.

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
    pairs : Pairs or None
        Elements of both, where they are few or have one axis and differ.
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

    def quantile(self, q: float) -> tuple[float, float] | None:
        """Return between which sizes of ``|a - b|`` a part q of the finite pairs ends.

        The two are an eighth of an octave apart, and tell of every ``stride``-th element.
        """
        eighth = _quantile(self.sizes, q)
        if eighth is None:
            return None
        if eighth < 0:
            return (0.0, 0.0)
        return (_edge(eighth), _edge(eighth + 1))

    def picture(self) -> np.ndarray:
        """Return ``grid`` as numbers, at most an eighth of an octave too small."""
        bins = np.array(self.grid, np.int64)
        sizes = (np.maximum(bins, 0) << _SHIFT).view(np.float64)
        return np.where(bins < 0, 0.0, sizes)

    def ulp_quantile(self, q: float) -> tuple[int, int] | None:
        """Return between which powers of two a part q of the ULPs ends."""
        digits = _quantile(self.ulps, q)
        if digits is None:
            return None
        if not digits:
            return (0, 0)
        return (2 ** (digits - 1), 2**digits - 1)


def _quantile(histogram: Mapping[int, int], q: float) -> int | None:
    """Return the bin of a histogram in which a part q of the counts ends."""
    part = q * sum(histogram.values())
    seen = 0
    for edge, count in sorted(histogram.items()):
        seen += count
        if seen >= part:
            return edge
    return None


def _edge(eighth: int) -> float:
    with np.errstate(all="ignore"):
        return float(np.array([eighth << _SHIFT], np.int64).view(np.float64)[0])


@cache
def family(kind: np.dtype) -> str:
    """Name the group of dtypes that are compared alike.

    Returns
    -------
    str
        ``"string"``, ``"bool"``, ``"integer"``, ``"float"`` or ``"complex"``.
    """
    name = dtype(kind).name
    if name in ("string", "bool"):
        return name
    if name.startswith("complex"):
        return "complex"
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
        Bools and strings use neither, integers only ``atol``.
    chunk : int, optional
        How many elements are counted in one native call.

    Returns
    -------
    ArrayStats

    Examples
    --------
    >>> facts = array_stats(np.float32([1, 2, 3]), np.float32([1, 2, 4]), 0.0, 0.0)
    >>> facts.largest, facts.first, facts.ulp
    (1.0, (2,), 4194304)
    """
    group = family(a.dtype)
    if group == "string":
        return _string_stats(a, b)
    return _facts(_count(a, b, group, rtol, atol, _stride(a.size), chunk).result(), a, b, group)


@dataclass(eq=False, slots=True)
class LazyStats:
    """The facts of two short arrays, of which a verdict needs only three; the others are made when somebody asks for them.

    Attributes
    ----------
    a, b : ndarray
        Copies: the caller may write into theirs before.
    rtol, atol : float
    bits, differing, over : int
        As in `ArrayStats`.
    """

    a: np.ndarray
    b: np.ndarray
    rtol: float
    atol: float
    bits: int
    differing: int
    over: int

    def make(self) -> ArrayStats:
        """Make the facts."""
        return array_stats(self.a, self.b, self.rtol, self.atol)


def quick_stats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> LazyStats | ArrayStats:
    """Compare as `array_stats` does, but put off what short arrays need not for their verdict."""
    group = family(a.dtype)
    if group == "string" or a.size > _SHORT:
        return array_stats(a, b, rtol, atol)
    # The caller may write into its arrays before somebody asks for the statistics.
    a, b = a.copy(), b.copy()
    return LazyStats(a, b, rtol, atol, *_count(a, b, group, rtol, atol, stride=0).totals())


def scale_of(b: np.ndarray) -> float:
    """Return the largest finite ``|b|``, or 0. It is computed block by block, in constant memory.

    Examples
    --------
    >>> scale_of(np.float16([1, -3, np.nan, np.inf])), scale_of(np.zeros(0))
    (3.0, 0.0)
    """
    largest = 0.0
    wide = np.dtype(np.complex128 if b.dtype.kind == "c" else np.float64)
    for (block,) in _blocks((b,), _SHARED):
        sizes = np.abs(block.astype(wide))
        largest = max(largest, float(sizes.max(initial=0.0, where=np.isfinite(sizes))))
    return largest


def _count(
    a: np.ndarray,
    b: np.ndarray,
    kind: str,
    rtol: float,
    atol: float,
    stride: int,
    chunk: int | None = None,
) -> _stats.Stats:
    native = _native(a.dtype)
    # The native module reads floats of one and two bytes by a table of all their values.
    values, order = _NO_TABLE
    if native.name == "float2":
        values, order = tabulate(native.stored)
    if kind in ("integer", "bool"):
        rtol = 0.0
        if kind == "integer":
            # Differences of integers are whole: a tolerance of 1.5 is one of 1.
            atol = float(math.floor(atol))
        else:
            atol = 0.0
    stats = _stats.Stats(native.name, a.shape, rtol, atol, stride, native.tiny, values, order)
    if chunk is None:
        in_place = all(
            array.flags.c_contiguous and array.dtype == native.counted for array in (a, b)
        )
        # What has to be copied is copied in pieces that fit a processor's cache.
        if in_place:
            most = _MOST
        else:
            most = _COPIED
        # Progress is visible in long arrays, and short ones are one chunk.
        chunk = min(max(a.size // _CHUNKS, _LEAST), most)
    start = 0
    for block_a, block_b in _blocks((a, b), chunk):
        threads = 1
        if block_a.size > _SHARED:
            threads = _threads()
        stats.add(native.as_bytes(block_a), native.as_bytes(block_b), start, threads)
        start += block_a.size
        advance("elements", block_a.size)
    return stats


_NO_TABLE = np.zeros(0, np.float32), np.zeros(0, np.uint32)


def _blocks(arrays: tuple[np.ndarray, ...], most: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Cut arrays of one shape into flat blocks of at most so many elements, in C order.

    A block of an array in another memory order is a copy: of as many rows as fit, so that elements
    that are near in memory are copied together.
    """
    # Contiguous arrays are cut without looking at their axes.
    if all(array.flags.c_contiguous for array in arrays):
        arrays = tuple(array.reshape(-1) for array in arrays)
    shape, axis, size = arrays[0].shape, arrays[0].ndim, 1
    # The axes from this one on fit into a block as they are.
    while axis and size * shape[axis - 1] <= most:
        axis -= 1
        size *= shape[axis]
    if not axis:
        yield tuple(np.ascontiguousarray(array).reshape(-1) for array in arrays)
        return
    rows = most // size
    # The axes before that are walked through one index after the other.
    for outer in np.ndindex(shape[: axis - 1]):
        for begin in range(0, shape[axis - 1], rows):
            blocks = [array[*outer, begin : begin + rows] for array in arrays]
            yield tuple(np.ascontiguousarray(block).reshape(-1) for block in blocks)


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

    def as_bytes(self, block: np.ndarray) -> np.ndarray:
        """Return a block in the counted dtype and this machine's byte order, as bytes."""
        block = np.asarray(block, self.stored)
        if self.stored.kind == "b":
            # Bools that other code has written may have any byte but 0 for True.
            block = block.view(np.uint8) != 0
        elif self.name == "float2":
            block = block.view(f"u{self.stored.itemsize}")
        counted: np.ndarray = block.astype(self.counted, copy=False)
        return counted.view(np.uint8)


@cache
def _native(kind: np.dtype) -> _Native:
    """Look up how the native module counts a dtype."""
    stored = dtype(kind).numpy
    match family(kind):
        # ONNX Runtime has no complex tensors, so that a copy to the wider dtype costs nobody much.
        case "complex":
            return _Native("complex16", stored, np.dtype(np.complex128))
        case "integer" | "bool":
            # Those that have fewer bits are copied, block by block, to integers that hold them all.
            name = dtype(kind).name
            if name in ("uint32", "int64"):
                return _Native("int8", stored, np.dtype(np.int64))
            if name == "uint64":
                return _Native("uint8", stored, stored)
            return _Native("int4", stored, np.dtype(np.int32))
    # Floats of one and two bytes have many formats, which one table of their values tells apart.
    tiny = smallest_normal(stored)
    if stored.itemsize <= 2:
        return _Native("float2", stored, np.dtype(np.uint16), tiny)
    return _Native(f"float{stored.itemsize}", stored, stored, tiny)


def _stride(count: int) -> int:
    return 1 << max(0, math.ceil(count / _SAMPLED) - 1).bit_length()


def _threads() -> int:
    # A container may give the process fewer processors than the machine has.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _facts(counts: dict[str, Any], a: np.ndarray, b: np.ndarray, kind: str) -> ArrayStats:
    """Make facts of what the native module counted."""
    shape = a.shape
    statistics: dict[str, Any] = {}
    if counts["finite"]:
        statistics = _statistics(counts, kind)
    if counts["differing"]:
        # The picture has the last axis across, and all others one below the other.
        statistics["matrix"] = (math.prod(shape[:-1]), shape[-1] if shape else 1)
        bins = np.array(counts["grid"]).view(np.int64) >> _SHIFT
        # -1 where nothing differs, as in the histogram of the sizes.
        rows = np.where(bins > 0, bins, -1).reshape(-1, counts["width"]).tolist()
        statistics["grid"] = tuple(map(tuple, rows))
    # Where all pass, the first difference is still worth a look.
    first = counts["first_over"]
    if first is None:
        first = counts["first_differing"]
    axes: list[Axis] = []
    if counts["over"] > 1:
        for axis, along in enumerate(counts["axes"]):
            if along:
                axes.append(_axis(axis, along))
    return ArrayStats(
        count=a.size,
        finite=counts["finite"],
        bits=counts["bits"],
        differing=counts["differing"],
        over=counts["over"],
        classes=_flips(counts) if kind == "bool" else _classes(counts),
        odd=counts["odd"],
        frontier=Frontier(counts["corners"], counts["at_zero"]),
        stride=_stride(a.size),
        sizes=counts["sizes"],
        ulps=counts["ulps"] if kind == "float" else {},
        worst=_worst(counts, a, b, kind),
        first=None if first is None else _index(first, shape),
        axes=tuple(axes),
        pairs=pairs_of(a, b, kind) if counts["differing"] else None,
        **statistics,
    )


def _statistics(counts: dict[str, Any], kind: str) -> dict[str, Any]:
    """Compute what there is only of finite pairs."""
    finite = counts["finite"]
    largest = counts["largest"]
    total = counts["total"]
    bias = counts["bias"]
    if kind in ("integer", "bool"):
        # The sums and the largest difference of integers are exact.
        largest = counts["whole_largest"]
        total = counts["above"] + counts["below"]
        bias = counts["above"] - counts["below"]
    statistics = {
        "largest": largest,
        "mean": total / finite,
        "rms": math.sqrt(counts["squares"] / finite),
    }
    if kind != "complex":
        statistics["bias"] = bias / finite
    if kind == "float":
        statistics["ulp"] = counts["ulp"]
    if kind == "complex":
        statistics["parts"] = counts["parts"]
    if kind != "bool":
        statistics |= _similarity(counts)
    return statistics


def _worst(counts: dict[str, Any], a: np.ndarray, b: np.ndarray, kind: str) -> tuple[Place, ...]:
    """Describe the worst elements, those without a finite difference first."""
    worst = []
    # NaN against a number is worse than any distance.
    for flat in counts["first_odd"]:
        index = _index(flat, a.shape)
        worst.append(Place(index, _text(a.flat[flat]), _text(b.flat[flat])))
    for flat, away, ulp in counts["worst"]:
        index = _index(flat, a.shape)
        worst.append(_place(index, a.flat[flat], b.flat[flat], away, ulp, kind))
    return tuple(worst[:_WORST])


def _flips(counts: dict[str, Any]) -> dict[str, int]:
    flips = {"False to True": counts["below"], "True to False": counts["above"]}
    counted = {}
    for name, count in flips.items():
        if count:
            counted[name] = count
    return counted


def _classes(counts: dict[str, Any]) -> dict[str, int]:
    classes = zip(_CLASSES, counts["classes"], strict=True)
    counted = {}
    for name, count in classes:
        if count:
            counted[name] = count
    return counted


def _axis(axis: int, along: list[int]) -> Axis:
    most = max(along)
    hit = len(along) - along.count(0)
    return Axis(axis, len(along), hit, along.index(most), most, sum(along))


def _similarity(counts: dict[str, Any]) -> dict[str, float | None]:
    squares_a = counts["left"]
    squares_b = counts["right"]
    noise = counts["squares"]
    peak = counts["peak"]
    norms = math.sqrt(squares_a) * math.sqrt(squares_b)
    similarity: dict[str, float | None] = {"peak": peak}
    if 0 < norms < math.inf:
        product = counts["product"]
        if noise < 0.01 * norms:
            # The sum of products would not show how nearly the same the two are.
            product = (squares_a + squares_b - noise) / 2
        similarity["cosine"] = max(-1.0, min(1.0, product / norms))
    if squares_a or squares_b:
        # The square of a larger peak is no float64.
        if peak < 1e150:
            signal = peak**2 * counts["finite"]
        else:
            signal = math.inf
        similarity["snr"] = _decibel(squares_b, noise)
        similarity["psnr"] = _decibel(signal, noise)
    return similarity


def _decibel(signal: float, noise: float) -> float | None:
    if not math.isfinite(signal) or not math.isfinite(noise):
        return None
    if not noise:
        return math.inf
    if not signal:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def _index(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if not shape:
        return ()
    return tuple(map(int, np.unravel_index(at, shape)))


def _place(index: tuple[int, ...], x: Any, y: Any, away: float, ulp: int, kind: str) -> Place:
    size: float
    if kind in ("integer", "bool"):
        size = abs(int(y))
    elif kind == "complex":
        size = float(abs(np.complex128(y)))
    else:
        size = abs(float(y))
    if size:
        relative = away / size
    else:
        relative = None
    return Place(index, _text(x), _text(y), away, relative, ulp if kind == "float" else None)


def _text(value: Any) -> str:
    return sanitize(str(value), 80)


# ---- strings

# So many characters are shown on each side of the first difference.
_CONTEXT = 12
# So many strings are compared between two reports of progress.
_STRINGS = 2**15


def _string_stats(a: np.ndarray, b: np.ndarray) -> ArrayStats:
    """Compare two arrays of str or bytes; a str is never equal to bytes."""
    count = 0
    first_pairs: list[tuple[int, Any, Any]] = []
    for flat, (x, y) in enumerate(zip(a.flat, b.flat, strict=True)):
        if flat % _STRINGS == _STRINGS - 1:
            advance("elements", _STRINGS)
        # Python calls no str equal to bytes, but warns about the comparison under -b.
        if isinstance(x, str) == isinstance(y, str) and x == y:
            continue
        count += 1
        # No string is worse than another: the first ones are shown.
        if len(first_pairs) < _WORST:
            first_pairs.append((flat, x, y))
    worst = [Place(_index(flat, a.shape), *_quoted(x, y)) for flat, x, y in first_pairs]
    return ArrayStats(
        a.size,
        bits=count,
        differing=count,
        over=count,
        odd=count,
        worst=tuple(worst),
        first=worst[0].index if worst else None,
    )


def _quoted(x: Any, y: Any) -> tuple[str, str]:
    """Quote two strings around the first character in which they differ, with its position."""
    if isinstance(x, str) != isinstance(y, str):
        return _cut(x, 0), _cut(y, 0)
    # Where no character differs, one string is the beginning of the other.
    position = min(len(x), len(y))
    for index, (p, q) in enumerate(zip(x, y, strict=False)):
        if p != q:
            position = index
            break
    return f"{_cut(x, position)} (differs at index {position})", _cut(y, position)


def _cut(text: Any, position: int) -> str:
    start = max(0, position - _CONTEXT)
    stop = position + _CONTEXT
    before = ""
    if start:
        before = "…"
    after = ""
    if stop < len(text):
        after = "…"
    return f"{before}{_escaped(text[start:stop])}{after}"


def _escaped(part: Any) -> str:
    """Write a string in ASCII escapes, so that strings that only look the same are seen to differ."""
    return ascii(str(part) if isinstance(part, str) else bytes(part))
