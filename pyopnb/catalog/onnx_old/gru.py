"""GRU of ONNX before version 7, which says by an attribute whether all outputs are wanted.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, GRU-1 and GRU-3. Differs: where the attribute
``output_sequence`` is 0 and the node still has the first output, it is given. Tested against
the ONNX Runtime GRU of version 7, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.recurrent import find_activations, infer_layer, run_layer

NAMES = ("::GRU",)
VERSIONS = (1, 3)


class GRU_1:
    """Run a layer of gated recurrent units, whose gates are update, reset and hidden."""

    def __init__(
        self,
        hidden_size: int,
        activations: list[str] = ["Sigmoid", "Tanh", "Sigmoid", "Tanh"],
        direction: str = "forward",
        linear_before_reset: int = 0,
        output_sequence: int = 0,
        clip: float = 0.0,
        activation_alpha: list[float] = [],
        activation_beta: list[float] = [],
    ):
        self.size = hidden_size
        self.activations = find_activations(activations, activation_alpha, activation_beta)
        self.direction = direction
        self.resets_last = bool(linear_before_reset)
        self.clip = clip or np.inf

    def infer(self, x, weight, recurrence, bias=None, lengths=None, state=None):
        return infer_layer(x, self.direction, self.size, states=1)

    def compute(
        self, x, weight, recurrence, bias=None, lengths=None, state=None
    ) -> ("any[T,D,B,H]", "any[D,B,H]"):
        def step(number, row, states):
            weights = widen(weight[number]).reshape(3, self.size, -1)
            recurrences = widen(recurrence[number]).reshape(3, self.size, -1)
            biases = np.zeros((2, 3, self.size), row.dtype)
            if bias is not None:
                biases = widen(bias[number]).reshape(2, 3, self.size)
            # A direction has two activations.
            gate, hide = self.activations[2 * number : 2 * number + 2]
            (hidden,) = states
            # The three gates at once: [gate,batch,hidden].
            inputs = row @ weights.transpose(0, 2, 1)
            inputs = inputs + biases[0][:, None]
            echoes = hidden @ recurrences[:2].transpose(0, 2, 1)
            echoes = echoes + biases[1][:2, None]
            gates = inputs[:2] + echoes
            gates = gates.clip(-self.clip, self.clip)
            update, reset = gate(gates)
            if self.resets_last:
                echo = reset * (hidden @ recurrences[2].T + biases[1, 2])
            else:
                echo = (reset * hidden) @ recurrences[2].T
                echo = echo + biases[1, 2]
            candidate = inputs[2] + echo
            candidate = candidate.clip(-self.clip, self.clip)
            candidate = hide(candidate)
            return [(1 - update) * candidate + update * hidden]

        outputs, last = run_layer(
            x, step, direction=self.direction, lengths=lengths, states=[state], size=self.size
        )
        return outputs.astype(x.dtype), last[0].astype(x.dtype)
