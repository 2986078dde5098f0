"""Arrays as pictures: heat maps of a matrix or of the slices of a stack, and photographs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pyopnb.display.svg.cells import SPECIAL
from pyopnb.display.svg.chart import Chart, abreast, heat_maps, size_on_page
from pyopnb.display.svg.colours import Scale
from pyopnb.display.svg.pool import Pooling, pool
from pyopnb.display.svg.shapes import Cells
from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize
from pyopnb.traces.summary import Summary

__all__ = ["Look", "Picture", "looks_like_photographs", "picture_of", "squeeze", "to_native"]

_SIDE, _SHEET, _WIDEST = (
    256,
    448,
    960,
)  # pixels of a picture, of slices side by side, and of these where ``size`` is asked for
_FEWEST, _MOST_SLICES = 16, 64
_SMALLEST_PHOTOGRAPH = 8  # pixels along each side
_MOST_RINGS = 3
_SAMPLE = 2**16
_OUTLIER = 4.0  # times what 98 % of all numbers are at most
_ENCODED = 1.8  # bytes in the page of a byte of PNG: it is base64 in an SVG that is base64


@dataclass(frozen=True)
class Look:
    """How an array is drawn, as far as the caller says; see `pyopnb.show`."""

    rgb: bool | None = None
    pool: Pooling | None = None
    size: int | None = None
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.pool not in (None, "mean", "nearest", "largest"):
            raise _refusal("pool", '"mean", "nearest" or "largest"', self.pool)
        if self.size is not None and (
            not isinstance(self.size, (int, np.integer)) or not 1 <= self.size <= 4096
        ):
            raise _refusal("size", "pixels of the longer side, 1 to 4096", self.size)
        if self.limits is not None:
            try:
                low, high = map(float, self.limits)
            except (TypeError, ValueError):
                raise _refusal("limits", "(low, high)", self.limits) from None
            if not low < high or not math.isfinite(high - low):
                raise _refusal("limits", "(low, high) with low < high", self.limits)
            object.__setattr__(self, "limits", (low, high))

    @property
    def is_default(self) -> bool:
        return self == Look()

    def fitting(self, value: np.ndarray) -> Look:
        """The same for an array that perhaps cannot be a photograph."""
        return replace(self, rgb=None) if self.rgb and _channel_axis(value) is None else self


def _refusal(option: str, expected: str, got: Any) -> InputError:
    return InputError(f"show, {option}", expected=expected, got=sanitize(repr(got)))


@dataclass(frozen=True)
class Picture:
    """Matrices of one shape with what their colours mean.

    Attributes
    ----------
    matrices : sequence of ndarray
        float64[rows, columns]; without a scale uint8[rows, columns, 3] or 4.
    names : sequence of str
    scale : Scale or None
    title, caption : str
    size : (float, float)
        Of each on the page.
    in_row : int
    marks : sequence of (int, float, float)
    words : dict or None
    """

    matrices: Sequence[np.ndarray]
    names: Sequence[str]
    scale: Scale | None
    title: str
    caption: str
    size: tuple[float, float]
    in_row: int
    marks: Sequence[tuple[int, float, float]] = ()
    words: dict[str, float] | None = None

    @cached_property
    def plain(self) -> Chart:
        """It as a chart without title and caption."""
        return self._chart("", "")

    @cached_property
    def titled(self) -> Chart:
        return self._chart(self.title, self.caption)

    @property
    def is_diverging(self) -> bool:
        return self.scale is not None and self.scale.kind == "diverging" and not self.words

    def _chart(self, title: str, below: str) -> Chart:
        return heat_maps(
            self.matrices,
            self.names,
            self.scale,
            title,
            size=self.size,
            in_row=self.in_row,
            below=below,
            marks=self.marks,
            words=self.words,
        )


def squeeze(value: np.ndarray) -> np.ndarray:
    """The array without axes of length 1, but with at least one axis."""
    return value.reshape([size for size in value.shape if size != 1] or [1])


def to_native(block: np.ndarray) -> np.ndarray:
    """A block in a dtype of NumPy's own, which can be ordered; complex numbers become their modulus."""
    if block.dtype.kind == "c":
        with np.errstate(all="ignore"):
            modulus: np.ndarray = np.abs(block)
        modulus[np.isnan(block)] = np.nan  # otherwise the modulus of Inf+NaNj is Inf
        return modulus
    if block.dtype == np.float16 or (block.dtype.isbuiltin == 2 and "float" in block.dtype.name):
        with np.errstate(invalid="ignore"):  # a NaN that signals
            return block.astype(np.float32)
    return block.astype(np.int8) if block.dtype.isbuiltin == 2 or block.dtype == bool else block


