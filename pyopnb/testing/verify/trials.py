"""Draw the inputs on which a conversion is compared with its original.

The order is that in which wrong conversions were found: the user's examples, other sizes, then values
that are not kind. All of them are drawn with fixed seeds, so that a disagreement can be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.testing.verify.values import HALVES, NOT_FINITE, is_float, is_integer, value_sets

__all__ = [
    "LONG_ROW",
    "Arrays",
    "Dims",
    "Trial",
    "draw_trials",
    "free_sizes_of",
    "long_row",
    "mild_trials",
    "resize",
]

Arrays = tuple[np.ndarray | None, ...]
Dims = Sequence[Sequence[int | str] | None]
"""For each input the size of each axis, or the name of a free dimension; None for an input left out."""

# Elements of the largest input, enough for ties among more than 16 that a sort moves.
_ROOMY = 400
# Draws of arrays whose sizes cannot grow.
_DRAWS = 3
# Elements, of which pairs still have room in memory.
LONG_ROW = 3_000
_MAX_ELEMENTS = 2_000_000
_SEPARATE_INPUTS = 6


@dataclass(frozen=True)
class Trial:
    """Inputs that are tried, and what is special about them.

    Attributes
    ----------
    name : str
        As messages say it after "with": ``"tiny numbers in input 0"``.
    inputs : tuple of (ndarray or None)
    on_edges : bool
        Whether all inputs are meant to sit on the edges of roundings and comparisons, so that a result
        that jumps there is judged all the same.
    """

    name: str
    inputs: Arrays
    on_edges: bool = False


def draw_trials(
    examples: Sequence[Arrays],
    *,
    dims: Dims | None = None,
    constants: Collection[float] = (),
    finite: bool = False,
    empty: bool = True,
    long_rows: bool = False,
) -> Iterator[Trial]:
    """Yield the inputs to try, the user's examples first.

    Parameters
    ----------
    examples : sequence of tuples
        All of the same dtypes and ranks.
    dims : sequence, optional
        Which dimensions are free; without it, all sizes stay those of the examples.
    constants : collection of numbers
        Numbers in the converted body; they and their neighbours are tried.
    finite : bool
        Leave NaN and infinities out.
    empty : bool
        Try free dimensions of size 0.
    long_rows : bool
        Try many elements along each free dimension.

    Yields
    ------
    Trial
    """
    for number, example in enumerate(examples):
        name = "the example"
        if number:
            name = f"example {number}"
        yield Trial(name, example)
    first = examples[0]
    free_sizes = free_sizes_of(first, dims)
    roomy = first
    if dims is not None and free_sizes:
        yield from _other_sizes(first, dims, free_sizes, empty)
        roomy = _roomy(first, dims, free_sizes)
    yield from _value_trials(first, roomy, constants, finite)
    yield from _ordered_trials(roomy)
    if dims is not None and long_rows:
        for name in free_sizes:
            trial = long_row(first, dims, name, LONG_ROW)
            if trial is not None:
                yield trial


# ---- sizes ------------------------------------------------------------------------------------------


def free_sizes_of(example: Arrays, dims: Dims | None) -> dict[str, int]:
    """Return the example's size of each free dimension."""
    sizes: dict[str, int] = {}
    for array, axes in zip(example, dims or (), strict=False):
        if array is None or axes is None:
            continue
        for size, dim in zip(array.shape, axes, strict=True):
            if isinstance(dim, str):
                sizes[dim] = size
    return sizes


def _other_sizes(
    example: Arrays, dims: Dims, free_sizes: Mapping[str, int], empty: bool
) -> Iterator[Trial]:
    tried = [dict(free_sizes)]
    requested: list[dict[str, int]] = []
    for step in (1, 3):
        requested.append({name: size + step for name, size in free_sizes.items()})
    for name, size in free_sizes.items():
        for other_size in (1, 2, size - 1, size + 1):
            requested.append({**free_sizes, name: other_size})
    requested.append(dict.fromkeys(free_sizes, 1))
    if empty:
        for name in free_sizes:
            requested.append({**free_sizes, name: 0})
    for sizes in requested:
        least = min(sizes.values())
        # One less than an example's size of 1 is 0, and of 0 it is no size.
        if least < 0 or (not empty and least == 0):
            continue
        if sizes in tried:
            continue
        tried.append(sizes)
        inputs = resize(example, dims, sizes)
        if inputs is None:
            continue
        shapes = [str(list(array.shape)) for array in inputs if array is not None]
        yield Trial(f"inputs of sizes {', '.join(shapes)}", inputs)


