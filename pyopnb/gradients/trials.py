"""Draw the inputs at which gradients are compared with differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import numpy as np

from pyopnb.diffs.tolerances import is_float
from pyopnb.ops.types import TensorType
from pyopnb.testing.verify import Arrays, Trial, draw_trials
from pyopnb.testing.verify.values import sets_of

__all__ = ["example_inputs", "gradient_trials"]

# The size of a free dimension, where the user gives no example.
_SIZE = 3
_MAX_SIZES = 3
# How many of these sizes are larger than the example's.
_LARGER = 2
_ORDER_ONE = "numbers of order one"
_SETS = (
    (_ORDER_ONE, 1.0),
    ("numbers between 0 and 1", 1.0),
    ("zeros and small numbers", 1.0),
    ("few values with many ties", 1.0),
    (_ORDER_ONE, 10.0),
)
"""Of the values that conversions go wrong with, and by how much they are scaled. Where squares vanish or
overflow on the way to a loss, gradients are NaN in every framework."""
_VALUES = sets_of(np.empty(0, np.float32))


def example_inputs(
    types: Mapping[str, TensorType], feeds: Mapping[str, np.ndarray] | None
) -> Arrays:
    """Return the user's inputs, or positive ones, for which roots and logarithms are there, too."""
    random = np.random.default_rng(1)
    drawn = []
    for name, tensor_type in types.items():
        if feeds is not None and name in feeds:
            drawn.append(feeds[name])
            continue
        shape = [dim if isinstance(dim, int) else _SIZE for dim in tensor_type.shape or ()]
        dtype = np.dtype(np.float32)
        if tensor_type.dtype is not None:
            dtype = np.dtype(tensor_type.dtype.numpy)
        if dtype.kind in "iub":
            # Most indices may be 0 and 1.
            drawn.append(random.integers(0, 2, shape).astype(dtype))
        elif dtype.kind == "O":
            drawn.append(np.full(shape, "1", object))
        else:
            drawn.append(random.uniform(0.2, 2, shape).astype(dtype))
    return tuple(drawn)


def gradient_trials(
    example: Arrays, types: Mapping[str, TensorType], takes: Callable[[Arrays], bool]
) -> Iterator[tuple[Trial, ...]]:
    """Yield other sizes of an example, and values that are not kind.

    Parameters
    ----------
    example : tuple of ndarray
    types : mapping of str to TensorType
        Of the inputs.
    takes : callable
        Whether the model takes such inputs.

    Yields
    ------
    tuple of Trial
        A trial, and those that are to be tried instead if the model does not take it.
    """
    trials = list(_size_trials(example, types))
    base = next((trial.inputs for trial in trials if takes(trial.inputs)), example)
    # The first sizes are larger than the example, so that values can be drawn in them.
    larger = trials[1 : 1 + _LARGER]
    for trial in trials[1 + _LARGER :]:
        yield (trial,)
    for seed, (name, factor) in enumerate(_SETS):
        # A step that float16 can see goes round the circle there, from one pole of Tan to the next.
        if factor > 1 and any(array is not None and array.dtype == np.float16 for array in base):
            continue
        described = name if factor == 1 else f"{name} times {factor:g}"
        trial = Trial(described, _filled(base, name, factor, seed))
        if seed >= len(larger):
            yield (trial,)
            continue
        # Most models take another size and other values at once, which saves runs.
        size = larger[seed]
        both = Trial(f"{described}, {size.name}", _filled(size.inputs, name, factor, seed))
        yield both, size, trial


def _size_trials(example: Arrays, types: Mapping[str, TensorType]) -> Iterator[Trial]:
    """Yield the example, then other sizes of its free dimensions."""
    dims: list[list[int | str]] = []
    free = 0
    for name, tensor_type in types.items():
        axes: list[int | str] = []
        for axis, dim in enumerate(tensor_type.shape or ()):
            axes.append(f"{name}_{axis}" if dim is None else dim)
        free += sum(isinstance(dim, str) for dim in axes)
        dims.append(axes)
    trials = draw_trials([example], dims=dims, finite=True, empty=False)
    yield from islice(trials, 1 + _MAX_SIZES if free else 1)


def _filled(inputs: Arrays, name: str, factor: float, seed: int) -> Arrays:
    """Draw all floats from a set of values, and leave integers and texts as they are."""
    values = _VALUES[name]
    random = np.random.default_rng(seed)
    filled: list[np.ndarray | None] = []
    for array in inputs:
        if array is not None and is_float(array):
            array = (factor * random.choice(values, array.shape)).astype(array.dtype)
        filled.append(array)
    return tuple(filled)
