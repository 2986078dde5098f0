"""What two arrays differ in, counted block by block: nothing that is kept grows with the arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cached_property

import numpy as np

from pyopnb.diffs.arrays.heatmap import Grid
from pyopnb.diffs.arrays.tolerance import SLACK, Growing
from pyopnb.diffs.arrays.ulp import smallest_normal, steps, widened

__all__ = ["BINS", "WORST", "ComplexTally", "FloatTally", "IntegerTally", "Tally"]

WORST = 5
"""How many of the worst elements are kept."""
BINS = 8
"""Bins of an octave in the histogram of differences."""

_ALONE = 8192  # float64 numbers that OpenBLAS leaves to one thread
_SAMPLED = 2**20  # of longer arrays at most so many elements are in the histograms
_EXACT = 4096  # shorter ones are calculated in float64 from the start
_PLACED = 10**6  # so many mismatches are placed along the axes one by one, of more a sample
_MARGIN = {4: 2.0**-20, 8: 2.0**-45}  # far more than the rounding of a bound in float32, float64
_BATCH = 2**16
_NEAR = 2.0**-48  # far less than the slack of a bound
_SHIFT = 52 - int(math.log2(BINS))

_Positions = int | np.ndarray  # of a block's elements in the whole: where it begins, or each


class Tally:
    """What is counted for every kind of number."""

    def __init__(self, kind: np.dtype, shape: tuple[int, ...], rtol: float, atol: float) -> None:
        self.kind, self.shape, self.rtol, self.atol = kind, shape, rtol, atol
        self.count = math.prod(shape)
        self.stride = 2 ** max(0, math.ceil(self.count / _SAMPLED) - 1).bit_length()
        self.bits = self.differing = self.over = self.finite = 0
        self.classes: Counter[str] = Counter()
        self.total = self.signed = self.squares = self.left = self.right = self.product = 0.0
        self.whole_total = self.whole_signed = self.largest = 0
        self.peak = 0.0
        self.ulp: int | None = None
        self.worst: list[tuple[float, int, object, object]] = []
        self.odd: list[tuple[int, object, object]] = []
        self.first_over: int | None = None
        self.first_differing: int | None = None
        self.parts = (0.0, 0.0)
        self.growing = Growing()
        self._same_before = True
        # A line that corners are above; it says nothing of |b| below the third number, nor of |a - b| above the fourth.
        self._guess = (0.0, 0.0, math.inf, 0.0)
        self._corners = (np.zeros(1), np.zeros(1))
        self._buffers: dict[tuple[str, np.dtype], np.ndarray] = {}
        self._sampled_sizes: list[np.ndarray] = []
        self._sampled_references: list[np.ndarray] = []
        self._sampled_ulps: list[np.ndarray] = []
        self._ones = np.zeros(0, np.float32)
        self.later: list[tuple[int, int]] = []

    @property
    def calm(self) -> bool:
        """Whether the last block was the same in both."""
        return self._same_before

    def again(self, x: np.ndarray) -> None:
        """Count of a block of `later` what matters only where another block differs."""

    def end(self) -> None:
        """Count what waits, and give back what only blocks needed."""
        self._count_sizes()
        self._count_ulps()
        self._buffers.clear()

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many sampled differences are in each part of an octave; index 0: none."""
        return np.zeros(2048 * BINS, np.int64)

    @cached_property
    def grid(self) -> Grid:
        """The largest difference of each field of a picture."""
        return Grid(self.shape)

    @cached_property
    def spread(self) -> Counter[tuple[int, int]]:
        """How many sampled pairs differ, by the binary exponents of the reference and of the difference."""
        return Counter()

    @cached_property
    def ulp_sizes(self) -> np.ndarray:
        """The same for ULPs: index n for those of n binary digits."""
        return np.zeros(65, np.int64)

    @cached_property
    def axes(self) -> list[np.ndarray | None]:
        """Mismatches at each index of each axis that is not too long."""
        return [np.zeros(size, np.int64) if 1 < size <= 2**16 else None for size in self.shape]

    def take(self, x: np.ndarray, y: np.ndarray, at: int) -> None:
        """Count a block: contiguous, in the machine's byte order, beginning at an element of the whole."""
        # Where blocks have been the same, bits are the cheapest to look at; where not, looking would be for nothing.
        if self._same_before and self._same_bits(x, y):
            self.same(x, at)
        else:
            self._same_before = self.unlike(x, y, at)

    def _same_bits(self, x: np.ndarray, y: np.ndarray) -> bool:
        a, b = x.view(np.uint8), y.view(np.uint8)
        if a.size % 8 == 0:
            a, b = a.view(np.uint64), b.view(np.uint64)
        return bool(np.equal(a, b, out=self._buffer("mask", np.dtype(bool), a.size)).all())

    def same(self, x: np.ndarray, at: int) -> None:
        """Count a block of which both arrays have the same bits."""
        raise NotImplementedError

    def unlike(self, x: np.ndarray, y: np.ndarray, at: int) -> bool:
        """Count a block; whether it was the same after all."""
        raise NotImplementedError

    def _buffer(self, name: str, kind: np.dtype, size: int) -> np.ndarray:
        found = self._buffers.get((name, kind))
        if found is None or found.size < size:
            found = self._buffers[name, kind] = np.empty(size, kind)
        return found[:size]

    def _zeros(self, at: _Positions, size: int) -> None:
        count = (
            len(range(-at % self.stride, size, self.stride)) if isinstance(at, int) else np.count_nonzero(at % self.stride == 0)
        )
        self.sizes[0] += count
        self.ulp_sizes[0] += count

    def _histogram(self, d: np.ndarray, b: np.ndarray, at: _Positions) -> None:
        self._sampled_references.append(_sampled(b, at, self.stride).copy())
        self._wait(self._sampled_sizes, _sampled(d, at, self.stride), self._count_sizes)

    def _paint(self, d: np.ndarray, at: _Positions, most: float) -> None:
        if isinstance(at, int):
            self.grid.add(d, at, most)
        else:
            self.grid.scatter(d, at)

    def _histogram_of_ulps(self, ulps: np.ndarray, at: _Positions) -> None:
        self._wait(self._sampled_ulps, _sampled(ulps, at, self.stride), self._count_ulps)

    def _wait(self, samples: list[np.ndarray], more: np.ndarray, count: Callable[[], None]) -> None:
        samples.append(more.copy())  # a few of each block: they are counted together
        if len(samples) * more.size >= _BATCH or len(samples) >= 64:
            count()

    def _count_sizes(self) -> None:
        samples = [one for one in self._sampled_sizes if one.size]
        if samples:
            bins = np.concatenate(samples).astype(np.float64).view(np.int64) >> _SHIFT
            least = int(bins.min())
            counted = np.bincount(bins - least)
            self.sizes[least : least + counted.size] += counted
            self._count_spread(bins)
        self._sampled_sizes.clear()
        self._sampled_references.clear()

    def _count_spread(self, bins: np.ndarray) -> None:
        b = np.concatenate([one for one in self._sampled_references if one.size])
        if self.stride > 1:  # a picture needs fewer
            b, bins = b[::4], bins[::4]
        b = b.astype(np.float64)
        unlike = bins > 0
        across, up = ((b.view(np.int64) >> 52) & 0x7FF)[unlike], (bins >> (52 - _SHIFT))[unlike]
        if not up.size:
            return
        left, low = int(across.min()), int(up.min())
        width = int(up.max()) - low + 1
        counted = np.bincount((across - left) * width + (up - low))
        for key in np.flatnonzero(counted).tolist():
            self.spread[key // width + left - 1023, key % width + low - 1023] += int(counted[key])

    def _count_ulps(self) -> None:
        if self._sampled_ulps:
            digits = np.frexp(np.concatenate(self._sampled_ulps).astype(np.float64))[1]
            counted = np.bincount(digits)  # of 64 digits rounding may make 65: no float has them
            self.ulp_sizes[: min(counted.size, 65)] += counted[:65]
        self._sampled_ulps.clear()

    def _keep_worst(self, d: np.ndarray, x: np.ndarray, y: np.ndarray, at: _Positions, most: float) -> None:
        full = len(self.worst) == WORST
        if not most or (full and most <= self.worst[-1][0]):
            return
        picked = _largest(d, WORST)
        found = [(d[i].item(), _position(at, i), x[i], y[i]) for i in picked.tolist() if d[i]]
        self.worst = sorted([*self.worst, *found], key=lambda one: (-one[0], one[1]))[:WORST]

    def _mismatch(self, where: np.ndarray, at: _Positions) -> None:
        """Note where elements are over the tolerance: their indices in the block, rising."""
        count = where.size
        if not count:
            return
        first = _position(at, int(where[0]))
        self.first_over = first if self.first_over is None else min(first, self.first_over)
        self.over += count
        if not self.shape:
            return
        step = 1 if self.over <= _PLACED else max(1, count // 512)
        picked = where[::step]
        for counts, index in zip(self.axes, np.unravel_index(_places(at, picked), self.shape), strict=True):
            if counts is not None:
                low = int(index.min())
                found = np.bincount(index - low)
                counts[low : low + found.size] += found

    def _differs(self, mask: np.ndarray, at: _Positions) -> int:
        count = int(np.count_nonzero(mask))
        if count and (self.first_differing is None or isinstance(at, np.ndarray)):
            first = _position(at, int((mask != 0).argmax()))
            self.first_differing = first if self.first_differing is None else min(first, self.first_differing)
        self.differing += count
        return count

    def _unlike_odd(self, mask: np.ndarray, x: np.ndarray, y: np.ndarray, at: _Positions) -> None:
        """Count pairs that no tolerance covers."""
        if not mask.any():
            return
        self._differs(mask, at)
        where = np.flatnonzero(mask)
        self._mismatch(where, at)
        self.grid.spoil(_places(at, where))
        found = [(_position(at, i), x[i], y[i]) for i in where[:WORST].tolist()]
        self.odd = sorted([*self.odd, *found], key=lambda one: one[0])[:WORST]

    def _measure(
        self, d: np.ndarray, t: np.ndarray, x: np.ndarray, y: np.ndarray, at: _Positions, most: float, least: float
    ) -> None:
        """Count what the sizes of differences (d) and of the reference (t) tell of finite pairs."""
        self._differs(d.view(f"u{d.itemsize}"), at)  # whole numbers are counted faster; -0.0 is not among moduli
        self._keep_worst(d, x, y, at, most)
        self._histogram(d, t, at)
        self._paint(d, at, most)
        margin = _MARGIN[d.dtype.itemsize]
        if most > self.atol * (1 - margin):
            self._mismatch(self._over(d, t, x, y, margin), at)
        self._grow(d, t, x, y, most, least, margin)

    def _exactly(
        self, x: np.ndarray, y: np.ndarray, d: np.ndarray, t: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Differences and reference at some indices, in float64."""
        if d.dtype == np.float64:
            return d[at], t[at]
        a, b = widened(x[at]).astype(np.float64), widened(y[at]).astype(np.float64)
        return np.abs(a - b), np.abs(b)

    def _over(self, d: np.ndarray, t: np.ndarray, x: np.ndarray, y: np.ndarray, margin: float) -> np.ndarray:
        bound, mask = self._buffer("bound", d.dtype, d.size), self._buffer("mask", np.dtype(bool), d.size)
        if d.dtype == np.float64:
            np.multiply(np.add(np.multiply(t, self.rtol, out=bound), self.atol, out=bound), 1 + SLACK, out=bound)
            return np.flatnonzero(np.greater(d, bound, out=mask))
        if max(self.rtol, self.atol) > 1e30:  # float32 would have its products as infinities
            where = np.flatnonzero(d)
        else:
            np.multiply(t, self.rtol * (1 - margin), out=bound)
            np.greater(d, np.add(bound, self.atol * (1 - margin), out=bound), out=mask)
            where = np.flatnonzero(mask)
            if 8 * where.size > d.size:  # too many to look at one by one: only at those near the bound
                sure = d > bound * (1 + 4 * margin)
                sure[self._surely_over(x, y, d, t, np.flatnonzero(mask & ~sure))] = True
                return np.flatnonzero(sure)
        return self._surely_over(x, y, d, t, where)

    def _surely_over(self, x: np.ndarray, y: np.ndarray, d: np.ndarray, t: np.ndarray, where: np.ndarray) -> np.ndarray:
        if not where.size:
            return where
        a, b = self._exactly(x, y, d, t, where)
        return where[a > (self.atol + self.rtol * b) * (1 + SLACK)]

    def _grow(
        self, d: np.ndarray, t: np.ndarray, x: np.ndarray, y: np.ndarray, most: float, least: float, margin: float
    ) -> None:
        if least == 0:
            self.growing.at_zero = max(self.growing.at_zero, float(self._zero_reference(d, t, x, y)))
        base, slope, below, highest = self._guess
        if math.isinf(below):
            where = None
        else:
            bound, mask = self._buffer("bound", d.dtype, d.size), self._buffer("mask", np.dtype(bool), d.size)
            np.multiply(t, slope * (1 - margin), out=bound)
            np.greater(d, np.add(bound, base * (1 - margin), out=bound), out=mask)
            if least < below:
                np.logical_or(mask, np.less(t, below * (1 + margin)), out=mask)
            if most > highest * (1 - margin):
                np.logical_or(mask, np.greater(d, highest * (1 - margin)), out=mask)
            where = np.flatnonzero(mask)
            if not where.size:
                return
        every = np.arange(d.size) if where is None and d.dtype != np.float64 else where
        dd, tt = (d, t) if every is None else self._exactly(x, y, d, t, every)
        if where is not None:  # the same in float64; who is above by mere rounding would come again and again
            left = (dd > (base + slope * tt) * (1 + _NEAR)) | (tt < below) | (dd > highest)
            dd, tt = dd[left], tt[left]
        held = np.interp(tt, *self._corners)
        positive = (tt > 0) & ((dd > np.where(np.isfinite(held), held, 0) * (1 + _NEAR)) | (dd > self._corners[1][-1]))
        if not positive.any():
            return
        if self.growing.add(tt[positive], dd[positive]) and self.count > d.size:
            self._guess = self._best_guess(d[:2048], t[:2048])
            self._corners = (np.concatenate([[0.0], self.growing.t]), np.concatenate([[0.0], self.growing.d]))

    def _zero_reference(self, d: np.ndarray, t: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        where = np.flatnonzero((t == 0) & (d > 0))
        self.classes["differs from 0"] += where.size
        return self._exactly(x, y, d, t, where[d[where] >= d[where].max() * 0.999999])[0].max() if where.size else 0.0

    def _best_guess(self, d: np.ndarray, t: np.ndarray) -> tuple[float, float, float, float]:
        """The line between two corners that the fewest points are above or, left or right of the two, not held against."""
        ts, ds = [0.0, *self.growing.t.tolist()], [0.0, *self.growing.d.tolist()]
        best, fewest, least, most = (0.0, 0.0, math.inf, 0.0), 16 * d.size + 201, t.min(), d.max()
        bound, lefts, rights = np.empty_like(d), range(0, len(ts) - 1, max(1, len(ts) // 8)), range(len(ts) - 1, 0, -1)
        for left, right in ((i, j) for j in rights[:4] for i in lefts if i < j):
            slope = (ds[right] - ds[left]) / (ts[right] - ts[left])
            base = ds[left] - slope * ts[left]
            above = np.greater(d, np.minimum(np.multiply(t, slope, out=bound) + base, ds[right]))
            # Another comparison costs about as much as so many points.
            cost = 16 * int(np.count_nonzero(above | (t < ts[left]))) + 200 * (int(least < ts[left]) + int(most > ds[right]))
            if cost < fewest and math.isfinite(slope) and (slope == 0 or 1e-30 < slope < 1e30):
                best, fewest = (base, slope, ts[left], ds[right]), cost
        return best


class FloatTally(Tally):
    """float16 to float64, bfloat16, and those of 8 and 4 bits."""

    def same(self, x: np.ndarray, at: int) -> None:
        wide = widened(x)
        if not math.isfinite(_dot(wide, wide)):
            self._finite_or_not(x, x, at)
            return
        self.finite += x.size
        self.later.append((at, x.size))
        self._zeros(at, x.size)

    def again(self, x: np.ndarray) -> None:
        wide = widened(x)
        square = _square(wide)
        self.left += square
        self.right += square
        self.product += square
        t = np.abs(wide, out=self._buffer("t", wide.dtype, wide.size))
        self.peak = max(self.peak, float(t.max()))
        self._subnormal(t, t)

    def unlike(self, x: np.ndarray, y: np.ndarray, at: int) -> bool:
        before = self.bits
        if not self._pairs(x, y, at):
            self._finite_or_not(x, y, at)
        return self.bits == before

    def _finite_or_not(self, x: np.ndarray, y: np.ndarray, at: _Positions) -> None:
        """Count what is not finite, and the rest."""
        a, b = widened(x), widened(y)
        nan_a, nan_b, inf_a, inf_b = np.isnan(a), np.isnan(b), np.isinf(a), np.isinf(b)
        like = (inf_a & inf_b) & (a == b)
        named = {
            "NaN in both": nan_a & nan_b,
            "NaN in a": nan_a & ~nan_b,
            "NaN in b": nan_b & ~nan_a,
            "the same infinity": like,
            "opposite infinities": inf_a & inf_b & ~like,
            "infinite in a": inf_a & ~inf_b & ~nan_b,
            "infinite in b": inf_b & ~inf_a & ~nan_a,
        }
        for name, mask in named.items():
            self.classes[name] += int(np.count_nonzero(mask))
        finite = ~(nan_a | nan_b | inf_a | inf_b)
        self._unlike_odd(~finite & ~(nan_a & nan_b) & ~like, x, y, at)
        payload = int(np.count_nonzero(_unequal_bits(x, y) & ~finite))
        self.bits += payload
        self.classes["NaN of other bits"] += int(np.count_nonzero(_unequal_bits(x, y) & nan_a & nan_b))
        where = np.flatnonzero(finite)
        if where.size:
            self._pairs(x[where], y[where], _places(at, where), exact=True)

    def _pairs(self, x: np.ndarray, y: np.ndarray, at: _Positions, exact: bool = False) -> bool:
        """Count finite pairs. False, with nothing counted: something here is not finite, or its sums are not."""
        a, b = widened(x), widened(y)
        if a.dtype == np.float32 and (exact or self.count <= _EXACT):
            a, b = a.astype(np.float64), b.astype(np.float64)
        d = np.subtract(a, b, out=self._buffer("d", a.dtype, a.size))
        signed = self._total(d)
        if not math.isfinite(signed):
            if not exact:
                return False
            far = np.isinf(d)
            if far.any():
                self.classes["farther apart than float64 reaches"] += int(np.count_nonzero(far))
                self._unlike_odd(far, x, y, at)
                self.bits += int(np.count_nonzero(far))
                near = np.flatnonzero(~far)
                return not near.size or self._pairs(x[near], y[near], _places(at, near), exact=True)
        squares = [_square(a), _square(b)]
        np.abs(d, out=d)
        most = float(d.max())
        self.finite += d.size
        self.signed += signed
        self.left += squares[0]
        self.right += squares[1]
        t = np.abs(b, out=self._buffer("t", b.dtype, b.size))
        self.peak = max(self.peak, float(t.max()))
        least = float(t.min())
        if least < self._tiny + most:  # else |a|, too, is far from the subnormals
            self._subnormal(a, t)
        before = self.differing
        if most == 0:
            self._zeros(at, d.size)
            self.product += sum(squares) / 2
        else:
            self.total += self._total(d)
            square = _square(d)
            self.squares += square
            # Of vectors that are far apart the difference does not tell the angle.
            self.product += sum(squares) / 2 - square / 2 if square < 0.01 * min(squares) else _product(a, b)
            self._measure(d, t, x, y, at, most, least)
            self._steps(x, y, d, at, least > most)
        unlike = self.differing - before
        if unlike < d.size and least == 0:  # of no others than zeros can the bits differ and the values not
            bits = int(np.count_nonzero(_unequal_bits(x, y)))
            self.bits += bits
            self.classes["0.0 against -0.0"] += bits - unlike
        else:
            self.bits += unlike
        return True

    def _steps(self, x: np.ndarray, y: np.ndarray, d: np.ndarray, at: _Positions, one_sign: bool) -> None:
        """Count ULPs; 0.0 and -0.0 are no difference here, though they are one step of those between other numbers."""
        if x.dtype.itemsize < 4:
            ulps = steps(x, y, *(self._buffer(name, np.dtype(np.int32), x.size) for name in "ijk"))
            ulps[d == 0] = 0
        else:
            # Of one sign, bits are in the order of the values, up or down, and their distance fits.
            i, j = x.view(f"i{x.dtype.itemsize}"), y.view(f"i{x.dtype.itemsize}")
            ulps = np.subtract(i, j, out=self._buffer("i", i.dtype, i.size))
            ulps = np.abs(ulps, out=ulps).view(f"u{i.itemsize}")
            signs = None if one_sign else np.bitwise_xor(i, j, out=self._buffer("j", i.dtype, i.size))
            if signs is not None and signs.min() < 0:
                across = np.flatnonzero(signs < 0)
                ulps[across] = np.where(d[across] == 0, 0, steps(x[across], y[across]))
        self.ulp = max(self.ulp or 0, int(ulps.max()))
        self._histogram_of_ulps(ulps, at)

    def _total(self, values: np.ndarray) -> float:
        if self._ones.size < values.size or self._ones.dtype != values.dtype:
            self._ones = np.ones(values.size, values.dtype)
        return _dot(values, self._ones[: values.size])  # half the time of a sum

    def _subnormal(self, a: np.ndarray, t: np.ndarray) -> None:
        for name, sizes in (("subnormal in a", np.abs(a, out=self._buffer("bound", a.dtype, a.size))), ("subnormal in b", t)):
            few = sizes[sizes < self._tiny]
            if few.size:
                self.classes[name] += int(np.count_nonzero(few))

    @cached_property
    def _tiny(self) -> float:
        return smallest_normal(self.kind)


class ComplexTally(Tally):
    """complex64 and complex128: the size of a difference is its modulus."""

    def same(self, x: np.ndarray, at: int) -> None:
        self.unlike(x, x, at)

    def unlike(self, x: np.ndarray, y: np.ndarray, at: int) -> bool:
        a, b = x.astype(np.complex128), y.astype(np.complex128)
        finite = np.isfinite(a) & np.isfinite(b)
        bits = _unequal_bits(x, y)
        self.bits += int(np.count_nonzero(bits))
        d = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
        odd = ~finite & ~(_alike(a.real, b.real) & _alike(a.imag, b.imag))
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        for name, mask in (("NaN in both", nan_a & nan_b), ("NaN in a", nan_a & ~nan_b), ("NaN in b", nan_b & ~nan_a)):
            self.classes[name] += int(np.count_nonzero(mask))
        self.classes["infinities that differ"] += int(np.count_nonzero(odd & ~nan_a & ~nan_b))
        far = np.isinf(d)
        self.classes["farther apart than float64 reaches"] += int(np.count_nonzero(far))
        self._unlike_odd(odd | far, x, y, at)
        self.classes["0.0 against -0.0"] += int(np.count_nonzero(bits & finite & (d == 0)))
        where = np.flatnonzero(finite & ~far)
        a, b, d = a[where], b[where], d[where]
        self.finite += d.size
        if not d.size:
            return False
        away = a - b
        self.parts = (max(self.parts[0], float(np.abs(away.real).max())), max(self.parts[1], float(np.abs(away.imag).max())))
        self.left += _dot(a.view(np.float64), a.view(np.float64))
        self.right += _dot(b.view(np.float64), b.view(np.float64))
        self.product += _dot(a.view(np.float64), b.view(np.float64))
        self.total += float(d.sum())
        self.squares += _dot(d, d)
        t = np.abs(b)
        t[np.isinf(t)] = np.finfo(np.float64).max  # the modulus of a number whose parts are near the end of the range
        self.peak = max(self.peak, float(t.max()))
        self._measure(d, t, x[where], y[where], at + where, float(d.max()), float(t.min()))
        return False


class IntegerTally(Tally):
    """Integers and bools: exact, whatever their width."""

    def same(self, x: np.ndarray, at: int) -> None:
        self.finite += x.size
        self.later.append((at, x.size))
        self._zeros(at, x.size)

    def again(self, x: np.ndarray) -> None:
        self._squares(x, x)

    def unlike(self, x: np.ndarray, y: np.ndarray, at: int) -> bool:
        a, b = _whole(x), _whole(y)
        # Of numbers at the two ends the difference needs the sign's bit: as an unsigned number it is exact.
        d = (np.maximum(a, b) - np.minimum(a, b)).view(f"u{a.itemsize}")
        most = int(d.max())
        self.finite += d.size
        self._squares(a, b)
        unequal = d != 0
        count = self._differs(unequal, at)
        self.bits += count
        if not count:
            self._zeros(at, d.size)
            return True
        self.largest = max(self.largest, most)
        up = a > b
        above, below = _sum(d[up]), _sum(d[~up])
        self.whole_total += above + below
        self.whole_signed += above - below
        self.squares += _square(d.astype(np.float64))
        self._keep_worst(d, x, y, at, most)
        self._histogram(d, b, at)
        self._paint(d, at, most)
        if self.kind.kind == "b":
            self.classes["False to True"] += int(np.count_nonzero(y & ~x))
            self.classes["True to False"] += int(np.count_nonzero(x & ~y))
        allowed = 0 if self.kind.kind == "b" else int(min(self.atol, 2.0**65))
        self._mismatch(np.flatnonzero(d > allowed) if most > allowed else np.zeros(0, np.intp), at)
        return False

    def _squares(self, a: np.ndarray, b: np.ndarray) -> None:
        if self.kind.kind == "b" or not a.size:
            return
        left = _whole(a).astype(np.float64)
        right = left if a is b else _whole(b).astype(np.float64)
        self.left += _dot(left, left)
        self.right += _dot(right, right)
        self.product += _dot(left, right)
        self.peak = max(self.peak, float(np.abs(right).max()))


def _whole(block: np.ndarray) -> np.ndarray:
    if block.dtype == bool:
        return block.view(np.uint8)
    if block.dtype.kind == "V":  # int4 and its kind
        return block.astype(np.int8)
    return block


def _sum(d: np.ndarray) -> int:
    if d.dtype.itemsize < 8:
        return int(d.sum(dtype=np.uint64))
    return (int((d >> np.uint64(32)).sum()) << 32) + int((d & np.uint64(0xFFFFFFFF)).sum())


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of products, by one thread.

    OpenBLAS shares more than 10,000 float64 among threads, and waits for them: of blocks this size that wins nothing, and where
    other programs keep the cores busy it was measured to cost a thousand times what the products do.
    """
    if a.dtype != np.float64 or a.size <= _ALONE:
        return float(np.dot(a, b))
    return sum(float(np.dot(a[at : at + _ALONE], b[at : at + _ALONE])) for at in range(0, a.size, _ALONE))


def _square(values: np.ndarray) -> float:
    return _product(values, values)


def _product(a: np.ndarray, b: np.ndarray) -> float:
    found = _dot(a, b)
    if a.dtype == np.float32 and not 1e-30 < abs(found) < 1e38:  # out of the range where float32 sums are good
        return _dot(a.astype(np.float64), b.astype(np.float64))
    return found


def _alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _unequal_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    size = x.dtype.itemsize
    if size <= 8 and x.dtype.kind != "c":
        return np.asarray(x.view(f"u{size}") != y.view(f"u{size}"))
    half = f"u{size // 2}"
    return np.asarray((x.view(half) != y.view(half)).reshape(-1, 2).any(axis=1))


def _places(at: _Positions, where: np.ndarray) -> np.ndarray:
    return np.asarray(at + where if isinstance(at, int) else at[where])


def _position(at: _Positions, index: int) -> int:
    return at + index if isinstance(at, int) else int(at[index])


def _sampled(values: np.ndarray, at: _Positions, stride: int) -> np.ndarray:
    if stride == 1:
        return values
    return values[-at % stride :: stride] if isinstance(at, int) else values[at % stride == 0]


def _largest(d: np.ndarray, count: int) -> np.ndarray:
    """Indices of the largest, of equal ones the first."""
    if d.size <= count:
        return np.arange(d.size)
    least = np.partition(d, d.size - count)[d.size - count]
    above = np.flatnonzero(d > least)
    return np.concatenate([above, np.flatnonzero(d == least)[: count - above.size]])