def resize(example: Arrays, dims: Dims, sizes: Mapping[str, int]) -> Arrays | None:
    """Repeat or cut an example's values to other sizes; None if that would take too much memory."""
    inputs: list[np.ndarray | None] = []
    for array, axes in zip(example, dims, strict=True):
        if array is None or axes is None:
            inputs.append(array)
            continue
        shape = []
        for size, dim in zip(array.shape, axes, strict=True):
            if isinstance(dim, str):
                dim = sizes.get(dim, size)
            shape.append(dim)
        if math.prod(shape) > max(_MAX_ELEMENTS, array.size):
            return None
        if array.size:
            resized = np.resize(array, shape)
            inputs.append(resized.astype(array.dtype, copy=False))
            continue
        # Without elements there is nothing to repeat.
        filler: Any = 0
        if array.dtype == object:
            filler = ""
        inputs.append(np.full(shape, filler, array.dtype))
    return tuple(inputs)


def _roomy(example: Arrays, dims: Dims, free_sizes: Mapping[str, int]) -> Arrays:
    """Return the example with its free dimensions so large that an input has some 400 elements."""
    sizes = dict(free_sizes)
    for _ in range(12):
        larger = {}
        # Sizes that differ by one keep a dimension from being taken for another one.
        for number, (name, size) in enumerate(sizes.items()):
            larger[name] = 2 * size + 1 + number
        inputs = resize(example, dims, larger)
        if inputs is None:
            break
        largest = max(array.size for array in inputs if array is not None)
        if largest > 4 * _ROOMY:
            break
        sizes = larger
    return resize(example, dims, sizes) or example


# ---- values -----------------------------------------------------------------------------------------


def _value_trials(
    first: Arrays, roomy: Arrays, constants: Collection[float], finite: bool
) -> Iterator[Trial]:
    sets_by_input = _sets_by_input(first, constants, finite)
    names = _names_of_sets(sets_by_input)
    # A body may refuse the larger sizes, as one that fixes a size without saying so does.
    bases = [roomy]
    if roomy is not first:
        bases.append(first)
    for base in bases:
        for seed, name in enumerate(names):
            yield from _of_one_set(base, name, sets_by_input, seed)


def mild_trials(
    example: Arrays, *, reach: float, integer_reach: float | None = None
) -> Iterator[Trial]:
    """Yield one trial for each set of values, its numbers finite and not far from the example's.

    For originals that are many operations at once: far outside of what they are made for, their results
    say nothing but how they were rounded.

    Parameters
    ----------
    example : tuple of (ndarray or None)
    reach : float
        How much larger than the example's numbers, or than 1, those are that are tried.
    integer_reach : float, optional
        The same for integers of more than 8 bits, and than 10, if not `reach`.

    Yields
    ------
    Trial
    """
    sets_by_input = _sets_by_input(example, (), finite=True)
    for number, sets in sets_by_input.items():
        array = example[number]
        assert array is not None  # noqa: S101  # only inputs that are there have sets
        largest = _largest(array)
        limit = reach * max(1.0, largest)
        is_long = is_integer(array.dtype) and array.dtype.itemsize > 1
        if integer_reach is not None and is_long:
            limit = max(10.0, integer_reach * largest)
        # A list of them, as sets are deleted on the way.
        for name, values in list(sets.items()):
            sets[name] = [v for v in values if isinstance(v, str) or abs(v) <= limit]
            if not sets[name]:
                del sets[name]
    for seed, name in enumerate(_names_of_sets(sets_by_input)):
        # The first trial gives a set of values to all inputs of a dtype together.
        trial = next(_of_one_set(example, name, sets_by_input, seed))
        yield replace(trial, name=name)


