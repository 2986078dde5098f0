"""GRUUnit, one step of a GRU from Caffe2.

Defined in onnx/onnx v1.2.2, docs/Operators.md, as an experimental operator without a formula; the
formula comes from pytorch/pytorch v1.13.1, caffe2/operators/gru_unit_op.h. Tested against its
formula in NumPy in float64, to 1e-5.
"""

import numpy as np

NAMES = ("::GRUUnit",)


class GRUUnit:
    """Mix the hidden state with a new one, by gates whose activations are applied here.

    The gates are reset, which is not used, update and output, one after the other. A sequence that
    has ended keeps its state, or is 0 with ``drop_states``.
    """

    def __init__(self, drop_states: int = 0):
        self.drops_states = bool(drop_states)

    def infer(self, hidden, gates, lengths, step):
        return hidden

    def compute(self, hidden, gates, lengths, step):
        size = hidden.shape[-1]
        if gates.shape[-1] != 3 * size:
            raise ValueError(f"gates: expected {3 * size} in the last axis, got {gates.shape[-1]}")
        # The reset gate is the first third, and Caffe2 never applies it.
        update = np.exp(-gates[..., size : 2 * size])
        update = 1 / (1 + update)
        output = np.tanh(gates[..., 2 * size :])
        mixed = hidden * update
        mixed = mixed + output * (1 - update)
        # A sequence of length n has steps 0 to n - 1.
        has_ended = int(step.ravel()[0]) >= lengths[:, None]
        if self.drops_states:
            past = np.zeros_like(hidden)
        else:
            past = hidden
        return np.where(has_ended, past, mixed).astype(hidden.dtype)

    lowered_opset = 18
    lowered_finite = True

    def lowered(self, hidden, gates, lengths, step):
        past = "Sub(hidden, hidden)" if self.drops_states else "Identity(hidden)"
        return f"""(hidden, gates, lengths, step) => (next) {{
            reset, raw_update, raw_output = Split<axis = -1, num_outputs = 3>(gates)
            update = Sigmoid(raw_update)
            output = Tanh(raw_output)
            one = Constant<value_float = 1.0>()
            one_like = CastLike(one, hidden)
            remainder = Sub(one_like, update)
            old_part = Mul(hidden, update)
            new_part = Mul(output, remainder)
            mixed = Add(old_part, new_part)
            column = Constant<value_ints = [1]>()
            flat = Constant<value_ints = [-1]>()
            every_step = Reshape(step, flat)
            start = Constant<value_int = 0>()
            first = Gather<axis = 0>(every_step, start)
            length_column = Unsqueeze(lengths, column)
            has_ended = GreaterOrEqual(first, length_column)
            past = {past}
            next = Where(has_ended, past, mixed)
        }}"""
