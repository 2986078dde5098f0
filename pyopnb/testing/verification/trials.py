"""Draw the inputs on which a conversion is compared with its original.

The trials that find wrong conversions soonest come first: the user's examples, other sizes, then
values that are hard to convert. All are drawn with fixed seeds, so that a disagreement can be
repeated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from pyopnb.testing.verification.values import (
    Arrays,
    each,
    has_fractions,
    mild_sets,
    sets_of,
    size_of,
)

__all__ = [
    "Dims",
    "Trial",
    "draw_trials",
    "free_sizes_of",
    "mild_trials",
    "number_trial",
    "other_sizes",
    "resize",
    "reverse",
    "row_trials",
    "size_trials",
    "smooth_sets",
    "value_trials",
    "with_floats",
]

Dims = Sequence[Sequence[int | str] | None]
"""For each input the sizes of its axes, or names of free dimensions; None if it is left out."""

# Elements of the largest input: enough for ties among more than the 16 elements that a sort moves.
_ROOMY = 400
# How often arrays whose sizes cannot grow are drawn, and the most if they have few elements.
_DRAWS = 3
_MOST_DRAWS = 8
# The most elements of an array, so that pairs of them still fit into memory.
_MAX_ELEMENTS = 1_000_000
_SEPARATE_INPUTS = 6


@dataclass(frozen=True)
class Trial:
    """Inputs to try, with a description.

    Attributes
    ----------
    name : str
        As messages say it after "with": ``"tiny numbers in input 0"``.
    on_edges : bool
        Whether all inputs are meant to sit on the edges of roundings and comparisons, so that a
        result that jumps there is judged all the same.
    is_mask : bool
        Whether an input is a mask that leaves nothing, at least of one row, or everything.
    """

    name: str
    inputs: Arrays
    on_edges: bool = False
    is_mask: bool = False


def draw_trials(
    examples: Sequence[Arrays],
    *,
    dims: Dims | None = None,
    constants: Collection[float] = (),
    finite: bool = False,
    empty: bool = True,
) -> Iterator[Trial]:
    """Yield the inputs to try, the user's examples first.

    Parameters
    ----------
    examples : sequence of tuples
        All of the same dtypes and ranks.
    dims : sequence, optional
        Which dimensions are free; without it, all sizes stay as in the examples.
    constants : collection of numbers
        Numbers in the converted body; they and their neighbors are tried.
    finite : bool
        Leave NaN and infinities out.
    empty : bool
        Try free dimensions of size 0.
    """
    yield Trial("the example", examples[0])
    for number, example in enumerate(examples[1:], 1):
        yield Trial(f"example {number}", example)
    first = examples[0]
    dims = dims or [None] * len(first)
    sets_by_input = {}
    for number, array in enumerate(first):
        if array is not None:
            sets_by_input[number] = sets_of(array, constants, finite)
    roomy = first
    if free_sizes_of(first, dims):
        yield from size_trials(first, dims, empty)
        roomy = _roomy(first, dims)
    yield from value_trials(roomy, sets_by_input, thorough=True)
    # A body may refuse the larger sizes, as one that fixes a size without saying so does.
    if roomy is not first:
        yield from value_trials(first, sets_by_input, thorough=True)
    # A scan that starts at the wrong end shows in sorted and reversed inputs.
    ordered = each(_sorted, roomy)
    yield Trial("sorted inputs", ordered)
    yield Trial("inputs sorted downwards", each(reverse, ordered))


# ---- values at which functions are smooth --------------------------------------------------------

_ORDER_ONE = "numbers of order one"
_SMOOTH = (
    ("zeros and small numbers", 1.0),
    ("numbers between 0 and 1", 1.0),
    (_ORDER_ONE, 1.0),
    ("few values with many ties", 1.0),
    (_ORDER_ONE, 10.0),
)
"""Sets of values that gradients are often wrong at, and the factors to scale them by.

