"""LSTM of ONNX before version 7, which says by an attribute whether all outputs are wanted.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, LSTM-1. Differs: where the attribute
``output_sequence`` is 0 and the node still has the first output, it is given. Tested against
the ONNX Runtime LSTM of version 7, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.recurrent import find_activations, infer_layer, run_layer

NAMES = ("::LSTM",)
VERSIONS = (1,)


class LSTM_1:
    """Run a layer of long short-term memory, whose gates are input, output, forget and cell."""

    def __init__(
        self,
        hidden_size: int,
        activations: list[str] = ["Sigmoid", "Tanh", "Tanh"] * 2,
        direction: str = "forward",
        input_forget: int = 0,
        output_sequence: int = 0,
        clip: float = 0.0,
        activation_alpha: list[float] = [],
        activation_beta: list[float] = [],
    ):
        self.size = hidden_size
        self.activations = find_activations(activations, activation_alpha, activation_beta)
        self.direction = direction
        self.couples_gates = bool(input_forget)
        self.clip = clip or np.inf

    def infer(
        self, x, weight, recurrence, bias=None, lengths=None, hidden=None, cell=None, peephole=None
    ):
        return infer_layer(x, self.direction, self.size, states=2)

    def compute(
        self, x, weight, recurrence, bias=None, lengths=None, hidden=None, cell=None, peephole=None
    ) -> ("any[T,D,B,H]", "any[D,B,H]", "any[D,B,H]"):
        def step(number, row, states):
            total = row @ widen(weight[number]).T
            total = total + states[0] @ widen(recurrence[number]).T
            if bias is not None:
                total = total + widen(bias[number]).reshape(2, -1).sum(0)
            peeps = np.zeros((3, self.size), row.dtype)
            if peephole is not None:
                peeps = widen(peephole[number]).reshape(3, self.size)
            return self._step(number, np.split(total, 4, axis=-1), states[1], peeps)

        outputs, last = run_layer(
            x,
            step,
            direction=self.direction,
            lengths=lengths,
            states=[hidden, cell],
            size=self.size,
        )
        hidden_state, cell_state = (state.astype(x.dtype) for state in last)
        return outputs.astype(x.dtype), hidden_state, cell_state

    def _step(self, number, gates, cell, peeps):
        """Return the new hidden state and the new cell."""
        # A direction has three activations.
        gate, squash, show = self.activations[3 * number : 3 * number + 3]
        limits = (-self.clip, self.clip)
        enter = gates[0] + peeps[0] * cell
        enter = enter.clip(*limits)
        enter = gate(enter)
        forget = gates[2] + peeps[2] * cell
        forget = forget.clip(*limits)
        forget = gate(forget)
        if self.couples_gates:
            forget = 1 - enter
        content = squash(gates[3].clip(*limits))
        fresh = forget * cell + enter * content
        # Only the output gate looks at the new cell.
        leave = gates[1] + peeps[1] * fresh
        leave = leave.clip(*limits)
        leave = gate(leave)
        return [leave * show(fresh), fresh]