def picture_of(
    value: np.ndarray, summary: Summary, look: Look, most_bytes: int, name: str = ""
) -> Picture:
    """The picture of an array, in as many cells as fit into so many bytes of a page.

    Parameters
    ----------
    value : ndarray
    summary : Summary
    look : Look
    most_bytes : int
    name : str

    Returns
    -------
    Picture

    Raises
    ------
    InputError
        The array has no numbers, or is asked to be a photograph and cannot be one.
    """
    if summary.kind != "number" or not summary.count:
        raise InputError(
            "show",
            expected="an array of numbers that is not empty",
            got=str(summary.type or summary.kind),
        )
    title = (
        f"{name + ': ' if name else ''}{'|x|, ' if value.dtype.kind == 'c' else ''}{summary.type}"
    )
    axis = _channel_axis(value)
    if look.rgb and axis is None:
        expected = "3 or 4 channels as the last axis, or before the last two"
        raise InputError(
            "show, rgb",
            expected=expected,
            got=str(summary.type),
            next="rgb=False, or np.stack([…], axis=-1)",
        )
    if axis is not None and (
        looks_like_photographs(value, summary) if look.rgb is None else look.rgb
    ):
        return _photographs(value, axis, summary, look, title, most_bytes)
    if look.rgb is False and axis == -1:
        value = np.moveaxis(value, -1, -3)
    return _HeatMaps(value, summary, look, title).picture(most_bytes)


@dataclass(frozen=True)
class _Sheet:
    """How matrices of a shape are placed: how many of ``count``, how large each, in what rows."""

    shape: tuple[int, int]
    count: int
    drawn: int
    in_row: int
    width: float
    height: float
    to_scale: bool

    def fit(self, most_bytes: int, make: Callable[[int, int], Picture]) -> Picture:
        """What ``make`` makes of so many rows and columns, of no more than the page has pixels and as many as fit."""
        share = 1.0
        while True:
            sides = zip(self.shape, (self.height, self.width), strict=True)
            rows, columns = (max(1, min(side, round(pixels * share))) for side, pixels in sides)
            picture = make(rows, columns)
            cells = [shape for shape in picture.plain.shapes if isinstance(shape, Cells)]
            size = sum(len(one.png) for one in cells) * _ENCODED
            if size <= most_bytes or rows * columns == 1:
                return picture
            share = min(share, rows / self.height, columns / self.width) * min(
                0.9, 0.97 * math.sqrt(most_bytes / size)
            )

    def caption(self, rows: int, columns: int, what: str, cell: str, pooled: str) -> str:
        """How the picture differs from all elements in their own proportions."""
        down, across = self.shape[0] / rows, self.shape[1] / columns
        few = f"{self.drawn} of {self.count:,} {what}. " if self.drawn < self.count else ""
        few += f"A {cell} is {pooled} {down:.3g} × {across:.3g}. " if down * across > 1 else ""
        return f"{few}{'' if self.to_scale else 'The sides are not to scale.'}".strip()


