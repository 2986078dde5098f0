"""RNN of ONNX before version 7, which says by an attribute whether all outputs are wanted.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, RNN-1. Differs: where the attribute
``output_sequence`` is 0 and the node still has the first output, it is given. Tested against
the ONNX Runtime RNN of version 7, to 1e-4.
"""

from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.recurrent import find_activations, infer_layer, run_layer

NAMES = ("::RNN",)
VERSIONS = (1,)


class RNN_1:
    """Run a simple recurrent layer: h = f(W·x + R·h + b)."""

    def __init__(
        self,
        hidden_size: int,
        activations: list[str] = ["Tanh", "Tanh"],
        direction: str = "forward",
        output_sequence: int = 0,
        clip: float = 0.0,
        activation_alpha: list[float] = [],
        activation_beta: list[float] = [],
    ):
        self.size = hidden_size
        self.activations = find_activations(activations, activation_alpha, activation_beta)
        self.direction = direction
        self.clip = clip

    def infer(self, x, weight, recurrence, bias=None, lengths=None, state=None):
        return infer_layer(x, self.direction, self.size, states=1)

    def compute(
        self, x, weight, recurrence, bias=None, lengths=None, state=None
    ) -> ("any[T,D,B,H]", "any[D,B,H]"):
        def step(number, row, states):
            # One gate: the activation of the weighted sum.
            total = row @ widen(weight[number]).T
            total = total + states[0] @ widen(recurrence[number]).T
            if bias is not None:
                # The bias of the input comes before the bias of the recurrence.
                total = total + widen(bias[number]).reshape(2, -1).sum(0)
            if self.clip:
                total = total.clip(-self.clip, self.clip)
            return [self.activations[number](total)]

        outputs, last = run_layer(
            x, step, direction=self.direction, lengths=lengths, states=[state], size=self.size
        )
        return outputs.astype(x.dtype), last[0].astype(x.dtype)
