"""Draw the inputs at which gradients are compared with differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, repeat

import numpy as np

from pyopnb.diffs import is_float
from pyopnb.engine import TensorType
from pyopnb.testing import Arrays, Draws, Trial, sets_of, size_trials, value_trials

__all__ = ["example_inputs", "trials_of_sizes", "trials_of_values"]

# The size of a free dimension, where the user gives no example.
_SIZE = 3
_MAX_SIZES = 3
_ORDER_ONE = "numbers of order one"
_SETS = (
    (_ORDER_ONE, 1.0),
    ("numbers between 0 and 1", 1.0),
    ("zeros and small numbers", 1.0),
    ("few values with many ties", 1.0),
    (_ORDER_ONE, 10.0),
)
"""Sets of values that conversions often get wrong, and the factors to scale them by.

Sets whose squares vanish or overflow on the way to a loss are left out: gradients are NaN there in
every framework.
"""
_VALUES = sets_of(np.empty(0, np.float32))


def example_inputs(
    types: Mapping[str, TensorType], feeds: Mapping[str, np.ndarray] | None
) -> Arrays:
    """Return the user's inputs, or positive ones, for which roots and logarithms exist."""
    draws = Draws(repeat(_SIZE))
    drawn = []
    for name, tensor_type in types.items():
        array = (feeds or {}).get(name)
        if array is None:
            array = draws.array(tensor_type.like(shape=tensor_type.shape or ()))
            if is_float(array):
                array = (np.abs(array) + 0.2).astype(array.dtype)
        drawn.append(array)
    return tuple(drawn)


def trials_of_sizes(example: Arrays, types: Mapping[str, TensorType]) -> Iterator[Trial]:
    """Yield the example, then other sizes of its free dimensions."""
    dims: list[list[int | str]] = []
    for name, tensor_type in types.items():
        axes: list[int | str] = []
        for axis, dim in enumerate(tensor_type.shape or ()):
            axes.append(f"{name}_{axis}" if dim is None else dim)
        dims.append(axes)
    yield Trial("the example", example)
    yield from islice(size_trials(example, dims, empty=False), _MAX_SIZES)


def trials_of_values(inputs: Arrays) -> Iterator[Trial]:
    """Yield inputs of the same sizes with harder floats; integers and texts stay as they are."""
    has_half = any(array is not None and array.dtype == np.float16 for array in inputs)
    sets = {}
    for name, factor in _SETS:
        if factor == 1:
            sets[name] = _VALUES[name]
        # For float16, a step that it resolves here would go from one pole of Tan to the next.
        elif not has_half:
            sets[f"{name} times {factor:g}"] = [factor * value for value in _VALUES[name]]
    sets_by_input = {}
    for number, array in enumerate(inputs):
        if array is not None and is_float(array):
            sets_by_input[number] = sets
    return value_trials(inputs, sets_by_input)