def _sheet_of(shape: tuple[int, int], count: int, size: int | None) -> _Sheet:
    drawn = min(count, max(_FEWEST, min(_MOST_SLICES, 2**16 // (shape[0] * shape[1]))))
    in_row = abreast(drawn, shape)
    is_square = max(shape) <= 8 * min(shape)
    side = _SIDE if count == 1 and is_square else _SHEET // in_row
    width, height, to_scale = size_on_page(shape, size or max(40, side))
    if size is not None:
        factor = size / max(width, height)
        width, height = width * factor, height * factor
        in_row = max(1, min(drawn, int(_WIDEST // (width + 8))))
    return _Sheet(shape, count, drawn, in_row, width, height, to_scale)


# ---- heat maps


class _HeatMaps:
    """A matrix, or the slices of a stack, in few cells."""

    def __init__(self, value: np.ndarray, summary: Summary, look: Look, title: str) -> None:
        self._value, self._summary, self._look, self._title = value, summary, look, title
        stack = squeeze(value)
        self._stack = stack = stack.reshape((1,) * (3 - stack.ndim) + stack.shape)
        rows, columns = stack.shape[-2:]
        self._sheet = _sheet_of((rows, columns), math.prod(stack.shape[:-2]), look.size)
        self._indices = [
            np.unravel_index(at, stack.shape[:-2])
            for at in _select_slices(stack, self._sheet.drawn)
        ]
        # The mean of two ids would be another id.
        ids = value.dtype.kind in "iu" and value.dtype.itemsize >= 4
        self._pooling: Pooling = look.pool or ("nearest" if ids else "mean")

    def picture(self, most_bytes: int) -> Picture:
        return self._sheet.fit(most_bytes, self._of_cells)

    def _of_cells(self, rows: int, columns: int) -> Picture:
        matrices = [
            pool(self._stack[at], rows, columns, self._pooling, to_native) for at in self._indices
        ]
        if self._pooling == "nearest" and self._summary.has_nonfinite:  # which is never left out
            for at, matrix in zip(self._indices, matrices, strict=True):
                largest = pool(self._stack[at], rows, columns, "largest", to_native)
                np.copyto(matrix, largest, where=~np.isfinite(largest))
        is_bool = self._value.dtype == bool
        words = {
            "mean": "the share of True in" if is_bool else "the mean of",
            "nearest": "one of",
            "largest": "the largest of",
        }
        caption = self._sheet.caption(rows, columns, "slices", "cell", words[self._pooling])
        if is_bool and self._look.limits is None:
            negative = [-matrix for matrix in matrices]  # True is blue
            scale = Scale(-1, 1, kind="diverging")
            return self._picture(negative, scale, caption, words={"False": 0.0, "True": -1.0})
        end, is_outlier = self._end(matrices)
        marks, ringed = self._marks(matrices, is_outlier)
        caption = f"Ringed: {', '.join(ringed)}. {caption}".strip() if ringed else caption
        return self._picture(matrices, self._scale(end), caption, marks=marks)

    def _picture(
        self, matrices: Sequence[np.ndarray], scale: Scale, caption: str, **options: Any
    ) -> Picture:
        names = [",".join(map(str, index)) for index in self._indices]
        sheet = self._sheet
        return Picture(
            matrices,
            names,
            scale,
            self._title,
            caption,
            (sheet.width, sheet.height),
            sheet.in_row,
            **options,
        )

    # ---- colours

    def _end(self, matrices: Sequence[np.ndarray]) -> tuple[float, bool]:
        """The magnitude of the last colour, and whether there is an outlier, which must not make all others look like 0."""
        extreme = max(abs(float(self._summary.least or 0)), abs(float(self._summary.greatest or 0)))
        sample = np.abs(_sample(self._value))
        typical = _quantile(sample)
        is_outlier = 0 < _OUTLIER * typical < extreme
        if self._is_light and self._pooling != "largest":
            return 1.5 * typical if is_outlier else extreme, is_outlier
        drawn = np.abs(np.concatenate([matrix.ravel() for matrix in matrices]))
        drawn = drawn[np.isfinite(drawn)]
        high, typical = float(drawn.max(initial=0)), _quantile(drawn)
        return 1.5 * typical if 0 < _OUTLIER * typical < high else high, is_outlier

    @property
    def _is_light(self) -> bool:
        """Whether no number is negative, so that they look like light."""
        return (
            self._summary.least is not None
            and self._summary.least >= 0
            and self._value.dtype.kind != "c"
        )

    def _scale(self, end: float) -> Scale:
        if self._look.limits is not None:
            low, high = self._look.limits
            return Scale(low, high, kind="diverging" if low == -high else "grey")
        if self._value.dtype.kind == "c":
            return Scale(0.0, end)
        least = float(self._summary.least or 0)
        return (
            Scale(least if least > end / 2 else 0.0, end, kind="grey")
            if self._is_light
            else Scale(-end, end, kind="diverging")
        )

    def _marks(
        self, matrices: Sequence[np.ndarray], is_outlier: bool
    ) -> tuple[list[tuple[int, float, float]], list[str]]:
        """Rings around a few cells that are easily missed, and what they are."""
        marks = [
            (k, row + 0.5, column + 0.5)
            for k, matrix in enumerate(matrices)
            for row, column in np.argwhere(~np.isfinite(matrix))[: _MOST_RINGS + 1]
        ]
        marks = marks if len(marks) <= _MOST_RINGS else []  # many are visible without rings
        ringed = ["what is not finite"] if marks else []
        if is_outlier and self._look.limits is None:
            extremes = (self._summary.least, self._summary.greatest)
            ringed.insert(0, f"{max(extremes, key=abs):.4g}")
            marks.append(self._farthest(matrices[0].shape))
        return marks, ringed

    def _farthest(self, shape: tuple[int, ...]) -> tuple[int, float, float]:
        """Where among the cells the number is that is farthest from 0."""
        far = [
            np.abs(pool(self._stack[at], shape[0], shape[1], "largest", to_native))
            for at in self._indices
        ]
        far = [np.where(np.isfinite(one), one, 0) for one in far]
        first = int(np.argmax([one.max() for one in far]))
        row, column = np.unravel_index(int(far[first].argmax()), shape)
        return first, row + 0.5, column + 0.5


def _sample(value: np.ndarray) -> np.ndarray:
    """The finite ones of some elements."""
    step = value.size // _SAMPLE
    while step > 1 and math.gcd(step, value.shape[-1]) > 1:  # not always the same column
        step += 1
    flat = value.reshape(-1) if value.flags.c_contiguous else value.flat
    numbers = to_native(np.asarray(flat[:: max(1, step)])).astype(np.float64)
    return numbers[np.isfinite(numbers)]


def _quantile(sizes: np.ndarray) -> float:
    return float(np.quantile(sizes, 0.98)) if sizes.size else 0.0


def _select_slices(stack: np.ndarray, most: int) -> list[int]:
    """The first slices of a stack, and that with the largest number, found by bisection into 256 groups."""
    count = math.prod(stack.shape[:-2])
    first = list(range(min(count, most)))
    if (
        count <= most or not stack.flags.c_contiguous
    ):  # finding it in another memory order would take a copy
        return first
    flat, at = stack.reshape(count, -1), 0
    while flat.shape[0] > 1:
        largest = pool(flat, 256, 1, "largest", to_native)[:, 0]
        group = int(np.where(np.isnan(largest), np.inf, np.abs(largest)).argmax())
        begin, end = (number * flat.shape[0] // largest.size for number in (group, group + 1))
        flat, at = flat[begin:end], at + begin
    return first if at in first else [*first[:-1], at]


# ---- photographs


def _channel_axis(value: np.ndarray) -> int | None:
    """The axis that could be the channels of RGB or RGBA."""
    if value.ndim < 3 or value.dtype.kind in "bcOUT":
        return None
    return next((axis for axis in (-1, -3) if value.shape[axis] in (3, 4)), None)


def looks_like_photographs(value: np.ndarray, summary: Summary) -> bool:
    """Whether shape, dtype and range are those of pixels."""
    axis = _channel_axis(value)
    if axis is None:
        return False
    sides = value.shape[-3:-1] if axis == -1 else value.shape[-2:]
    if min(sides) < _SMALLEST_PHOTOGRAPH or summary.least is None or summary.has_nonfinite:
        return False
    if value.dtype == np.uint8:
        return value.shape[axis] == 3 or axis == -1
    if value.shape[axis] != 3 or "float" not in value.dtype.name or summary.least < 0:
        return False
    if summary.greatest <= 1:
        return bool(summary.greatest > 0)
    return bool(128 <= summary.greatest <= 255 and not (_sample(value) % 1).any())


def _photographs(
    value: np.ndarray, axis: int, summary: Summary, look: Look, title: str, most_bytes: int
) -> Picture:
    last = np.moveaxis(value, axis, -1)
    leading = [size for size in last.shape[:-3] if size != 1]
    stack = last.reshape(*leading, *last.shape[-3:])
    rows, columns, channels = stack.shape[-3:]
    sheet = _sheet_of((rows, columns), math.prod(leading), look.size)
    indices = [np.unravel_index(at, leading) if leading else () for at in range(sheet.drawn)]
    low, high = look.limits or _black_and_white(value, summary)
    kind = "RGBA" if channels == 4 else "RGB"
    words = f"{kind}: {low:.4g} is black, {high:.4g} white. "
    words += "" if look.rgb else "rgb=False draws the channels. "
    pooling: Pooling = look.pool or "mean"
    pooled = {"mean": "the mean of", "nearest": "one of", "largest": "the largest of"}[pooling]

    def make(rows: int, columns: int) -> Picture:
        pictures = []
        for index in indices:
            planes = [
                pool(stack[index][..., channel], rows, columns, pooling, to_native)
                for channel in range(channels)
            ]
            pictures.append(_pixels(np.stack(planes, axis=-1), low, high))
        names = [",".join(map(str, index)) for index in indices]
        caption = words + sheet.caption(rows, columns, "pictures", "pixel", pooled)
        return Picture(
            pictures, names, None, title, caption.strip(), (sheet.width, sheet.height), sheet.in_row
        )

    return sheet.fit(most_bytes, make)


def _black_and_white(value: np.ndarray, summary: Summary) -> tuple[float, float]:
    """The numbers of black and white."""
    low, high = float(summary.least or 0), float(summary.greatest or 0)
    if value.dtype == np.uint8 or (low >= 0 and 8 < high <= 255):
        return 0.0, 255.0
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def _pixels(planes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers as uint8; a pixel that is not finite gets the colour that NaN has in heat maps."""
    with np.errstate(all="ignore"):
        pixels = np.rint(np.clip((planes - low) / ((high - low) or 1.0), 0, 1) * 255)
        bad = ~np.isfinite(planes).all(axis=-1)
        pixels[bad] = (*SPECIAL["NaN"], 255)[: planes.shape[-1]]
        return pixels.astype(np.uint8)
