"""Compare a compiled ``compute`` with Python's before it serves.

The rules in `numba_rules` say which operations Numba computes as NumPy does. This looks at the
numbers themselves, on small inputs of the node's types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from pyopnb.compile.line_count import TooManyLines, count_lines
from pyopnb.ops.types import TensorType
from pyopnb.testing.subject import Draws
from pyopnb.testing.verify import Trial, draw_trials, verify

__all__ = ["compare_with_python"]

_MOST_LINES = 300_000
"""Of Python, over all trials: half a second on most machines. A body that needs Numba is slow in
Python, and a single call of it could take minutes."""
_SMALLEST = 3  # size of the first dimension that the node leaves open
# Fixed sizes are cut to this where an input has more than _MAX_ELEMENTS, too many for Python.
_LARGEST = 16
_MAX_ELEMENTS = 10_000

_Types = Sequence[TensorType | None]


def compare_with_python(
    compute: Callable[..., Any],
    attributes: Mapping[str, Any],
    compiled: Callable[..., Any],
    inputs: _Types,
    outputs: _Types,
) -> str:
    """Compare a compiled function with the Python function that it was compiled from.

    Parameters
    ----------
    compute : callable
        The function in Python.
    attributes : mapping
        Those of ``self`` that the compiled function has.
    compiled : callable
    inputs, outputs : sequence of (TensorType or None)
        Of the node, with the ranks of all inputs; None for what is left out.

    Returns
    -------
    str
        The first disagreement; empty if there is none.
    """
    # Neither function gets the user's instance: compute that compiles reads these attributes alone.
    instance = SimpleNamespace(**attributes)
    budget = _Budget()

    def original(*arrays: np.ndarray | None) -> list[np.ndarray]:
        with budget.counted():
            return _arrays(compute(instance, *arrays), outputs)

    def converted(*arrays: np.ndarray | None) -> list[np.ndarray]:
        return _arrays(compiled(*arrays), outputs)

    draws = Draws(count(_SMALLEST))
    example: list[np.ndarray | None] = []
    dims: list[Any] = []
    for type_ in _small_types(inputs):
        example.append(None if type_ is None else draws.array(type_))
        dims.append(None if type_ is None else type_.shape)
    # Results often change at the numbers that a body compares with.
    numbers = _numbers_of(compute.__code__, attributes)
    trials = draw_trials([tuple(example)], dims=dims, constants=numbers)
    try:
        # A call that raises in compiled code is repeated in Python, so it is no disagreement.
        verification = verify(original, converted, budget.announced(trials), both_raise=True)
    except TooManyLines:
        # Python ran long enough, and agreed so far. Only the reuse of buffers remains to be tried.
        verification = verify(original, converted, [Trial("the example", tuple(example))])
    return str(verification.disagreement or "")


class _Budget:
    """The lines of Python that are left for the trials."""

    def __init__(self) -> None:
        self._left = _MOST_LINES
        self._is_first = False

    def announced(self, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Yield trials, whose first calls are paid from what is left."""
        for trial in trials:
            self._is_first = True
            yield trial
        self._is_first = False

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Run Python; raise `TooManyLines` where a trial takes more lines than are left.

        Inputs that round otherwise could keep an iteration from its end, which is a `TimeoutError`.
        """
        if self._is_first:
            self._is_first = False
            with count_lines(self._left) as lines:
                yield
            self._left -= lines.lines
            return
        try:
            with count_lines(_MOST_LINES):
                yield
        except TooManyLines:
            raise TimeoutError from None


def _arrays(returned: Any, outputs: _Types) -> list[np.ndarray]:
    results = returned if isinstance(returned, tuple) else (returned,)
    arrays = []
    for result, type_ in zip(results, outputs, strict=False):
        # The node lacks an output that has no type.
        if type_ is not None:
            # A copy, as ONNX Runtime takes: a result may be an input, whose buffer is filled again.
            arrays.append(np.array(result))
    return arrays


def _numbers_of(code: CodeType, attributes: Mapping[str, Any]) -> set[float]:
    """Collect the numbers in a body and on ``self``: results often change there."""
    numbers: set[float] = set()
    values: list[Any] = [*attributes.values(), *code.co_consts]
    while values:
        value = values.pop()
        # The constants of functions inside compute.
        if isinstance(value, CodeType):
            values.extend(value.co_consts)
        elif isinstance(value, tuple):
            values.extend(value)
        elif isinstance(value, (int, float, np.integer, np.floating)):
            numbers.add(float(value))
    # Inputs of int64 are made near these numbers; infinity is among the inputs anyway.
    return {number for number in numbers if -(2**63) < number < 2**63}


# ---- inputs --------------------------------------------------------------------------------------


def _small_types(inputs: _Types) -> list[TensorType | None]:
    """Give all dimensions that are not fixed one name, and cut large fixed sizes.

    Python refuses most inputs where sizes have to be equal and no type says so.
    """
    small: list[TensorType | None] = []
    # Python would loop over a large fixed size for minutes.
    most = _largest_size(inputs)
    for type_ in inputs:
        if type_ is None:
            small.append(None)
            continue
        dims = [min(dim, most) if isinstance(dim, int) else "N" for dim in type_.shape or ()]
        small.append(type_.like(shape=dims))
    return small


def _largest_size(inputs: _Types) -> int:
    """Return the size to which fixed sizes are cut; compiled code reads the sizes in each call."""
    elements = 0
    for type_ in inputs:
        if type_ is not None:
            sizes = [dim for dim in type_.shape or () if isinstance(dim, int)]
            elements = max(elements, math.prod(sizes))
    if elements > _MAX_ELEMENTS:
        return _LARGEST
    return _MAX_ELEMENTS