def _largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude; 0.0 where there are no numbers."""
    if array.dtype.kind in "OUSb":
        return 0.0
    numbers = np.abs(array.astype(np.float64))
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max(initial=0.0))


def _sets_by_input(
    example: Arrays, constants: Collection[float], finite: bool
) -> dict[int, dict[str, list[Any]]]:
    sets_by_input: dict[int, dict[str, list[Any]]] = {}
    for number, array in enumerate(example):
        if array is None:
            continue
        sets = dict(value_sets(array.dtype, constants))
        if finite:
            sets.pop(NOT_FINITE, None)
        if is_integer(array.dtype):
            # Most integers are no valid index, so the example's own range is tried as well.
            sets["integers in the range of the example"] = _range_of(array)
        sets_by_input[number] = sets
    return sets_by_input


def _names_of_sets(sets_by_input: Mapping[int, Mapping[str, list[Any]]]) -> list[str]:
    # A dict keeps the order in which wrong conversions are found soonest.
    names: dict[str, None] = {}
    for sets in sets_by_input.values():
        names.update(dict.fromkeys(sets))
    return list(names)


def _of_one_set(
    base: Arrays, name: str, sets_by_input: Mapping[int, Mapping[str, list[Any]]], seed: int
) -> Iterator[Trial]:
    numbers = [number for number, sets in sets_by_input.items() if name in sets]
    groups = [numbers]
    if len(sets_by_input) > 1 and len(numbers) <= _SEPARATE_INPUTS:
        # One input alone: what is extreme in all of them may be refused by the original.
        groups += [[number] for number in numbers if [number] != numbers]
    for group in groups:
        size = max(base[number].size for number in group)  # type: ignore[union-attr]  # those are there
        draws = _DRAWS
        if size >= _ROOMY // 2:
            draws = 1
        for draw in range(draws):
            random = np.random.default_rng((seed, draw))
            inputs = list(base)
            for number in group:
                inputs[number] = _filled(base[number], sets_by_input[number][name], random, draw)
            is_everywhere = group == list(sets_by_input)
            # Inputs with other values beside them are on no edge.
            on_edges = name == HALVES and is_everywhere
            title = name
            if not is_everywhere:
                title = f"{name} in input {group[0]}"
            yield Trial(title, tuple(inputs), on_edges)


def _filled(
    array: np.ndarray | None, values: list[Any], random: np.random.Generator, draw: int
) -> np.ndarray:
    """Return an array of the same shape with values of a set: all of them first, then any."""
    assert array is not None  # noqa: S101  # only inputs that are there have sets
    chosen = random.choice(len(values), array.size)
    if draw == 0:
        # Each value once, as far as there is room.
        distinct = random.permutation(len(values))[: array.size]
        chosen[: len(distinct)] = random.permutation(distinct)
    pool = np.empty(len(values), array.dtype)
    with np.errstate(all="ignore"):
        for index, value in enumerate(values):
            pool[index] = value
    return pool[chosen].reshape(array.shape)


def _range_of(array: np.ndarray) -> list[int]:
    if not array.size:
        return [0]
    integers = array.astype(object)
    lowest, highest = int(integers.min()), int(integers.max())
    if highest - lowest < 100:
        return list(range(lowest, highest + 1))
    return sorted({int(value) for value in integers.ravel()})


# ---- order and length -------------------------------------------------------------------------------


def _ordered_trials(roomy: Arrays) -> Iterator[Trial]:
    """Yield sorted and reversed inputs: a scan that starts at the wrong end shows there."""
    for name, step in (("sorted inputs", 1), ("inputs sorted downwards", -1)):
        inputs: list[np.ndarray | None] = []
        for array in roomy:
            if array is None or array.dtype == object:
                inputs.append(array)
                continue
            ordered = np.sort(array, axis=None)[::step]
            # A scalar would become an array of one axis, so it is reshaped last.
            contiguous = np.ascontiguousarray(ordered)
            inputs.append(contiguous.reshape(array.shape))
        yield Trial(name, tuple(inputs))


def long_row(first: Arrays, dims: Dims, name: str, elements: int) -> Trial | None:
    """Return equal elements along a free dimension: a sum that adds them one by one is off there."""
    largest = 1
    for array, axes in zip(first, dims, strict=True):
        if array is not None and axes is not None and name in axes:
            sizes = [size for size, dim in zip(array.shape, axes, strict=True) if dim != name]
            largest = max(largest, math.prod(sizes))
    length = elements // largest
    sizes_by_name = {**free_sizes_of(first, dims), name: length}
    inputs = resize(first, dims, sizes_by_name)
    # Fewer than a hundred terms are no long row.
    if inputs is None or length < 100:
        return None
    filled = []
    for array in inputs:
        if array is not None and is_float(array.dtype):
            array = np.full(array.shape, 0.1).astype(array.dtype)
        elif array is not None and is_integer(array.dtype):
            array = np.ones(array.shape, array.dtype)
        filled.append(array)
    return Trial(f"{elements:,} equal elements along {name}", tuple(filled))
