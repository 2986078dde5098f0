"""Compare runs in float16 or bfloat16 with runs in a wider float, and explain the losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from pyopnb.common import plural, sanitize
from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.report import format_number
from pyopnb.diffs.tolerances import SCALED, is_float
from pyopnb.engine import dtype

__all__ = ["HALVES", "SUMS", "as_fed", "half_causes", "in_one_precision", "narrower", "sum_causes"]

HALVES = ("float16", "bfloat16")

SUMS = frozenset(
    [
        "Add",
        "AveragePool",
        "Conv",
        "ConvTranspose",
        "CumSum",
        "Einsum",
        "Gemm",
        "GlobalAveragePool",
        "LayerNormalization",
        "MatMul",
        "Mean",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceSum",
        "ReduceSumSquare",
        "Softmax",
        "Sum",
    ]
)
"""Operators that add up: in a narrow float, a large sum swallows small terms."""


def narrower(a: Any, b: Any) -> str:
    """Name the dtype of the narrower of two floats; empty if they are equally wide.

    Examples
    --------
    >>> half, single = np.zeros(2, np.float16), np.zeros(2, np.float32)
    >>> narrower(half, single), narrower(single, single)
    ('float16', '')
    """
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.dtype == b.dtype:
        return ""
    if not is_float(a) or not is_float(b) or a.dtype.itemsize == b.dtype.itemsize:
        return ""
    return dtype(min(a, b, key=lambda array: array.dtype.itemsize).dtype).name


def in_one_precision(a: Any, b: Any) -> tuple[Any, Any]:
    """Widen the narrower of two floats, which is exact."""
    if not narrower(a, b):
        return a, b
    wide = max(a, b, key=lambda array: array.dtype.itemsize).dtype
    return a.astype(wide), b.astype(wide)


def as_fed(value: Any, recorded: Any) -> Any:
    """Round another run's tensor to the precision of this run."""
    if not narrower(value, recorded):
        return value
    # In this run, the node gets an input that was rounded to infinity or zero.
    with np.errstate(over="ignore", under="ignore"):
        return value.astype(recorded.dtype)


def half_causes(name: str, a: Any, b: Any) -> Iterator[str]:
    """Yield the effects of half precision on a tensor: overflow to infinity, and flushing to zero.

    Parameters
    ----------
    name : str
        The tensor's name.
    a, b : object
        Its values in both runs.

    Examples
    --------
    >>> list(half_causes("s", np.float16([np.inf, 1, 0]), np.float32([1e5, 1, 1e-9])))[0]
    's overflows float16 to infinity: 1 of 3 elements, up to 1e+05, beyond 6.55e+04'
    """
    half = narrower(a, b)
    if not half or a.shape != b.shape:
        return
    small, wide = sorted((a, b), key=lambda array: array.dtype.itemsize)
    limits = ml_dtypes.finfo(half)  # type: ignore[no-untyped-call]
    most = float(limits.max)
    least = float(limits.smallest_subnormal)
    sizes = np.abs(wide)
    label = sanitize(name, 80)
    total = plural(small.size, "element")
    # NaN, and the infinities of a division by a number that became 0, have other reasons.
    overflowed = sizes[np.isinf(small) & np.isfinite(wide) & (sizes > most)]
    if overflowed.size:
        yield (
            f"{label} overflows {half} to infinity: {overflowed.size:,} of {total}, "
            f"up to {format_number(float(overflowed.max()))}, beyond {format_number(most)}"
        )
    # Larger numbers are 0 for another reason, such as a Relu of a number that was rounded below 0.
    flushed = sizes[(small == 0) & (wide != 0) & (sizes < least)]
    if flushed.size:
        yield (
            f"{label} is flushed to zero in {half}: {flushed.size:,} of {total}, "
            f"from {format_number(float(flushed.min()))}, below {format_number(least)}"
        )


def sum_causes(name: str, half: Any, wide: Any) -> Iterator[str]:
    """Yield that a sum in half precision overflowed on the way, or lost small terms.

    Parameters
    ----------
    half : ndarray
        The tensor in the half-precision run.
    wide : ndarray
        The same node's result in the wider float, on the same inputs.
    """
    dtype_name = narrower(half, wide)
    if not dtype_name or half.shape != wide.shape:
        return
    widened = half.astype(wide.dtype)
    # Infinite partial sums that cancel out are NaN.
    overflowed = ~np.isfinite(widened) & np.isfinite(wide)
    if overflowed.any():
        yield (
            f"{sanitize(name, 80)} adds up beyond the range of {dtype_name}: the same inputs in "
            f"{dtype(wide.dtype).name} give up to {format_number(float(abs(wide).max()))}"
        )
    finite = np.isfinite(widened) & np.isfinite(wide)
    diff = compared(widened[finite], wide[finite], SCALED.widened(dtype_name))
    facts = diff.worst.facts
    if diff.ok or facts is None:
        return
    digits = ml_dtypes.finfo(dtype_name).nmant + 1  # type: ignore[no-untyped-call]
    yield (
        f"{sanitize(name, 80)} lost small terms of its sum: {dtype_name} keeps {digits} bits, "
        f"and the same inputs in {dtype(wide.dtype).name} give "
        f"up to {format_number(facts.largest)} more or less"
    )