Sets whose squares vanish or overflow on the way to a loss are left out: gradients are NaN there in
every framework.
"""


def smooth_sets(example: Arrays) -> dict[str, list[float]]:
    """Return by name the values at which to derive in the floats of an example."""
    dtypes = {array.dtype for array in example if array is not None}
    if not any(map(has_fractions, dtypes)):
        return {}
    values = _float_values()
    sets = {}
    for name, factor in _SMOOTH:
        # For float16, a step that it resolves here would go from one pole of Tan to the next.
        if factor == 1:
            sets[name] = values[name]
        elif np.float16 not in dtypes:
            sets[f"{name} times {factor:g}"] = [factor * value for value in values[name]]
    return sets


@functools.cache
def _float_values() -> dict[str, list[Any]]:
    return sets_of(np.empty(0, np.float32))


def with_floats(trial: Trial, name: str, values: list[float]) -> Trial:
    """Fill the floats of a trial with other values; integers and texts stay as they are."""
    inputs = list(trial.inputs)
    for number, array in enumerate(inputs):
        if array is not None and has_fractions(array.dtype):
            inputs[number] = _filled(array, values, (0, number), 0)
    return Trial(f"{name}, {trial.name}", tuple(inputs))


# ---- sizes ---------------------------------------------------------------------------------------


def free_sizes_of(example: Arrays, dims: Dims) -> dict[str, int]:
    """Return the example's size of each free dimension."""
    sizes = {}
    for array, axes in zip(example, dims, strict=False):
        if array is None or axes is None:
            continue
        for dim, size in zip(axes, array.shape, strict=True):
            if isinstance(dim, str):
                sizes[dim] = size
    return sizes


def other_sizes(free_sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Return other sizes of free dimensions to try: of all of them, then of each alone."""
    requested = []
    for step in (1, 3):
        requested.append({name: size + step for name, size in free_sizes.items()})
    for name, size in free_sizes.items():
        for other_size in (1, 2, size - 1, size + 1, 0):
            requested.append({**free_sizes, name: other_size})
    requested.append(dict.fromkeys(free_sizes, 1))
    sizes_to_try: list[dict[str, int]] = []
    for sizes in requested:
        # One less than a size of 0 is not a size.
        is_possible = min(sizes.values(), default=0) >= 0
        if is_possible and sizes != free_sizes and sizes not in sizes_to_try:
            sizes_to_try.append(sizes)
    return sizes_to_try


def size_trials(example: Arrays, dims: Dims, empty: bool) -> Iterator[Trial]:
    """Yield the example's values in other sizes of its free dimensions."""
    for sizes in other_sizes(free_sizes_of(example, dims)):
        inputs = resize(example, dims, sizes)
        if inputs is None or (not empty and 0 in sizes.values()):
            continue
        shapes = [str(list(array.shape)) for array in inputs if array is not None]
        text = ", ".join(shapes)
        yield Trial(f"inputs of sizes {text}", inputs)


def resize(example: Arrays, dims: Dims, sizes: Mapping[str, int]) -> Arrays | None:
    """Repeat or cut an example's values to other sizes; return None if they are too large."""
    inputs = list(example)
    for number, (array, axes) in enumerate(zip(example, dims, strict=True)):
        if array is None or axes is None:
            continue
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in axes]
        if math.prod(shape) > max(_MAX_ELEMENTS, array.size):
            return None
        # Without elements there is nothing to repeat, and NumPy would fill with the number 0.
        if array.dtype == object and not array.size:
            array = np.array([""], object)
        inputs[number] = np.resize(array, shape)
    return tuple(inputs)


def _roomy(example: Arrays, dims: Dims) -> Arrays:
    """Return the example with its free dimensions so large that an input has some 400 elements."""
    roomy, sizes = example, free_sizes_of(example, dims)
    for _ in range(12):
        # Sizes that differ by one keep a dimension from being taken for another one.
        for number, name in enumerate(sizes):
            sizes[name] = 2 * sizes[name] + 1 + number
        inputs = resize(example, dims, sizes)
        if inputs is None or size_of(inputs) > 4 * _ROOMY:
            break
        roomy = inputs
    return roomy


