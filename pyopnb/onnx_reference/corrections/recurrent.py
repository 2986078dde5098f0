"""LSTM, GRU and RNN, with all of their attrs and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.catalog import GRU_1, LSTM_1, RNN_1

__all__ = ["gru", "lstm", "rnn"]


def lstm(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    """Run LSTM."""
    return _run(LSTM_1, *inputs, **attrs)


def gru(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    """Run GRU."""
    return _run(GRU_1, *inputs, **attrs)


def rnn(*inputs: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
    """Run RNN."""
    return _run(RNN_1, *inputs, **attrs)


def _run(
    layer: Any,
    x: np.ndarray,
    weight: np.ndarray,
    recurrence: np.ndarray,
    bias: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    *states: np.ndarray | None,
    layout: int = 0,
    **attrs: Any,
) -> tuple[np.ndarray, ...]:
    # The first version computes the same; it wants the size, and cannot have the batch first.
    attrs.setdefault("hidden_size", recurrence.shape[-1])
    run = layer(**attrs).compute
    if not layout:
        return tuple(run(x, weight, recurrence, bias, lengths, *states))
    peephole = states[2:]
    turned = [None if state is None else state.swapaxes(0, 1) for state in states[:2]]
    outputs, *last = run(x.swapaxes(0, 1), weight, recurrence, bias, lengths, *turned, *peephole)
    return outputs.transpose(2, 0, 1, 3), *[state.swapaxes(0, 1) for state in last]
