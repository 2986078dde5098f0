"""HyperConnectionLowRankMix of com.microsoft, the mixing of residual streams between blocks.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula and its contract of numbers: each step is rounded to the dtype once. Tested
against a loop by its definition, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.precision import sigmoid, widen

NAMES = ("com.microsoft::HyperConnectionLowRankMix",)


class HyperConnectionLowRankMix:
    """Mix the residual streams into the input of the next block.

    The second output has the gates with which that block's output is added to each stream, the
    third one the streams with the output of the block before added.
    """

    def __init__(
        self,
        num_branches: int,
        epsilon: float = 1e-5,
        gate_div: float = 1.0,
        gate_mul: float = 1.0,
        reduction_scale: float = 1.0,
        silu_alpha: float = 1.0,
    ):
        self.branches = num_branches
        self.epsilon = np.float32(epsilon)
        self.gate_div = np.float32(gate_div)
        self.gate_mul = np.float32(gate_mul)
        self.reduction_scale = np.float32(reduction_scale)
        self.silu_alpha = np.float32(silu_alpha)

    def infer(self, streams, *others):
        if not streams.shape:
            return streams, streams, streams
        *front, width = streams.shape
        if isinstance(width, int):
            hidden = width // self.branches
        else:
            hidden = None
        mixed = streams.like(shape=(*front, hidden))
        gates = streams.like(shape=(*front, self.branches))
        return mixed, gates, streams

    def compute(
        self,
        streams,
        norm_scale,
        down_weight,
        up_weight,
        inject_weight,
        block_output=None,
        post_gate=None,
    ) -> ("any[...]", "any[...]", "any[...]"):
        dtype = streams.dtype

        def rounded(x):
            return x.astype(dtype).astype(np.float32)

        flat_shape = streams.shape
        split_shape = (*flat_shape[:-1], self.branches, flat_shape[-1] // self.branches)
        mixed = widen(streams).reshape(split_shape)
        if block_output is not None:
            # The output of the block before goes into each stream by its own gate.
            injected = widen(post_gate)[..., None] * widen(block_output)[..., None, :]
            mixed = rounded(mixed + injected)
        # The root is taken for each branch, over its own features.
        root = np.square(mixed).mean(axis=-1, keepdims=True) + self.epsilon
        root = np.sqrt(root)
        normalized = mixed / root * widen(norm_scale).reshape(split_shape[-2:])
        normalized = rounded(normalized)
        rows = normalized.reshape(flat_shape)
        scaled = self.silu_alpha * rounded(rows @ widen(down_weight))
        scaled = rounded(scaled)
        hidden = scaled * rounded(sigmoid(scaled))
        hidden = rounded(hidden)
        gates = rounded(hidden @ widen(up_weight))
        gates = sigmoid(gates)
        gates = rounded(gates)
        gates = gates.reshape(split_shape)
        # The sum over branches is rounded once, at the end.
        pre_output = self.reduction_scale * (normalized * gates).sum(axis=-2)
        inject = rounded(rows @ widen(inject_weight)) / self.gate_div
        inject = rounded(inject)
        next_gate = rounded(sigmoid(inject)) * self.gate_mul
        return (
            pre_output.astype(dtype),
            next_gate.astype(dtype),
            mixed.reshape(flat_shape).astype(dtype),
        )