def _sorted(array: np.ndarray) -> np.ndarray:
    return np.sort(array, axis=None).reshape(array.shape)


def reverse(array: np.ndarray) -> np.ndarray:
    """Return the same values in the opposite order."""
    return np.ascontiguousarray(array.ravel()[::-1]).reshape(array.shape)


# ---- values --------------------------------------------------------------------------------------


def mild_trials(
    example: Arrays, *, reach: float, integer_reach: float | None = None, masks: bool = False
) -> Iterator[Trial]:
    """Yield one trial for each set of values, with finite numbers not far from the example's.

    They are for originals of many operations at once, whose results show only rounding if their
    inputs are far from usual ones.

    Parameters
    ----------
    reach : float
        How many times larger than the example's numbers, or than 1, the values may be.
    integer_reach : float, optional
        The same for integers of more than 8 bits, where values up to 10 are always tried; ``reach``
        if not given.
    masks : bool
        Try masks first, and a slightly larger example.
    """
    sets_by_input = {}
    for number, array in enumerate(example):
        if array is not None:
            sets_by_input[number] = mild_sets(array, reach, integer_reach)
    if masks:
        # Properties that the original may rely on stay: order, signs, symmetry. A function in which
        # a result of the example became a constant gives that one again.
        yield Trial(f"the example times {_LARGER}", each(_larger, example))
        for number, array in enumerate(example):
            for name, mask in _masks(array):
                inputs = (*example[:number], mask, *example[number + 1 :])
                yield Trial(f"a mask of {name} in input {number}", inputs, is_mask=True)
    yield from value_trials(example, sets_by_input)


_LARGER = 1.01


def _larger(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "biuO":
        return array
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(np.float64) * _LARGER).astype(array.dtype)


