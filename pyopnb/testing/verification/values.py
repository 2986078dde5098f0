"""Values on which conversions are known to go wrong, by dtype."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["Arrays", "each", "has_fractions", "largest", "mild_sets", "sets_of", "size_of"]

Arrays = tuple[np.ndarray | None, ...]
"""Inputs, with None for one that is left out."""

_NOT_FINITE = "NaN and infinities"
"""The name of the set that is left out where a user says that all values are finite."""

_TEXTS = ["", " ", "a", "A", "ab", "ä", "ß", "日本", "1", "-1.5", "nan", "a b", "a,b", "x" * 300]


def has_fractions(dtype: np.dtype) -> bool:
    """Tell whether a dtype has fractions, as floats do, including floats of ml_dtypes."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(("bfloat", "float")))


def _is_integer(dtype: np.dtype) -> bool:
    """Tell whether a dtype is an integer, including integers of ml_dtypes."""
    return dtype.kind in "iu" or (dtype.kind == "V" and dtype.name.startswith(("int", "uint")))


def each(change: Callable[[np.ndarray], np.ndarray], inputs: Arrays) -> Arrays:
    """Change each input that is not left out."""
    changed: list[np.ndarray | None] = []
    for array in inputs:
        changed.append(None if array is None else change(array))
    return tuple(changed)


def size_of(inputs: Iterable[np.ndarray | None]) -> int:
    """Return the number of elements of the largest input."""
    return max((array.size for array in inputs if array is not None), default=1)


def largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude; 0.0 where there are no numbers."""
    if array.dtype.kind in "bO":
        return 0.0
    # In float64, as the magnitude of the lowest integer is beyond its own dtype.
    magnitudes = np.abs(array.astype(np.float64))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))


def sets_of(
    array: np.ndarray, constants: Collection[float] = (), finite: bool = False
) -> dict[str, list[Any]]:
    """Return the sets of an input's dtype, and the integers in the range of its own."""
    sets = dict(_value_sets(array.dtype, constants))
    if finite:
        sets.pop(_NOT_FINITE, None)
    if _is_integer(array.dtype):
        # Most integers are no valid index.
        integers = sorted(set(map(int, array.ravel()))) or [0]
        if integers[-1] - integers[0] < 100:
            integers = list(range(integers[0], integers[-1] + 1))
        sets["integers in the range of the example"] = integers
    return sets


def mild_sets(array: np.ndarray, reach: float, integer_reach: float | None) -> dict[str, list[Any]]:
    """Return the sets of an input without values that are far from its own numbers."""
    limit = reach * max(1.0, largest(array))
    if integer_reach is not None and _is_integer(array.dtype) and array.dtype.itemsize > 1:
        limit = max(10.0, integer_reach * largest(array))
    sets = {}
    for name, values in sets_of(array, finite=True).items():
        if array.dtype != object:
            values = [value for value in values if abs(value) <= limit]
        if values:
            sets[name] = values
    return sets


def _value_sets(dtype: np.dtype, constants: Collection[float]) -> Iterator[tuple[str, list[Any]]]:
    """Yield named lists of values, the ones first that most often show a wrong conversion."""
    if dtype.kind == "b":
        yield "booleans", [True, False]
    elif dtype.kind == "O":
        yield "other texts", list(_TEXTS)
    elif _is_integer(dtype):
        yield from _integer_sets(dtype, constants)
    elif has_fractions(dtype):
        yield from _float_sets(dtype, constants)


def _integer_sets(dtype: np.dtype, constants: Collection[float]) -> Iterator[tuple[str, list[Any]]]:
    info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    lowest, highest = int(info.min), int(info.max)
    # Where -min wraps to itself, and where one step more wraps round.
    extremes = [lowest, lowest + 1, -1, 0, 1, highest - 1, highest]
    small = list(range(-7, 8))
    for constant in filter(np.isfinite, constants):
        small += [int(constant) - 1, int(constant), int(constant) + 1]
    # So few that nothing needs to be left to chance.
    if info.bits <= 8:
        yield "every integer of the dtype", list(range(lowest, highest + 1))
    yield "the extremes of integers", _within(extremes, lowest, highest)
    yield "small integers", _within(small, lowest, highest)
    # Products and sums of these wrap, or leave the range of float32 and float64.
    powers = []
    for exponent in (4, 7, 8, 15, 16, 24, 31, 32, 53, 62):
        for power in (2**exponent, -(2**exponent)):
            powers += [power - 1, power, power + 1]
    yield "integers near powers of two", _within(powers, lowest, highest)
    yield "equal integers", _within([3], lowest, highest)


def _within(values: list[int], lowest: int, highest: int) -> list[Any]:
    return sorted({value for value in values if lowest <= value <= highest})


def _float_sets(dtype: np.dtype, constants: Collection[float]) -> Iterator[tuple[str, list[Any]]]:
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # NumPy's own lacks bfloat16
    eps, smallest, highest = float(info.eps), float(info.tiny), float(info.max)
    # The same numbers in every run, so that a disagreement can be reproduced.
    random = np.random.default_rng(1)
    near_constants = []
    for value in map(float, constants):
        # The next numbers of the dtype, which a narrower one cannot tell from the constant.
        step = abs(value) * eps
        near_constants += [value, -value, value - 1, value + 1, value - step, value + step]
    yield "zeros and small numbers", _paired([0.0, 0.5, 1.0, 2.0])
    # Roundings and comparisons jump on these, and sums of them are exact.
    yield "halves", _paired([0.5, 1.5, 2.5, 3.5])
    if near_constants:
        yield "numbers near the constants of the body", near_constants
    yield "numbers of order one", list(random.normal(size=97))
    # A quarter of the smallest normal number is subnormal.
    tiny = np.array([1e-30, 1e-20, 1e-10, 1e-7, 1e-5, smallest, eps])
    yield "tiny numbers", _paired([smallest / 4, *tiny[tiny >= smallest]])
    large = np.array([1e3, 1e4, 1e6, 1e10, 1e20, 1e30])
    yield "large numbers", _paired(list(large[large < highest]))
    yield "the largest numbers", _paired([highest, highest / 2])
    yield "numbers near one", [1 - eps, 1 + eps, 1 - 9 * eps, 1 + 9 * eps, 0.999, 1.001]
    yield "numbers between 0 and 1", list(random.random(97))
    # Ties decide on the order of a sort, and on which of two equal elements argmax takes.
    yield "few values with many ties", [-1.0, 0.0, 1.0, 2.0]
    yield "equal numbers", [0.1]
    # Terms that cancel show a sum that was added up in a narrower dtype.
    yield "tiny beside large numbers", _paired([1 / eps, 1.0, eps])
    # Exponential functions leave their dtype here, and approximations clamp.
    yield "numbers up to a hundred", _paired([10.0, 20.0, 50.0, 88.0, 100.0])
    yield _NOT_FINITE, [np.nan, *_paired([np.inf, 0.0, 1.0, 2.5]), *near_constants]


def _paired(values: list[float]) -> list[float]:
    """Follow each number by its negative."""
    paired = []
    for value in values:
        paired += [value, -value]
    return paired
