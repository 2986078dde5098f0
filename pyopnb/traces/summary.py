"""Summaries: the figures that are kept of a tensor when the tensor itself is released."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import TensorType, type_of

__all__ = ["BINS", "Summary"]

BINS = 16
"""Bars of the histogram: as many as are still told apart in one line of text."""

_BLOCK = 1 << 16  # elements; temporary arrays of that size stay in the processor's cache
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, repr=False)
class Summary:
    """The range, mean, deviation, histogram and non-finite counts of a tensor.

    Attributes
    ----------
    type : TensorType or None
        None if it is not a tensor but a sequence, a map, or an empty optional.
    kind : str
        ``"number"``, ``"text"``, ``"sequence"``, ``"map"``, ``"none"`` or ``"other"``.
    count : int
        The number of elements, or of items of a sequence or a map.
    least, greatest, mean, std : float, int, bool or None
        Of the finite elements; None if there are none. ``std`` is the population's, and is infinite
        if the squares overflow float64. For complex numbers, these are of the absolute values.
    nan, posinf, neginf : int
        The number of each. A complex number counts as NaN if one of its parts is NaN, otherwise as
        +Inf if one is infinite.
    bins : tuple of int
        How many finite elements are in each of `BINS` equal parts of least … greatest; empty if
        there are none.
    longest : str or None
        For strings, the longest one (the first of several).
    distinct : int or None
        For strings, how many different ones there are.
    """

    type: TensorType | None
    kind: str
    count: int
    least: Any = None
    greatest: Any = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    bins: tuple[int, ...] = ()
    longest: str | None = None
    distinct: int | None = None

    @classmethod
    def of(cls, value: Any) -> Summary:
        """Summarize a tensor block by block, in constant memory.

        Parameters
        ----------
        value : array, sequence or None
            A value of a run.

        Examples
        --------
        >>> summary = Summary.of(np.float32([1, 2, 3, np.nan]))
        >>> summary.least, summary.greatest, summary.mean, summary.nan
        (1.0, 3.0, 2.0, 1)
        >>> Summary.of(np.zeros((2, 3), np.int64))
        int64[2,3]  all 0
        """
        # An optional that is empty, which ONNX Runtime gives as None.
        if value is None:
            return cls(None, "none", 0)
        if isinstance(value, (list, tuple, dict)):
            return cls(None, "map" if isinstance(value, dict) else "sequence", len(value))
        if not isinstance(value, (np.ndarray, np.generic)):
            return cls(None, "other", 0)
        array = np.asarray(value)
        tensor_type = type_of(array)
        # ONNX Runtime gives strings as arrays of objects.
        if array.dtype.kind in "OUT":
            return _of_texts(array, tensor_type)
        return _of_numbers(array, tensor_type)

    def __repr__(self) -> str:
        return "  ".join(filter(None, self.cells))

    @property
    def finite(self) -> int:
        """Count the elements that are neither NaN nor infinite."""
        if self.kind == "number":
            return self.count - self.nan - self.posinf - self.neginf
        return 0

    @property
    def has_nonfinite(self) -> bool:
        """Tell whether there is a NaN or an infinity."""
        return bool(self.nan or self.posinf or self.neginf)

    @property
    def bars(self) -> str:
        """Write the histogram as text; a non-empty bar is never drawn as empty."""
        most = max(self.bins, default=0)
        text = ""
        for count in self.bins:
            height = math.ceil(count * 7 / most - 0.5) if count else 0
            text += _BARS[max(height, int(count > 0))]
        return text

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Write the summary in five texts.

        They are the type, the range or longest text, mean and deviation, the histogram, and the
        counts of numbers that are not finite.
        """
        span = spread = bars = ""
        if self.kind in ("number", "text") and not self.count:
            span = "empty"
        elif self.longest is not None:
            span = self._span_of_texts(self.longest)
        elif self.least is not None and self.least == self.greatest:
            span = f"{self.least:.6g}"
            if isinstance(self.least, bool):
                span = str(self.least)
            if not self._is_scalar:
                span = f"all {span}"
        elif self.least is not None:
            span = f"{self.least:.6g} … {self.greatest:.6g}"
            spread, bars = f"mean {self.mean:.4g}, std {self.std:.4g}", self.bars
        counts = []
        for count, label in ((self.nan, "NaN"), (self.posinf, "+Inf"), (self.neginf, "-Inf")):
            if count:
                counts.append(f"{count} {label}")
        return self._type_text, span, spread, bars, ", ".join(counts)

    @property
    def _is_scalar(self) -> bool:
        return self.type is not None and self.type.shape == ()

    @property
    def _type_text(self) -> str:
        if self.type is not None:
            return str(self.type)
        if self.kind in ("sequence", "map"):
            return f"{self.kind} of {self.count}"
        return self.kind

    def _span_of_texts(self, longest: str) -> str:
        shown = f'"{sanitize(longest, 40)}"'
        if self._is_scalar:
            return shown
        return f"{self.distinct} different, longest {len(longest)}: {shown}"

    def __str__(self) -> str:
        """Write one line: ``float32[2,3]  -1 … 2  mean 0.5, std 1  ▂▁█  1 NaN``."""
        return "  ".join(filter(None, self.cells))


