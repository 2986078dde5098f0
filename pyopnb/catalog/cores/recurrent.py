"""Recurrent layers of early ONNX versions: activations, types, and a step over each sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyopnb.catalog.cores.precision import sigmoid, widen
from pyopnb.engine import TensorType

__all__ = ["find_activations", "infer_layer", "run_layer"]

_Step = Callable[[int, np.ndarray, list[np.ndarray]], list[np.ndarray]]

# Each takes alpha and beta; the numbers are the defaults of the ones that it has.
_ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], *tuple[float, ...]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "elu": (lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x), 1.0),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "leakyrelu": (lambda x, alpha: np.where(x < 0, alpha * x, x), 0.01),
    "relu": (lambda x: np.maximum(x, 0),),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), 1.0, 1.0),
    "sigmoid": (sigmoid,),
    "softplus": (lambda x: np.logaddexp(x, 0),),
    "softsign": (lambda x: x / (1 + np.abs(x)),),
    "tanh": (np.tanh,),
    "thresholdedrelu": (lambda x, alpha: np.where(x > alpha, x, 0), 1.0),
}


def find_activations(
    names: Sequence[str], alphas: Sequence[float] = (), betas: Sequence[float] = ()
) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Return the activations of a layer.

    Activations with alpha or beta take the next number of the list, or their default where the list
    has ended.

    Raises
    ------
    ValueError
        An activation is unknown.
    """
    numbers = (iter(alphas), iter(betas))
    found = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            expected = ", ".join(_ACTIVATIONS)
            raise ValueError(f"activations: expected {expected}, got {name}")
        function, *defaults = _ACTIVATIONS[name.lower()]
        values = [next(list_, default) for list_, default in zip(numbers, defaults, strict=False)]
        found.append(_with_numbers(function, values))
    return found


def _with_numbers(
    function: Callable[..., np.ndarray], values: Sequence[float]
) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: function(x, *values)


def infer_layer(x: TensorType, direction: str, size: int, states: int) -> tuple[TensorType, ...]:
    """Infer the types of all outputs, float[T,D,B,H], and of the last states, float[D,B,H] each."""
    steps, batch = (x.shape or (None, None))[:2]
    directions = 2 if direction == "bidirectional" else 1
    last = x.like(shape=(directions, batch, size))
    return x.like(shape=(steps, directions, batch, size)), *[last] * states


def run_layer(
    x: np.ndarray,
    step: _Step,
    *,
    direction: str,
    lengths: np.ndarray | None,
    states: Sequence[np.ndarray | None],
    size: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Run a step over each sequence, in one direction or in both.

    Parameters
    ----------
    x : ndarray
        float[T,B,I].
    step : callable
        Takes the number of the direction, the inputs of a step, float[B,I], and the states; returns
        new states. The first state is the output.
    direction : {"forward", "reverse", "bidirectional"}
    lengths : ndarray, optional
        int[B]; a sequence that has ended keeps its states, and its outputs are 0.
    states : sequence of (ndarray or None)
        The first ones, float[D,B,H]; 0 where None.
    size : int
        H.

    Returns
    -------
    outputs, states : ndarray, list of ndarray
        float[T,D,B,H], and the last states, float[D,B,H] each.
    """
    steps, batch = x.shape[:2]
    # The first versions had a slip of the pen in the default, "foward", which files repeat.
    reversals = {"reverse": [True], "bidirectional": [False, True]}
    directions = reversals.get(direction, [False])
    if lengths is None:
        counts = np.full(batch, steps)
    else:
        counts = lengths
    # States would lose digits at each step in float16.
    values = widen(x)
    shape = (steps, len(directions), batch, size)
    outputs = np.zeros(shape, values.dtype)
    last = [np.zeros((len(directions), batch, size), values.dtype) for _ in states]
    for number, is_reversed in enumerate(directions):
        current = []
        for state in states:
            zeros = np.zeros((batch, size), values.dtype)
            current.append(zeros if state is None else widen(state[number]))
        for time in range(steps):
            # A reversed sequence starts at its own last element, which padding may follow.
            if is_reversed:
                positions = counts - 1 - time
            else:
                positions = np.full(batch, time)
            # A sequence that has ended keeps its state.
            is_running = (time < counts)[:, None]
            rows = np.arange(batch)
            fresh = step(number, values[positions, rows], current)
            current = [
                np.where(is_running, new, old) for new, old in zip(fresh, current, strict=True)
            ]
            running = np.flatnonzero(is_running)
            outputs[positions[running], number, running] = current[0][running]
        for number_of_state, state in enumerate(current):
            # As in ONNX Runtime, an empty sequence has no last state.
            last[number_of_state][number] = np.where(counts[:, None] > 0, state, 0)
    return outputs, last
