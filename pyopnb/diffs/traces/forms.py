"""The form in which one tensor holds the numbers of another: order of axes, shape and dtype.

Converters and runtimes keep images as NCHW or NHWC, merge axes, and compute indices as int32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from ml_dtypes import finfo

from pyopnb.diffs.tolerances import EXPOSED, SAME_VALUES_ULPS, is_float
from pyopnb.diffs.traces.half import in_one_precision

__all__ = ["TensorForm", "find_form", "holds_same", "largest", "rounding"]

# Tensors of more axes are compared in the order that they have.
_MAX_AXES = 5
# So many elements tell most orders of axes apart.
_FIRST = 64
_INTEGERS = "iub"


@dataclass(frozen=True)
class TensorForm:
    """What turns one tensor into the form of another.

    Attributes
    ----------
    axes : tuple of int
        The order of axes, as `numpy.transpose` takes it.
    shape : tuple of int
        The shape after that.
    dtype : str
        The other dtype of integers or bools; empty if it stays.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str = ""

    def of(self, array: np.ndarray) -> np.ndarray:
        """Put a tensor into this form."""
        turned = np.ascontiguousarray(array.transpose(self.axes)).reshape(self.shape)
        return turned.astype(self.dtype or array.dtype, copy=False)

    def turns(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a tensor whose axes are put into this order; empty for others."""
        if len(shape) != len(self.axes):
            return ()
        return tuple(shape[axis] for axis in self.axes)

    def text(self, shape: tuple[int, ...]) -> str:
        """Describe what becomes of a tensor of a shape; empty if nothing does."""
        texts = []
        if self.axes != tuple(range(len(self.axes))):
            texts.append(f"axes {','.join(map(str, self.axes))}")
        if self.turns(shape) != self.shape:
            texts.append(f"shape {','.join(map(str, self.shape))}")
        if self.dtype:
            texts.append(f"equal as {self.dtype}")
        return ", ".join(texts)


def largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude of a float array; 0 for others."""
    if not is_float(array):
        return 0.0
    sizes = np.abs(array)
    most = float(sizes.max(initial=0.0))
    if not math.isfinite(most):
        most = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    return most


def rounding(array: np.ndarray) -> float:
    """Return how far an array may be from one of the same values: `SAME_VALUES_ULPS`."""
    if not is_float(array):
        return 0.0
    epsilon = float(finfo(array.dtype).eps)  # type: ignore[no-untyped-call]
    # Dtypes of few digits would let everything pass.
    return largest(array) * min(SAME_VALUES_ULPS * epsilon, EXPOSED)


def holds_same(a: np.ndarray, b: np.ndarray, most: float) -> bool:
    """Tell whether two arrays of one type differ by at most so much; NaN is equal to NaN."""
    if np.array_equal(a, b):
        return True
    if not is_float(a):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - b) <= most
    # An infinity minus itself is NaN.
    return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def find_form(a: np.ndarray, b: np.ndarray, most: float) -> TensorForm | None:
    """Find the form in which a holds the numbers of b, up to rounding; None if there is none.

    Parameters
    ----------
    most : float
        How far the numbers may be apart.

    Examples
    --------
    >>> nchw = np.arange(12.0).reshape(1, 2, 2, 3)
    >>> find_form(nchw, nchw.transpose(0, 2, 3, 1), 0.0).text(nchw.shape)
    'axes 0,2,3,1'
    >>> find_form(nchw, nchw.reshape(4, 3), 0.0).text(nchw.shape)
    'shape 4,3'
    >>> find_form(np.int32([1, 2]), np.int64([1, 2]), 0.0).text((2,))
    'equal as int64'
    """
    if a.size != b.size:
        return None
    cast = ""
    if a.dtype != b.dtype:
        if a.dtype.kind in _INTEGERS and b.dtype.kind in _INTEGERS:
            cast = b.dtype.name
            given, a = a, a.astype(b.dtype)
            if not np.array_equal(given, a):
                return None
        a, b = in_one_precision(a, b)
    if a.dtype != b.dtype:
        return None
    first = b.flat[:_FIRST]
    for form in _forms(a.shape, b.shape):
        start = a.transpose(form.axes).flat[:_FIRST]
        # A few numbers tell most orders apart, without a copy of millions.
        if holds_same(start, first, most) and holds_same(form.of(a), b, most):
            return replace(form, dtype=cast)
    return None


def _forms(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[TensorForm]:
    """Yield the forms of a tensor with the shape of a that have the shape of b."""
    # The order of axes of one element says nothing: they stay where they are.
    long = [axis for axis, size in enumerate(a) if size > 1]
    yield TensorForm(tuple(range(len(a))), b)
    if len(long) > _MAX_AXES:
        return
    for order in permutations(long):
        if list(order) != long:
            axes = [*order, *(axis for axis in range(len(a)) if axis not in order)]
            yield TensorForm(_in_place(a, tuple(axes), b), b)


def _in_place(a: tuple[int, ...], axes: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Place the axes of one element so that the shape of b results, if that is possible."""
    long = [axis for axis in axes if a[axis] > 1]
    short = [axis for axis in axes if a[axis] == 1]
    if len(a) != len(b):
        return axes
    placed = []
    for size in b:
        source = short if size == 1 else long
        if not source:
            return axes
        placed.append(source.pop(0))
    return tuple(placed)