def _of_texts(array: np.ndarray, kind: TensorType) -> Summary:
    texts = [str(item) for item in array.flat]
    longest = max(texts, key=len, default=None)
    return Summary(kind, "text", array.size, longest=longest, distinct=len(set(texts)))


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the elements in blocks; ml_dtypes become float32, which has all their values."""
    elements = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, _BLOCK):
        part = elements[start : start + _BLOCK]
        if array.dtype.isbuiltin == 2 or part.dtype == np.float16:
            part = part.astype(np.float32)
        elif part.dtype.kind == "c":
            part = np.abs(part)
        yield part


@dataclass
class _Tally:
    least: Any = None
    greatest: Any = None
    count: int = 0
    mean: float = 0.0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0

    def add(self, part: np.ndarray) -> None:
        finite = _finite(part)
        if finite is not part:
            self.nan += int(np.count_nonzero(np.isnan(part)))
            self.posinf += int(np.count_nonzero(part == np.inf))
            self.neginf += int(np.count_nonzero(part == -np.inf))
        if not finite.size:
            return
        least, greatest = finite.min(), finite.max()
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)
        self.count += finite.size
        with np.errstate(over="ignore"):
            mean = float(finite.mean(dtype=np.float64))
        if math.isinf(mean):  # the sum was no float64
            mean = float((finite / finite.size).sum())
        # Weighted, and not summed: the sum of all blocks can also be no float64.
        weight = finite.size / self.count
        self.mean += mean * weight - self.mean * weight


def _finite(part: np.ndarray) -> np.ndarray:
    """Return the finite elements of a block: the block itself where all are."""
    if part.dtype.kind != "f":
        return part
    with np.errstate(all="ignore"):
        # A NaN would be either of them.
        if not part.size or (np.isfinite(part.min()) and np.isfinite(part.max())):
            return part
    return np.asarray(part[np.isfinite(part)])


def _of_numbers(array: np.ndarray, kind: TensorType) -> Summary:
    tally = _Tally()
    for part in _blocks(array):
        tally.add(part)
    numbers: dict[str, Any] = {}
    if tally.count:
        std, bins = _spread(array, tally)
        numbers = {
            "least": tally.least.item(),
            "greatest": tally.greatest.item(),
            "mean": tally.mean,
            "std": std,
            "bins": bins,
        }
    return Summary(
        kind,
        "number",
        array.size,
        nan=tally.nan,
        posinf=tally.posinf,
        neginf=tally.neginf,
        **numbers,
    )


def _spread(array: np.ndarray, tally: _Tally) -> tuple[float, tuple[int, ...]]:
    """Compute the deviation and the histogram, from the range and the mean."""
    bins = np.zeros(BINS, np.int64)
    squares = 0.0
    # The distance of the largest float64 from its negative is no float64, but of their halves it
    # is.
    low = float(tally.least) / 2
    span = float(tally.greatest) / 2 - low
    for part in _blocks(array):
        wide = _finite(part).astype(np.float64)
        heights = wide / 2 - low
        # Of one value, all are in the middle; a span can be too small to have an inverse.
        heights = heights / span * BINS if span else np.full(heights.shape, BINS / 2)
        bins += np.bincount(np.minimum(heights, BINS - 1).astype(np.int64), minlength=BINS)
        with np.errstate(over="ignore"):
            wide -= tally.mean
            # np.dot's threads would compete with ONNX Runtime's, which spin for
            # a while after a run.
            wide *= wide
            squares += float(wide.sum())
    return math.sqrt(squares / tally.count), tuple(bins.tolist())
