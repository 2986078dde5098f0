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
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.arrays.ulp import smallest_normal, tabulate
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import sanitize
from pyopnb.ops.progress import advance

__all__ = ["ArrayStats", "Axis", "LazyStats", "Place", "array_stats", "family", "quick_stats", "scale_of"]

_WORST = 5  # elements that are kept
_SAMPLED = 2**20  # of longer arrays at most so many elements are in the histograms
_CHUNKS = 64  # between which an interrupt is seen and progress told; elements of one, and what may be copied:
_LEAST, _MOST, _COPIED = 2**17, 2**22, 2**18
_SHARED = 2**16  # more are shared between threads
_SHORT = 4096
_SHIFT = 49  # from the bits of a float64 to its eighth of an octave


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
    return "complex" if name.startswith("complex") else "integer" if name.lstrip("u").startswith("int") else "float"


def array_stats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, chunk: int | None = None) -> ArrayStats:
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
    kind = family(a.dtype)
    if kind == "string":
        return _string_stats(a, b)
    return _facts(_count(a, b, kind, rtol, atol, _stride(a.size), chunk).result(), a, b, kind)


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
        """Make the facts.

        Returns
        -------
        ArrayStats
        """
        return array_stats(self.a, self.b, self.rtol, self.atol)


def quick_stats(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> LazyStats | ArrayStats:
    """Compare two arrays as `array_stats` does, and put off what short ones need not have for their verdict.

    Returns
    -------
    LazyStats or ArrayStats
    """
    kind = family(a.dtype)
    if kind == "string" or a.size > _SHORT:
        return array_stats(a, b, rtol, atol)
    a, b = a.copy(), b.copy()
    return LazyStats(a, b, rtol, atol, *_count(a, b, kind, rtol, atol, stride=0).totals())


def scale_of(b: np.ndarray) -> float:
    """The largest finite ``|b|``; 0 where there is none. Block by block, in constant memory.

    Examples
    --------
    >>> scale_of(np.float16([1, -3, np.nan, np.inf])), scale_of(np.zeros(0))
    (3.0, 0.0)
    """
    largest = 0.0
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    for (block,) in _blocks((b,), _SHARED):
        sizes = np.abs(block.astype(wide))
        largest = max(largest, float(sizes.max(initial=0.0, where=np.isfinite(sizes))))
    return largest


def _count(
    a: np.ndarray, b: np.ndarray, kind: str, rtol: float, atol: float, stride: int, chunk: int | None = None
) -> _stats.Stats:
    stored, counted, name, tiny = _native(a.dtype)
    tables = tabulate(stored) if name in ("float1", "float2") else (b"", b"")
    stats = _stats.Stats(name, a.shape, rtol, 0.0 if kind == "bool" else atol, stride, tiny, *tables)
    plain = all(array.flags.c_contiguous and array.dtype == counted for array in (a, b))
    chunk = chunk or min(max(a.size // _CHUNKS, _LEAST), _MOST if plain else _COPIED)
    at = 0
    for pair in _blocks((a, b), chunk):
        left, right = (np.asarray(block, stored).astype(counted, copy=False) for block in pair)
        if kind == "bool":
            left, right = _zeros_and_ones(left), _zeros_and_ones(right)
        stats.add(left.view(np.uint8), right.view(np.uint8), at, _threads() if left.size > _SHARED else 1)
        at += left.size
        advance("elements", left.size)
    return stats


def _zeros_and_ones(bools: np.ndarray) -> np.ndarray:
    """The bytes, each True as 1: where other code has written them, any byte but 0 is True to NumPy."""
    numbers = bools.view(np.uint8)
    return numbers if numbers.max(initial=0) <= 1 else (numbers != 0).view(np.uint8)


def _blocks(arrays: tuple[np.ndarray, ...], most: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Cut arrays of one shape into flat blocks of at most so many elements, one after the other in C order.

    Of what is in another order in memory a block is a copy: of as many rows as fit, so that what is near in memory is copied
    together.
    """
    if all(array.flags.c_contiguous for array in arrays):
        arrays = tuple(array.reshape(-1) for array in arrays)
    shape, whole, inner = arrays[0].shape, arrays[0].ndim, 1
    while whole and inner * shape[whole - 1] <= most:  # the axes from here on fit into a block as they are
        whole -= 1
        inner *= shape[whole]
    if not whole:
        yield tuple(np.ascontiguousarray(array).reshape(-1) for array in arrays)
        return
    rows = most // inner
    for outer in np.ndindex(shape[: whole - 1]):
        for begin in range(0, shape[whole - 1], rows):
            yield tuple(np.ascontiguousarray(array[*outer, begin : begin + rows]).reshape(-1) for array in arrays)


@cache
def _native(kind: np.dtype) -> tuple[np.dtype, np.dtype, str, float]:
    """Give the dtype in this machine's byte order, the one that is counted, its name there, and its smallest normal number."""
    stored = dtype(kind).numpy
    counted = np.dtype(np.int8) if family(kind) == "integer" and stored.kind == "V" else stored  # int4 and its kind
    name = {"b": "uint", "i": "int", "u": "uint", "c": "complex"}.get(counted.kind, "float")
    return stored, counted, f"{name}{counted.itemsize}", smallest_normal(stored) if name == "float" else 0.0


def _stride(count: int) -> int:
    return 1 << max(0, math.ceil(count / _SAMPLED) - 1).bit_length()


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _facts(counts: dict[str, Any], a: np.ndarray, b: np.ndarray, kind: str) -> ArrayStats:
    shape, finite, exact = a.shape, counts["finite"], kind in ("integer", "bool")
    statistics: dict[str, Any] = {}
    if finite:
        total, bias = ("whole_total", "whole_bias") if exact else ("total", "bias")
        statistics["largest"] = counts["whole_largest" if exact else "largest"]
        statistics["mean"], statistics["rms"] = counts[total] / finite, math.sqrt(counts["squares"] / finite)
        statistics["bias"] = None if kind == "complex" else counts[bias] / finite
        statistics["ulp"] = counts["ulp"] if kind == "float" else None
        statistics["parts"] = counts["parts"] if kind == "complex" else None
        if kind != "bool":
            statistics |= _similarity(counts)
    if counts["differing"]:
        statistics["matrix"] = (math.prod(shape[:-1]), shape[-1] if shape else 1)
        statistics["grid"] = counts["grid"]
    first = counts["first_over"] if counts["first_over"] is not None else counts["first_differing"]
    odd = [Place(_index(at, shape), _text(a.flat[at]), _text(b.flat[at])) for at in counts["first_odd"]]
    worst = [_place(_index(at, shape), a.flat[at], b.flat[at], away, ulp, kind) for at, away, ulp in counts["worst"]]
    return ArrayStats(
        count=a.size,
        finite=finite,
        bits=counts["bits"],
        differing=counts["differing"],
        over=counts["over"],
        classes=_flips(counts) if kind == "bool" else counts["classes"],
        odd=counts["odd"],
        frontier=Frontier(counts["corners"], counts["at_zero"]),
        stride=_stride(a.size),
        sizes=counts["sizes"],
        spread=counts["spread"],
        ulps=counts["ulps"] if kind == "float" else {},
        worst=tuple([*odd, *worst][:_WORST]),
        first=None if first is None else _index(first, shape),
        axes=tuple(Axis(*axis) for axis in counts["axes"]) if counts["over"] > 1 else (),
        **statistics,
    )


def _flips(counts: dict[str, Any]) -> dict[str, int]:
    total, bias = counts["whole_total"], counts["whole_bias"]
    flips = {"False to True": (total - bias) // 2, "True to False": (total + bias) // 2}
    return {name: count for name, count in flips.items() if count}


def _similarity(counts: dict[str, Any]) -> dict[str, float | None]:
    left, right, noise, peak = counts["left"], counts["right"], counts["squares"], counts["peak"]
    norms = math.sqrt(left) * math.sqrt(right)
    found: dict[str, float | None] = {"peak": peak}
    if 0 < norms < math.inf:
        # Where both are nearly the same, the sum of products would not show how nearly; where not, the difference.
        product = (left + right - noise) / 2 if noise < 0.01 * norms else counts["product"]
        found["cosine"] = max(-1.0, min(1.0, product / norms))
    if left or right:
        found["snr"] = _decibel(right, noise)
        found["psnr"] = _decibel(peak**2 * counts["finite"] if peak < 1e150 else math.inf, noise)
    return found


def _decibel(signal: float, noise: float) -> float | None:
    if not math.isfinite(signal) or not math.isfinite(noise):
        return None
    return math.inf if not noise else -math.inf if not signal else 10 * (math.log10(signal) - math.log10(noise))


def _index(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(at, shape))) if shape else ()


def _place(index: tuple[int, ...], x: Any, y: Any, away: float, ulp: int, kind: str) -> Place:
    size: float = (
        abs(int(y)) if kind in ("integer", "bool") else float(abs(np.complex128(y))) if kind == "complex" else abs(float(y))
    )
    return Place(index, _text(x), _text(y), away, away / size if size else None, ulp if kind == "float" else None)


def _text(value: Any) -> str:
    return sanitize(str(value), 80)


# ---- strings -----------------------------------------------------------------------------------------------------------------

_CONTEXT = 12  # characters on each side of the first difference
_STRINGS = 2**15  # between two reports of progress


def _string_stats(a: np.ndarray, b: np.ndarray) -> ArrayStats:
    """Compare two arrays of str or bytes; a str is never equal to bytes."""
    count = 0
    first_pairs: list[tuple[int, Any, Any]] = []
    for at, (x, y) in enumerate(zip(a.flat, b.flat, strict=True)):
        if at % _STRINGS == _STRINGS - 1:
            advance("elements", _STRINGS)
        if not _equal_string_stats(x, y):
            count += 1
            if len(first_pairs) < _WORST:
                first_pairs.append((at, x, y))
    worst = tuple(Place(_index(at, a.shape), *_quoted(x, y)) for at, x, y in first_pairs)
    first = worst[0].index if worst else None
    return ArrayStats(a.size, bits=count, differing=count, over=count, odd=count, worst=worst, first=first)


def _equal_string_stats(x: Any, y: Any) -> bool:
    return isinstance(x, str) == isinstance(y, str) and bool(x == y)


def _quoted(x: Any, y: Any) -> tuple[str, str]:
    """Both strings around the first character in which they differ, with its position."""
    if isinstance(x, str) != isinstance(y, str):
        return _cut(x, 0), _cut(y, 0)
    position = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
    return f"{_cut(x, position)} (differs at index {position})", _cut(y, position)


def _cut(text: Any, at: int) -> str:
    begin = max(0, at - _CONTEXT)
    part = text[begin : at + _CONTEXT]
    return f"{'…' if begin else ''}{_escaped(part)}{'…' if at + _CONTEXT < len(text) else ''}"


def _escaped(part: Any) -> str:
    """A string in ASCII escapes, so that strings that only look the same are seen to differ."""
    return ascii(str(part) if isinstance(part, str) else bytes(part))