def _masks(array: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield masks that leave nothing, that leave everything, and that leave nothing of one row."""
    values: tuple[Any, ...] = ()
    if array is None:
        return
    if array.dtype == bool:
        values = (True, False)
    elif array.dtype.kind == "f" and np.isneginf(array).any():
        values = (-np.inf, 0.0)
    for value in values:
        yield f"{value} everywhere", np.full_like(array, value)
        if array.ndim > 1:
            in_row = array.copy()
            in_row[(0,) * (array.ndim - 1)] = value
            yield f"{value} in the first row", in_row


# Rows of the example, in trials of other values.
_FEW_ROWS = 24
# How many times larger than the numbers of the example the trials may be: distances are squared, so
# that far outside of the fitted data they only show rounding.
_REACH_OF_ROWS = 1000.0


def row_trials(example: tuple[np.ndarray, ...], *, wraps: bool) -> Iterator[Trial]:
    """Yield the rows of an example, a single row, then rows that are not kind.

    Parameters
    ----------
    wraps : bool
        Try integers whose products wrap, where the original computes in floats.
    """
    few = tuple(array[:_FEW_ROWS] for array in example)
    yield Trial("the example", example)
    # A function that has the number of rows of the example in it fails here.
    yield Trial("1 row", tuple(array[:1] for array in few))
    yield from mild_trials(few, reach=_REACH_OF_ROWS)
    if wraps:
        yield Trial("large integers", tuple(map(_enlarged, few)))
    for name, value in (("NaN", np.nan), ("infinities", np.inf)):
        yield Trial(name, tuple(_sprinkled(array, value) for array in few))


def _enlarged(array: np.ndarray) -> np.ndarray:
    """Fill integers with a large one, whose square is beyond its dtype."""
    if array.dtype.kind not in "iu":
        return array
    return np.full_like(array, np.iinfo(array.dtype).max // 4)


def _sprinkled(array: np.ndarray, value: float) -> np.ndarray:
    """Put a value, and its negative, into every third element of floats."""
    changed = array.copy()
    if array.dtype.kind == "f":
        places = changed.reshape(-1)[::3]
        places[:] = np.resize([value, -value], places.shape)
    return changed


_MAGNITUDES = [0.0, 1e-40, 1e-30, 1e-18, 1e-4, 0.1, 0.5, 1.0, 1.5, 2.5, 7.0, 30.0, 90.0, 130.0]
_MAGNITUDES += [700.0, 1e4, 5e7, 1e10, 1e18, 1e30, 3e38, np.inf]
_NUMBERS = (*_MAGNITUDES, *(-value for value in _MAGNITUDES), np.nan)
# This many at once, which for two inputs are all pairs.
_PAIRS = len(_NUMBERS) ** 2


def number_trial(examples: Sequence[np.ndarray], *, in_cubes: bool = False) -> Trial:
    """Fill inputs of an elementwise function with numbers of every size, and two with all pairs.

    Parameters
    ----------
    examples : sequence of ndarray
        Arrays of the inputs' dtypes and ranks.
    in_cubes : bool
        Keep the ranks, for functions along an axis, and leave out infinities, after which there are
        no numbers.
    """
    random = np.random.default_rng(0)
    inputs = []
    for position, array in enumerate(examples):
        pool = np.arange(8).astype(array.dtype)
        if has_fractions(array.dtype):
            with np.errstate(all="ignore"):
                pool = np.array(_NUMBERS).astype(array.dtype)
        if in_cubes:
            inputs.append(random.choice(pool[np.isfinite(pool)], (6,) * array.ndim))
        elif position == 0:
            inputs.append(np.resize(pool, _PAIRS))
        elif position == 1:
            inputs.append(np.repeat(pool, -(-_PAIRS // pool.size))[:_PAIRS])
        else:
            inputs.append(random.choice(pool, _PAIRS))
    return Trial("numbers of every size", tuple(inputs))


def value_trials(
    base: Arrays, sets_by_input: Mapping[int, Mapping[str, list[Any]]], *, thorough: bool = False
) -> Iterator[Trial]:
    """Fill all inputs of a dtype with each set of values, then each of them alone.

    Parameters
    ----------
    base : tuple of (ndarray or None)
        The values of inputs that are not filled.
    sets_by_input : mapping
        By number of the input, then by name.
    thorough : bool
        Fill each input alone as well, and small ones several times.
    """
    # A dict keeps the order in which wrong conversions are found soonest.
    names = dict.fromkeys(chain.from_iterable(sets_by_input.values()))
    for seed, name in enumerate(names):
        numbers = [number for number, sets in sets_by_input.items() if name in sets]
        groups = [numbers]
        # The original may refuse values that are extreme in all inputs at once.
        if thorough and 1 < len(numbers) <= _SEPARATE_INPUTS:
            groups += [[number] for number in numbers]
        for group in groups:
            title = name
            if len(group) < len(sets_by_input):
                title = f"{name} in input {group[0]}"
            # Results are on edges only if all inputs are halves.
            on_edges = thorough and title == "halves"
            size = max(size_of(base[number] for number in group), 1)
            draws = 1
            if thorough and size < _ROOMY // 2:
                # Each value comes at least once, beside several values of another input.
                longest = max(len(sets_by_input[number][name]) for number in group)
                draws = min(max(math.ceil(longest / size), _DRAWS), _MOST_DRAWS)
            for draw in range(draws):
                inputs = list(base)
                for number in group:
                    values = sets_by_input[number][name]
                    inputs[number] = _filled(base[number], values, (seed, number), draw)
                yield Trial(title, tuple(inputs), on_edges)


def _filled(array: Any, values: list[Any], seed: Sequence[int], draw: int) -> np.ndarray:
    """Return an array of the same shape with values of a set, the next ones in each draw."""
    with np.errstate(all="ignore"):
        pool = np.array(values, array.dtype)
    pool = np.random.default_rng(seed).permutation(pool)
    # All values come equally often, if there is room for all.
    places = np.arange(draw * array.size, (draw + 1) * array.size)
    chosen = pool[places % pool.size]
    chosen = np.random.default_rng((*seed, draw)).permutation(chosen)
    return chosen.reshape(array.shape)
